"""A ticket as Redis has it."""

import pytest
from msgspec.msgpack import encode

from streamscribe.core.errors import InternalError
from streamscribe.core.ids import SessionId
from streamscribe.ports import Place, Ticket
from streamscribe.store.redis_tickets import places_text, ticket_of, ticket_text
from tests.contracts.bus import opened

S1 = SessionId("s1")
TICKET = Ticket(S1, SessionId("call-s1"), "g1", b"\0digest", opened("s1"), (Place(0, 7, 0), Place(3, 20, 1)))
STORED = {"ticket": ticket_text(TICKET), "places": places_text(TICKET.places).encode(), "gateway": b"g1"}


def test_what_was_written_is_read() -> None:
    assert ticket_of(S1, **STORED) == TICKET


@pytest.mark.parametrize("field", STORED)
def test_one_of_which_something_is_missing_is_none(field: str) -> None:
    assert ticket_of(S1, **{**STORED, field: None}) is None


@pytest.mark.parametrize(
    ("field", "value"),
    [
        *(("ticket", text) for text in (b"", b"\x93\x7f\x01", encode(["no id at all", b"d", b"\xc0"]))),
        ("ticket", encode(["no/id", b"d", STORED["ticket"][-10:]])),
        *(("places", text) for text in (b"", b"1:2", b"1:2:x", b"1:2:3:4:5:a", b"\xff")),
        ("gateway", b"\xff"),
    ],
)
def test_one_that_nobody_can_read_is_an_error_of_its_session(field: str, value: bytes) -> None:
    with pytest.raises(InternalError):
        ticket_of(S1, **{**STORED, field: value})
