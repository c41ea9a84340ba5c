"""A session's ticket as Redis has it: two fields of the session's hash, beside its gateway's name."""

import msgspec

from streamscribe.core.errors import BadRequest, InternalError
from streamscribe.core.ids import SessionId
from streamscribe.core.records import SessionOpened
from streamscribe.ports import Place, Ticket
from streamscribe.wire.bus_records import decode_record, encode_record

TICKET_FIELDS = ("ticket", "places", "gateway")

_Stored = tuple[str, bytes, bytes]
_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(_Stored).decode


def ticket_text(ticket: Ticket) -> bytes:
    """What does not change when the session moves."""
    return _encode((str(ticket.called), ticket.token_digest, encode_record(ticket.opened)))


def places_text(places: tuple[Place, ...]) -> str:
    """`partition:offset:generation` of each."""
    return " ".join(f"{place.partition}:{place.offset}:{place.generation}" for place in places)


def ticket_of(
    session_id: SessionId, ticket: bytes | None, places: bytes | None, gateway: bytes | None
) -> Ticket | None:
    """The ticket, if there is one. Raises InternalError for one that this version cannot read."""
    if ticket is None or places is None or gateway is None:
        return None
    try:
        called, digest, opened = _decode(ticket)
        record = decode_record(opened)
        where = tuple(Place(*map(int, place.split(":"))) for place in places.decode().split())
    except (msgspec.MsgspecError, BadRequest, ValueError, TypeError):
        raise InternalError("the store has the session's ticket in a form that is not known here") from None
    if not isinstance(record, SessionOpened):
        raise InternalError("the store has something else in a ticket's place")
    return Ticket(session_id, SessionId(called), gateway.decode(), digest, record, where)
