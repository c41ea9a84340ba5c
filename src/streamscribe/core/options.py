"""What a client asks of a session, validated once; dialects build it, workers read it."""

from dataclasses import dataclass, field
from enum import StrEnum

from streamscribe.core.audio import AudioFormat

MIN_SILENCE_MS, MAX_SILENCE_MS = 100, 6_000
MIN_SPEECH_MS, MAX_SPEECH_MS = 0, 1_000
MIN_CHUNK_MS, MAX_CHUNK_MS = 60, 6_000
MIN_SEGMENT_MS, MAX_SEGMENT_MS = 1_000, 28_000
"""A segment and what is put around it must fit the 30 s that the embedded model hears at once."""

MAX_HOTWORDS = 100
MAX_HOTWORD_CHARS = 64


class Mode(StrEnum):
    """Which passes run: `online` partials and first-pass finals, `offline` finals only, `2pass` both."""

    ONLINE = "online"
    OFFLINE = "offline"
    TWO_PASS = "2pass"

    @property
    def last_pass(self) -> int:
        """The pass whose finals nothing follows."""
        return 1 if self is Mode.ONLINE else 2


class Latency(StrEnum):
    """How long the chunks of the first pass are: short ones are told sooner, long ones cost less.

    `adaptive` begins like `balanced` and takes longer chunks while the server lags behind.
    """

    LOW = "low"
    BALANCED = "balanced"
    THROUGHPUT = "throughput"
    ADAPTIVE = "adaptive"


class Task(StrEnum):
    """Text in the language spoken, or translated to English."""

    TRANSCRIBE = "transcribe"
    TRANSLATE = "translate"


@dataclass(frozen=True, slots=True)
class Hotword:
    """A biasing phrase; `weight` is relative, 1.0 is neutral."""

    phrase: str
    weight: float = 1.0


@dataclass(frozen=True, slots=True)
class IgnoredHotword:
    """A phrase of a client's list that was not taken, as far as a phrase may be long, and why."""

    phrase: str
    reason: str


@dataclass(frozen=True, slots=True)
class EndpointOptions:
    """When speech counts as ended. Times in milliseconds; None takes the server's default.

    Voice shorter than `min_speech_ms` is no segment. Raises ValueError that names the field for what is out of bounds.
    """

    silence_ms: int | None = None
    max_segment_ms: int | None = None
    min_speech_ms: int | None = None

    def __post_init__(self) -> None:
        _check("endpoint.silence_ms", self.silence_ms, MIN_SILENCE_MS, MAX_SILENCE_MS)
        _check("endpoint.max_segment_ms", self.max_segment_ms, MIN_SEGMENT_MS, MAX_SEGMENT_MS)
        _check("endpoint.min_speech_ms", self.min_speech_ms, MIN_SPEECH_MS, MAX_SPEECH_MS)


@dataclass(frozen=True, slots=True)
class SessionOptions:
    """A session's wishes. `language` None means: recognise it. `live` False marks a file, which is never paced.

    `ignored_hotwords` were asked for too; the client is told of them, and they go no further than the gateway.
    `chunk_ms` is the first pass's chunk, of those that the model offers the nearest; None leaves it to `latency`.
    Without `store` no cache keeps anything of the session. Raises ValueError that names the field for what is out of
    bounds.
    """

    audio: AudioFormat = field(default_factory=AudioFormat)
    mode: Mode = Mode.TWO_PASS
    task: Task = Task.TRANSCRIBE
    language: str | None = None
    hotwords: tuple[Hotword, ...] = ()
    ignored_hotwords: tuple[IgnoredHotword, ...] = ()
    words: bool = False
    itn: bool = True
    punctuation: bool = True
    endpoint: EndpointOptions = field(default_factory=EndpointOptions)
    latency: Latency = Latency.BALANCED
    chunk_ms: int | None = None
    sequenced: bool = False
    live: bool = True
    store: bool = True

    def __post_init__(self) -> None:
        _check("chunk_ms", self.chunk_ms, MIN_CHUNK_MS, MAX_CHUNK_MS)


def _check(name: str, value: int | None, least: int, most: int) -> None:
    if value is not None and not least <= value <= most:
        raise ValueError(f"{name} must be {least} to {most}")
