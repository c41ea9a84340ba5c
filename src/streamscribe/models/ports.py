"""The ports of recognition engines. All audio is 16 kHz mono float32 in [-1, 1]; all indices count its samples.

Engines are synchronous and not thread-safe: `models.pool.Replica` owns each in one thread and batches for it.
"""

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from streamscribe.core.ids import SessionId, TenantId, TraceId
from streamscribe.core.options import Hotword, Task
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


Embedding = npt.NDArray[np.float32]
"""What a language model reads of a segment, shape (rows, width), a row for each audio token; never written to once it
was given away."""

EncoderInput = npt.NDArray[np.float32]
"""What an encoder reads of a segment, two-dimensional."""

Identity = tuple[str | int, ...]
"""All that decides a result besides its input: what equal identities make of equal inputs is equal. For cache keys."""


class Window(StrEnum):
    """How much an encoder reads of a segment: its audio and a little, or all that the model was trained on."""

    SHORT = "short"
    FULL = "full"


@dataclass(frozen=True, slots=True)
class VadOptions:
    """A session's endpoint rules. `silence_ms`, by default FunASR's, ends a voice; nothing else does.

    Voice that grows too long is cut by `core.endpoint`, which finds a better place.
    """

    silence_ms: int = 800


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

    @property
    def memory_samples(self) -> int:
        """How much of the newest audio a state depends on, besides its point."""
        ...

    def open(self, options: VadOptions) -> Any:
        """State of a new stream; of bounded size whatever its age."""
        ...

    def point(self, state: Any) -> tuple[int, ...]:
        """What a state holds that audio of any age may have decided: a few numbers."""
        ...

    def go_on(self, state: Any, point: tuple[int, ...]) -> None:
        """Makes a state equal to the one, of the same options, that gave `point`: all that follows is told alike.

        The state has heard the other's newest audio, from a multiple of `FRAME_SHIFT_SAMPLES` on and in the same
        blocks, at least `memory_samples` of it or all. Raises BadRequest for what no state of this engine gives.
        """
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
class Origin:
    """Which segment a request is about, for who carries it to another process; no hypothesis depends on it."""

    session_id: SessionId
    segment_id: int
    trace_id: TraceId


@dataclass(frozen=True, slots=True)
class SegmentRequest:
    """One segment to recognise. `draft` asks for a cheap decode of a segment that is still open (a partial).

    `frames` are those of `samples`, from its first sample on, where the platform has them already; an engine that
    reads other features computes them from `samples`. `itn` asks a model that can write numbers in digits to do so.
    What an engine keeps of a request (its compiled hot words) serves no other tenant than `tenant_id` (law 9).
    Without `store` nothing that is made of the request is kept once it is answered. `context` is what was said just
    before, for a model that reads on from there. The last request about a segment, the one for its final, has its
    `origin`. After `within_s` nobody wants the answer any more.
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
    store: bool = True
    context: str = ""
    origin: Origin | None = None
    within_s: float | None = None


class SegmentRecognizer(Protocol):
    """Recognises whole segments, batched."""

    @property
    def identity(self) -> Identity:
        """What its hypotheses depend on, besides the requests and the weights' sums."""
        ...

    @property
    def deterministic(self) -> bool:
        """Whether equal requests get equal hypotheses at any time; what is sampled is not kept."""
        ...

    @property
    def max_samples(self) -> int:
        """The longest segment that it takes."""
        ...

    @property
    def tail_padding_ms(self) -> int:
        """How much audio must follow the end of voice, as measured, for no last word to be lost."""
        ...

    def check_language(self, code: str) -> None:
        """Raises BadRequest for a language tag that it does not know; from any thread."""
        ...

    def recognize(self, batch: Sequence[SegmentRequest]) -> list[Hypothesis]:
        """One hypothesis a request, in order; equal requests give equal hypotheses whatever the batch."""
        ...


class AudioEncoder(Protocol):
    """The first half of a recogniser in two steps: what the language model will read of a segment's audio."""

    @property
    def max_samples(self) -> int:
        """The longest segment that it takes."""
        ...

    @property
    def front_end(self) -> Identity:
        """What its `features` depend on, besides the audio."""
        ...

    @property
    def encoder_identity(self) -> Identity:
        """What its embeddings depend on, besides the audio and the weights' sums: class, library versions, front end,
        arithmetic, device, attention, adapters, and the rule of `num_tokens`."""
        ...

    @property
    def width(self) -> int:
        """Columns of an embedding."""
        ...

    def num_tokens(self, samples: int, window: Window = Window.SHORT) -> int:
        """Rows of the embedding of so many samples: the model's own rule."""
        ...

    def features(self, samples: Samples, frames: Frames | None = None, window: Window = Window.SHORT) -> EncoderInput:
        """What the encoder reads, from any thread. Raises AudioTooLong for more than `max_samples`."""
        ...

    def group(self, features: EncoderInput) -> Hashable:
        """What shares a pass of the encoder: only inputs of one group do, the shorter padded to the longest."""
        ...

    def encode(self, batch: Sequence[EncoderInput]) -> list[Embedding]:
        """One embedding each, in order; in the owner's thread. A batch changes no more than rounding."""
        ...


@dataclass(frozen=True, slots=True)
class DecodeRequest:
    """What the language model is given: a complete embedding and what was asked, never audio.

    `silent` says that the segment has no sound that could be speech. `looked` is what an earlier look at the segment
    left (`LookAgain.state`).
    """

    embedding: Embedding
    num_samples: int
    silent: bool = False
    language: str | None = None
    task: Task = Task.TRANSCRIBE
    hotwords: tuple[Hotword, ...] = ()
    words: bool = False
    draft: bool = False
    itn: bool = False
    looked: Any = None
    context: str = ""


@dataclass(frozen=True, slots=True)
class LookAgain:
    """The decoder is not sure of what it heard: it wants the segment encoded in `window`, and `state` back with it."""

    window: Window
    state: Any


class EmbeddingDecoder(Protocol):
    """The second half: a language model that reads embeddings."""

    @property
    def decoder_identity(self) -> Identity:
        """What its texts depend on, besides embeddings, requests and the weights' sums."""
        ...

    def check_language(self, code: str) -> None:
        """Raises BadRequest for a language tag that it does not know; from any thread."""
        ...

    def decode(self, batch: Sequence[DecodeRequest]) -> list[Hypothesis | LookAgain]:
        """One answer each, in order; equal requests get equal answers whatever the batch.

        A request that has been `looked` at gets a hypothesis.
        """
        ...


class EncoderDecoder(AudioEncoder, EmbeddingDecoder, Protocol):
    """A recogniser in two steps, so that audio is encoded apart from (and before) the language model."""


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

    @property
    def identity(self) -> Identity:
        """What its marks depend on, besides the texts and the weights' sums."""
        ...

    def punctuate(self, batch: Sequence[str]) -> list[tuple[Mark, ...]]:
        """The marks of each text, in order, never before its first character; its last one ends the sentence, and tells
        (`Mark.if_open`) where the model heard no end.

        Equal texts get equal marks whatever the batch.
        """
        ...
