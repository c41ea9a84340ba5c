"""The ports of recognition engines. All audio is 16 kHz mono float32 in [-1, 1]; all indices count its samples.

Engines are synchronous and not thread-safe: `models.pool.Replica` owns each in one thread and batches for it.
"""

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

import numpy as np
import numpy.typing as npt

from streamscribe.core.ids import TenantId
from streamscribe.core.options import MAX_SEGMENT_MS, Hotword, Task
from streamscribe.core.tokens import HypothesisWord as HypothesisWord
from streamscribe.core.tokens import Mark, Token

Samples = npt.NDArray[np.float32]
Frames = npt.NDArray[np.float32]
"""Spectral features of 10 ms frames, shape (frames, bands): frame i is that of samples 160 i to 160 i + 400."""

FRAME_SHIFT_SAMPLES = 160
FRAME_SAMPLES = 400


def frame_count(samples: int) -> int:
    """How many frames end within the first `samples` of a stream."""
    return max(0, (samples - FRAME_SAMPLES) // FRAME_SHIFT_SAMPLES + 1)


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


@dataclass(frozen=True, slots=True)
class Heard:
    """What one block told: changes of the voice, and the frames that it completed.

    The frames of a state follow each other without a gap from sample 0 on, so that a recogniser of the same family
    reads them instead of computing its own. After a block that ends at sample n, all frames that end by n are known.
    """

    events: tuple[VoiceEvent, ...]
    frames: Frames


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

    def step(self, batch: Sequence[VadRequest]) -> list[Heard]:
        """Advances each request's state by its block (never two requests of one state); one result each.

        A step that raises has changed no state, so that the batch can be tried again without the guilty request.
        """
        ...


@dataclass(frozen=True, slots=True)
class Hypothesis:
    """What a model heard in one segment; empty text means that nobody spoke.

    `punctuated` says that the model writes its own punctuation; `emotion` and `events` (laughter, applause...) are
    told by models that hear them.
    """

    text: str
    language: str | None = None
    confidence: float = 0.0
    words: tuple[HypothesisWord, ...] = ()
    punctuated: bool = False
    emotion: str | None = None
    events: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class SegmentRequest:
    """One segment to recognise. `draft` asks for a cheap decode of a segment that is still open (a partial).

    `frames` are those of `samples`, from its first sample on, where the platform has them already; an engine that
    reads other features computes them from `samples`. `itn` asks a model that can write numbers in digits to do so.
    What an engine keeps of a request (its compiled hot words) serves no other tenant than `tenant_id` (law 9).
    """

    samples: Samples
    language: str | None = None
    task: Task = Task.TRANSCRIBE
    hotwords: tuple[Hotword, ...] = ()
    words: bool = False
    draft: bool = False
    frames: Frames | None = None
    itn: bool = False
    tenant_id: TenantId | None = None


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


@dataclass(frozen=True, slots=True)
class ChunkRequest:
    """The next frames of a stream: as many as its chunk has, or with `last` any number up to that, even none.

    `last` ends the stream: what the model still holds comes out, and the state is of no more use.
    """

    state: Any
    frames: Frames
    last: bool = False


class StreamingRecognizer(Protocol):
    """Recognises streams chunk by chunk, many sessions in one model step.

    A stream is one segment: its state is opened at the segment's first frame and dropped at the endpoint.
    """

    @property
    def chunk_choices_ms(self) -> tuple[int, ...]:
        """The chunk lengths that it offers, ascending; a chunk has a frame for each 10 ms."""
        ...

    @property
    def lookahead_ms(self) -> int:
        """How much audio behind a token is heard before it comes out, besides the chunk."""
        ...

    @property
    def tail_padding_ms(self) -> int:
        """Silence that must follow the last sound, as measured, for no last word to be lost."""
        ...

    def open(self, chunk_ms: int) -> Any:
        """State of a new stream, one of `chunk_choices_ms`; of bounded size whatever its age."""
        ...

    def group(self, request: ChunkRequest) -> Hashable:
        """The shape of the request: only those of one group can share a step."""
        ...

    def step(self, batch: Sequence[ChunkRequest]) -> list[tuple[Token, ...]]:
        """Advances each request's state (never two requests of one state); the tokens that came out of each.

        Token positions are samples since the stream began. All states advance or none: a step that raises has changed
        nothing. Equal streams give equal tokens whatever the batch.
        """
        ...

    def state_bytes(self, state: Any) -> int:
        """The size of a state in memory."""
        ...

    def dump(self, state: Any) -> bytes:
        """The state for another process, which `restore` makes equal again."""
        ...

    def restore(self, data: bytes) -> Any:
        """The state that `dump` wrote; raises BadRequest for anything else."""
        ...


class Punctuator(Protocol):
    """Punctuates texts that have no marks, batched."""

    def punctuate(self, batch: Sequence[str]) -> list[tuple[Mark, ...]]:
        """The marks of each text, in order, never before its first character; its last one ends the sentence.

        Equal texts get equal marks whatever the batch.
        """
        ...
