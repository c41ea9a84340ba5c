"""What goes beside a record or an event in the log: Kafka's headers, and the coalesced news of what was processed.

The key is the session's id. Headers are short ASCII texts. They are checked as strictly as values: what another version
wrote, or a stranger, raises BadRequest and nothing else.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from operator import methodcaller
from typing import TYPE_CHECKING

import msgspec

from streamscribe.core.errors import BadRequest
from streamscribe.core.ids import LeaseEpoch, SessionId, TraceId

if TYPE_CHECKING:
    from confluent_kafka import Message

VERSION = b"1"
NO_EPOCH = LeaseEpoch(0)
"""Of a worker that can get no lease for a defect, and says so: where the session has an owner, its word counts more."""

_ask = methodcaller("headers")
"""By a call of C, which looks at what comes back: a quickened `message.headers()` goes on with a list that has holes,
where confluent-kafka has failed at one, and the next look at it ends the process."""

Headers = list[tuple[str, str | bytes | None]]

NO_TRACE = TraceId("unknown")
"""Where no header says it, or none that we write."""

_MAX_NUMBER_DIGITS = 18
_NUMBER_RULE = "a header must be a whole number from 0, of at most 18 digits"


@dataclass(frozen=True, slots=True)
class Moved:
    """The owner of `epoch` tells nothing more here: from now on the gateway of `generation` is told."""

    epoch: LeaseEpoch
    generation: int


@dataclass(frozen=True, slots=True)
class RecordHeaders:
    """Of a record: the partition of `asr-results` that its gateway reads, and the session's audio bytes before it.

    `next_sequence` is that of the chunk which it is, or which would come next; None before the first.
    `generation` says the how manieth gateway of the session published it. Where it is not the first, `SessionOpened`
    announces it: `left` are the partitions of those before.
    """

    reply_to: int
    audio_at: int
    generation: int = 0
    left: tuple[int, ...] = ()
    next_sequence: int | None = None
    trace_id: TraceId = NO_TRACE


@dataclass(frozen=True, slots=True)
class Settled:
    """So far the owner of `epoch` has processed a session: audio bytes and records, counted from its begin."""

    session_id: SessionId
    epoch: LeaseEpoch
    audio_bytes: int
    records: int


def headers_of(message: "Message") -> Headers:
    """The headers of a message, to be asked for once: what a second look would find is no list where one has failed.

    Raises BadRequest for names that are no texts.
    """
    try:
        found = _ask(message) or []
        return list(found.items()) if isinstance(found, dict) else list(found)
    except (SystemError, ValueError):  # confluent-kafka's word for a name that is no UTF-8
        raise BadRequest("the name of a header must be UTF-8", field="headers") from None


def record_headers(
    reply_to: int,
    audio_at: int,
    trace_id: str,
    generation: int = 0,
    left: Sequence[int] = (),
    next_sequence: int | None = None,
) -> Headers:
    """The headers of a record; the trace id is for people's eyes and tools, and for what fails before it is opened."""
    headers: Headers = [
        ("v", VERSION),
        ("reply-to", b"%d" % reply_to),
        ("audio-at", b"%d" % audio_at),
        ("trace", trace_id.encode()),
    ]
    if generation:
        headers.append(("generation", b"%d" % generation))
    if next_sequence is not None:
        headers.append(("next-sequence", b"%d" % next_sequence))
    return [*headers, *(("left", b"%d" % number) for number in left)]


def event_headers(epoch: LeaseEpoch, trace_id: str) -> Headers:
    """The headers of an event of the owner of `epoch`."""
    return [("v", VERSION), ("kind", b"event"), ("epoch", b"%d" % epoch), ("trace", trace_id.encode())]


def moved_headers(epoch: LeaseEpoch, generation: int, trace_id: str) -> Headers:
    """The headers of a worker's last word to former gateways: from here on the gateway of `generation` is told."""
    return [
        ("v", VERSION),
        ("kind", b"moved"),
        ("epoch", b"%d" % epoch),
        ("generation", b"%d" % generation),
        ("trace", trace_id.encode()),
    ]


def read_moved(headers: Headers) -> Moved | None:
    """What `moved_headers` say, None for others. Raises BadRequest."""
    found = _read(headers)
    if found.get("kind") != b"moved":
        return None
    return Moved(LeaseEpoch(_number(found, "epoch")), _number(found, "generation"))


def final_headers(trace_id: str) -> Headers:
    """The headers of a request for a final, and of its answer; all else is in the value."""
    return [("v", VERSION), ("trace", trace_id.encode())]


SETTLED_HEADERS: Headers = [("v", VERSION), ("kind", b"settled")]


def read_record_headers(headers: Headers, result_partitions: int) -> RecordHeaders:
    """The headers of a record that can be answered. Raises BadRequest for any others."""
    found = _read(headers)
    generation = _number(found, "generation") if "generation" in found else 0
    left = tuple(_number({"left": text}, "left", result_partitions) for name, text in headers if name == "left")
    if len(left) > result_partitions:
        raise BadRequest(f"the partitions that were left must be at most {result_partitions}", field="left")
    next_sequence = _number(found, "next-sequence") if "next-sequence" in found else None
    reply_to = _number(found, "reply-to", result_partitions)
    return RecordHeaders(reply_to, _number(found, "audio-at"), generation, left, next_sequence, read_trace(headers))


def read_trace(headers: Headers) -> TraceId:
    """The trace that a record or an event belongs to; never raises."""
    text = dict(headers).get("trace")
    try:
        return TraceId(text.decode()) if isinstance(text, bytes) else NO_TRACE
    except ValueError:
        return NO_TRACE


def read_event_headers(headers: Headers) -> LeaseEpoch | None:
    """The epoch of an event, or None for the headers of `Settled`. Raises BadRequest for any others."""
    found = _read(headers)
    match found.get("kind"):
        case b"event":
            return LeaseEpoch(_number(found, "epoch"))
        case b"settled":
            return None
    raise BadRequest("the kind of an event is unknown", field="kind")


def read_key(key: str | bytes | None) -> SessionId:
    """The session whose record or event it is. Raises BadRequest for what is no session's id."""
    try:
        return SessionId(key if isinstance(key, str) else (key or b"").decode())
    except ValueError:
        raise BadRequest("the key must be a session's id", field="key") from None


def encode_settled(settled: Sequence[Settled]) -> bytes:
    """Many sessions' news as one value."""
    return _encoder.encode([(str(one.session_id), one.epoch, one.audio_bytes, one.records) for one in settled])


def decode_settled(data: bytes) -> list[Settled]:
    """What `encode_settled` wrote. Raises BadRequest for anything else."""
    try:
        return [Settled(SessionId(name), LeaseEpoch(epoch), *at) for name, epoch, *at in _decoder.decode(data)]
    except (msgspec.MsgspecError, ValueError):
        raise BadRequest("the value has fields that are not of its kind", field="value") from None


def _read(headers: Headers) -> Mapping[str, str | bytes | None]:
    found = dict(headers)
    if found.get("v") != VERSION:
        raise BadRequest(f"the version of an envelope must be {VERSION.decode()}", field="version")
    return found


def _number(headers: Mapping[str, str | bytes | None], name: str, below: int = 10**_MAX_NUMBER_DIGITS) -> int:
    text = headers.get(name)
    if not isinstance(text, bytes) or not text.isdigit() or len(text) > _MAX_NUMBER_DIGITS:
        raise BadRequest(_NUMBER_RULE, field=name)
    number = int(text)
    if number >= below:
        raise BadRequest(f"a partition must be one of {below}", field=name)
    return number


_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(list[tuple[str, int, int, int]])
