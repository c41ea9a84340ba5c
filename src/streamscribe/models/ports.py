"""The ports of recognition engines. All audio is 16 kHz mono float32 in [-1, 1]; all indices count its samples.

Engines are synchronous and not thread-safe: `models.pool.Replica` owns each in one thread and batches for it.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

import numpy as np
import numpy.typing as npt

from streamscribe.core.options import MAX_SEGMENT_MS, Hotword, Task

Samples = npt.NDArray[np.float32]
Features = TypeVar("Features")
Encoded = TypeVar("Encoded")


@dataclass(frozen=True, slots=True)
class VadOptions:
    """A session's endpoint rules, in milliseconds; defaults are FunASR's but for the longest segment."""

    silence_ms: int = 800
    max_segment_ms: int = MAX_SEGMENT_MS


@dataclass(frozen=True, slots=True)
class VoiceEvent:
    """Voice began (`started`) or ended at sample `at`, counted since the state was opened.

    Events of one state alternate start, end, start, ... `at` of a start may lie before the audio just given (by at
    most the engine's look-back); it never lies before the end of the previous event.
    """

    started: bool
    at: int


@dataclass(frozen=True, slots=True)
class VadRequest:
    """One block of a session's audio for its state; `last` flushes: an open voice is ended."""

    state: Any
    samples: Samples
    last: bool = False


class VoiceActivityDetector(Protocol):
    """Streaming voice activity detection, many sessions in one model call."""

    @property
    def block_samples(self) -> int:
        """The block length that callers feed (only the last may be shorter), so that packet sizes change nothing."""
        ...

    @property
    def lookback_samples(self) -> int:
        """How far before the newest block a start may lie."""
        ...

    def open(self, options: VadOptions) -> Any:
        """State of a new stream; of bounded size whatever its age."""
        ...

    def step(self, batch: Sequence[VadRequest]) -> list[tuple[VoiceEvent, ...]]:
        """Advances each request's state by its block (never two requests of one state); one result each.

        A step that raises has changed no state, so that the batch can be tried again without the guilty request.
        """
        ...


@dataclass(frozen=True, slots=True)
class HypothesisWord:
    """A word with its first and last sample relative to the segment; times are monotone and inside it."""

    text: str
    start: int
    end: int
    confidence: float


@dataclass(frozen=True, slots=True)
class Hypothesis:
    """What a model heard in one segment; empty text means that nobody spoke."""

    text: str
    language: str | None = None
    confidence: float = 0.0
    words: tuple[HypothesisWord, ...] = ()


@dataclass(frozen=True, slots=True)
class SegmentRequest:
    """One segment to recognise. `draft` asks for a cheap decode of a segment that is still open (a partial)."""

    samples: Samples
    language: str | None = None
    task: Task = Task.TRANSCRIBE
    hotwords: tuple[Hotword, ...] = ()
    words: bool = False
    draft: bool = False


class SegmentRecognizer(Protocol):
    """Recognises whole segments, batched."""

    @property
    def max_samples(self) -> int:
        """The longest segment that it takes."""
        ...

    def check_language(self, code: str) -> None:
        """Raises BadRequest for a language tag that it does not know; from any thread."""
        ...

    def recognize(self, batch: Sequence[SegmentRequest]) -> list[Hypothesis]:
        """One hypothesis a request, in order; equal requests give equal hypotheses whatever the batch."""
        ...


class EncoderDecoder(Protocol[Features, Encoded]):
    """A recogniser in two steps, so that audio can be encoded apart from (and before) the language model."""

    @property
    def max_samples(self) -> int:
        """The longest segment that it takes."""
        ...

    def check_language(self, code: str) -> None:
        """Raises BadRequest for a language tag that it does not know; from any thread."""
        ...

    def features(self, request: SegmentRequest) -> Features:
        """What the encoder reads."""
        ...

    def encode(self, batch: Sequence[Features]) -> list[Encoded]:
        """One encoder output each, in order."""
        ...

    def decode(self, batch: Sequence[tuple[SegmentRequest, Encoded]]) -> list[Hypothesis]:
        """One hypothesis each, in order."""
        ...
