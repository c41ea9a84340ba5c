"""What a worker asks finalizers about a segment, and what they answer, as bytes: envelopes of `wire.bus_records`."""

from dataclasses import dataclass
from enum import StrEnum

from streamscribe.core.audio import SAMPLE_RATE
from streamscribe.core.errors import BadRequest, StreamScribeError
from streamscribe.core.fair_share import MAX_WEIGHT
from streamscribe.core.ids import SessionId, TenantId, TraceId
from streamscribe.core.options import Hotword, Task
from streamscribe.core.tokens import HypothesisWord
from streamscribe.wire.bus_records import decode_envelope, decoders_of, encode_envelope

MAX_AUDIO_S = 30
MAX_REQUEST_BYTES = 2**21
"""Of an encoded request: 30 s of float32, and what is asked about them."""


class SampleFormat(StrEnum):
    """How the samples, at 16 kHz, are written: 16 bits where that loses nothing."""

    S16 = "s16le"
    F32 = "f32le"

    @property
    def sample_bytes(self) -> int:
        """Of one sample."""
        return 2 if self is SampleFormat.S16 else 4


@dataclass(frozen=True, slots=True)
class FinalRequest:
    """A segment, what is asked about it, and who asks.

    `asked_by` names the worker, and `number` is that worker's own; the answer goes to partition `reply_to` of the
    finals' topic, for `patience_ms` after it was asked: nobody waits any longer. Equal `fingerprint`s are of equal
    audio and questions. `live`: a person waits. `weight` is the tenant's share.
    """

    session_id: SessionId
    segment_id: int
    trace_id: TraceId
    asked_by: str
    number: int
    reply_to: int
    patience_ms: int
    fingerprint: str
    sample_format: SampleFormat
    audio: bytes
    live: bool = True
    weight: int = 1
    tenant_id: TenantId | None = None
    language: str | None = None
    task: Task = Task.TRANSCRIBE
    hotwords: tuple[Hotword, ...] = ()
    words: bool = False
    itn: bool = False
    store: bool = True
    context: str = ""

    @property
    def samples(self) -> int:
        """How many."""
        return len(self.audio) // self.sample_format.sample_bytes


@dataclass(frozen=True, slots=True)
class FinalHeard:
    """What a finalizer heard, as `models.ports.Hypothesis` has it."""

    text: str
    language: str | None = None
    confidence: float = 0.0
    words: tuple[HypothesisWord, ...] = ()
    punctuated: bool = False
    emotion: str | None = None
    events: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class FinalAnswer:
    """The answer to a worker's request: what was `heard`, or the `error` that the request is to blame for."""

    session_id: SessionId
    asked_by: str
    number: int
    heard: FinalHeard | None = None
    error: StreamScribeError | None = None


def encode_request(request: FinalRequest) -> bytes:
    """The request's envelope; its audio is copied once."""
    return encode_envelope(_REQUEST, request)


def decode_request(data: bytes) -> FinalRequest:
    """The request of an envelope. Raises BadRequest for what is none of this version, whatever the bytes."""
    request = decode_envelope(data, _requests, "a request for a final")
    if len(request.audio) % request.sample_format.sample_bytes or request.samples > MAX_AUDIO_S * SAMPLE_RATE:
        raise BadRequest(f"the audio must be whole samples, of at most {MAX_AUDIO_S} s", field="audio")
    if not 1 <= request.weight <= MAX_WEIGHT:
        raise BadRequest(f"the weight must be 1 to {MAX_WEIGHT}", field="weight")
    if request.patience_ms < 0:
        raise BadRequest("the patience must not be negative", field="patience_ms")
    return request


def encode_answer(answer: FinalAnswer) -> bytes:
    """The answer's envelope."""
    return encode_envelope(_ANSWER, answer)


def decode_answer(data: bytes) -> FinalAnswer:
    """The answer of an envelope. Raises BadRequest for what is none of this version, whatever the bytes."""
    answer = decode_envelope(data, _answers, "a final's answer")
    if (answer.heard is None) == (answer.error is None):
        raise BadRequest("an answer is what was heard, or an error", field="heard")
    return answer


_REQUEST, _ANSWER = 64, 65
_requests = decoders_of({_REQUEST: FinalRequest})
_answers = decoders_of({_ANSWER: FinalAnswer})
