"""A session's ticket as Redis has it: two fields of the session's hash, beside its gateway's name."""

from base64 import urlsafe_b64decode, urlsafe_b64encode
from dataclasses import replace

import msgspec

from streamscribe.core.errors import BadRequest, InternalError
from streamscribe.core.ids import LeaseEpoch, SessionId
from streamscribe.core.records import SessionOpened
from streamscribe.ports import Place, Ticket
from streamscribe.wire.bus_records import decode_record, encode_record

TICKET_FIELDS = ("ticket", "places", "gateway")

MAX_PARTITION, MAX_NUMBER = 2**31 - 1, 2**63 - 1
"""As the log has them."""

_Stored = tuple[str, bytes, bytes]
_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(_Stored).decode


def ticket_text(ticket: Ticket) -> bytes:
    """What does not change when the session moves."""
    return _encode((str(ticket.called), ticket.token_digest, encode_record(ticket.opened)))


def places_text(places: tuple[Place, ...]) -> str:
    """`partition:offset:generation` of each, and with a mark also `:epoch:audio_offset:mark`."""
    return " ".join(map(_place_text, places))


def _place_text(place: Place) -> str:
    text = f"{place.partition}:{place.offset}:{place.generation}"
    if not place.mark:
        return text
    return f"{text}:{place.epoch or 0}:{place.audio_offset}:{urlsafe_b64encode(place.mark).decode()}"


def _place_of(text: str) -> Place:
    """Raises ValueError and TypeError."""
    partition, offset, generation, *marked = text.split(":")
    place = Place(_number(partition, MAX_PARTITION), _number(offset), _number(generation))
    if not marked:
        return place
    epoch, audio_offset, mark = marked
    epoch_then = LeaseEpoch(_number(epoch)) or None
    return replace(place, mark=urlsafe_b64decode(mark), epoch=epoch_then, audio_offset=_number(audio_offset))


def _number(text: str, most: int = MAX_NUMBER) -> int:
    """Raises ValueError."""
    number = int(text)
    if not 0 <= number <= most:
        raise ValueError("a place has no such number")
    return number


def ticket_of(
    session_id: SessionId, ticket: bytes | None, places: bytes | None, gateway: bytes | None
) -> Ticket | None:
    """The ticket, if there is one. Raises InternalError for one that this version cannot read."""
    if ticket is None or places is None or gateway is None:
        return None
    try:
        called, digest, opened = _decode(ticket)
        record = decode_record(opened)
        where = tuple(map(_place_of, places.decode().split()))
        names = SessionId(called), gateway.decode()
    except (msgspec.MsgspecError, BadRequest, ValueError, TypeError):
        raise InternalError("the store has the session's ticket in a form that is not known here") from None
    if not isinstance(record, SessionOpened) or not where:
        raise InternalError("the store has something else in a ticket's place")
    return Ticket(session_id, *names, digest, record, where)
