"""A gateway to which a session comes: what is told of it meanwhile is not lost, nor taken from a former owner."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from streamscribe.bus.kafka.envelope import SETTLED_HEADERS, Settled, encode_settled, event_headers, moved_headers
from streamscribe.bus.kafka.past import Past
from streamscribe.core.errors import BusUnavailable, StoreUnavailable
from streamscribe.core.ids import LeaseEpoch, TenantId
from streamscribe.core.messages import Resume
from streamscribe.core.records import Emitted, Progress
from streamscribe.core.session_io import SessionIdentity
from streamscribe.core.session_past import SessionPast
from streamscribe.gateway.moving import Mover, _digest
from streamscribe.gateway.seats import SeatKeeper
from streamscribe.ports import Place, Tenant, Ticket
from streamscribe.wire.bus_records import encode_event
from tests.bus.kafka_site import TOPICS, A, Site, Wayward, away, seat, virtually
from tests.contracts.bus import opened
from tests.sim.clock import Node
from tests.sim.cluster import KAFKA
from tests.sim.kafka_site import _GatewayEnd
from tests.unit.session_kit import LIMITS

TOKEN = "a.secret"
IDENTITY = SessionIdentity(A, TenantId("default"), opened("a").trace_id, TOKEN, "log")
OLD, NEW = LeaseEpoch(5), LeaseEpoch(6)


class Pasts:
    """Reads a past of one owner, while which the test does something."""

    def __init__(self, epoch: LeaseEpoch | None, meanwhile: Callable[[], None] = lambda: None) -> None:
        self._epoch, self._meanwhile = epoch, meanwhile

    async def read(self, past: Past) -> None:
        past.see(opened("a"), 0, None)
        self._meanwhile()
        await asyncio.sleep(1)
        past.epoch = self._epoch

    async def close(self) -> None: ...


def tell(site: Site, epoch: LeaseEpoch, at_ms: int) -> None:
    site.broker.append(TOPICS.results, 1, A, encode_event(Progress(A, at_ms)), event_headers(epoch, "t"))


def settle(site: Site, epoch: LeaseEpoch) -> None:
    value = encode_settled([Settled(A, epoch, 0, 0)])
    site.broker.append(TOPICS.results, 1, None, value, SETTLED_HEADERS)


def coming_gateway(site: Site, pasts: Any) -> tuple[_GatewayEnd, list[Emitted]]:
    gateway, heard = _GatewayEnd(KAFKA, 5, 2**20, 1), list[Emitted]()
    gateway.begin(site.broker, Node("gateway"))
    gateway._pasts = pasts
    gateway.attach_gateway(heard.append)
    return gateway, heard


async def comes(
    site: Site, told: Callable[[], None], past_epoch: LeaseEpoch | None, left: tuple[int, ...] = (0,)
) -> tuple[_GatewayEnd, list[int]]:
    gateway, heard = coming_gateway(site, Pasts(past_epoch, told))
    places = [Place(partition, 0, generation) for generation, partition in enumerate(left)]
    ticket = Ticket(A, A, "g1", b"", opened("a"), (*places, gateway.here(len(left))))
    past = SessionPast(IDENTITY, LIMITS)
    await gateway.take_over(ticket, past)
    gateway.go_on(A, past)
    tell(site, OLD, 99)
    await asyncio.sleep(1)
    return gateway, [event.processed_ms for event in heard if isinstance(event, Progress)]


@pytest.mark.parametrize("past_epoch", [OLD, None])
def test_an_owner_that_spoke_while_the_past_was_read_is_the_newest_though_the_past_knows_only_the_one_before(
    past_epoch: LeaseEpoch | None,
) -> None:
    async def play(site: Site) -> None:
        gateway, heard = await comes(site, lambda: settle(site, NEW), past_epoch)
        assert (heard, gateway.fenced) == ([], 1)
        await gateway.close()

    virtually(play)


def test_what_an_owner_said_before_the_next_one_spoke_is_not_lost_to_who_reads_the_past_meanwhile() -> None:
    """The next one does not say it again where its checkpoint lies behind it."""

    async def play(site: Site) -> None:
        def told() -> None:
            tell(site, OLD, 1)
            settle(site, NEW)
            tell(site, NEW, 2)

        gateway, heard = await comes(site, told, OLD)
        assert (heard, gateway.fenced) == ([1, 2], 1)
        await gateway.close()

    virtually(play)


def test_what_one_says_that_had_lost_the_session_before_it_came_is_dropped() -> None:
    async def play(site: Site) -> None:
        gateway, heard = await comes(site, lambda: tell(site, OLD, 1), NEW)
        assert (heard, gateway.fenced) == ([], 2)
        await gateway.close()

    virtually(play)


@pytest.mark.parametrize(("left", "told"), [((1,), [2]), ((1, 0), [1, 2]), ((0, 1), [2])])
def test_what_a_worker_told_here_before_it_told_the_former_gateways_to_go_is_of_the_past_if_the_last_one_read_here_too(
    left: tuple[int, ...], told: list[int]
) -> None:
    """Where another was in between nobody else hears what a worker says that takes the session over just then."""

    async def play(site: Site) -> None:
        def tell_around_the_last_word() -> None:
            tell(site, OLD, 1)
            site.broker.append(TOPICS.results, 1, A, b"", moved_headers(OLD, len(left), "t"))
            tell(site, OLD, 2)

        gateway, heard = await comes(site, tell_around_the_last_word, OLD, left)
        assert heard == [*told, 99]
        await gateway.close()

    virtually(play)


def mover_of(site: Site, gateway: _GatewayEnd, **answers: Any) -> Mover:
    store: Any = Wayward(site.memory, **answers)
    return Mover(SeatKeeper(store, "g1", 5, 100), store, gateway, "g1", every_s=1, behind_s=50)


async def ask(site: Site, mover: Mover) -> SessionPast:
    await site.memory.enter(seat(A), max_sessions=5)
    await site.memory.hand_in(Ticket(A, A, "g0", _digest(TOKEN), opened("a"), (Place(0, 0, 0),)))
    asked = Resume(A, TOKEN, 0, None)
    return (await mover.take_over(Tenant(TenantId("default"), 5), asked, LIMITS, lambda ticket: None)).past


def test_a_worker_that_knows_of_the_next_gateway_before_that_one_knows_itself_is_heard() -> None:
    """It takes the session over between the store's word and the gateway's next step."""

    async def play(site: Site) -> None:
        async def move(ticket: Ticket) -> bool:
            moved = await site.memory.move(ticket)
            tell(site, OLD, 1)
            await asyncio.sleep(1)
            return moved

        gateway, heard = coming_gateway(site, Pasts(OLD))
        past = await ask(site, mover_of(site, gateway, move=move))
        gateway.go_on(A, past)
        await asyncio.sleep(1)
        assert [event.processed_ms for event in heard if isinstance(event, Progress)] == [1]
        await gateway.close()

    virtually(play)


@pytest.mark.parametrize("answer", ["another was quicker", "the store is away"])
def test_a_session_that_does_not_come_after_all_is_not_waited_for(answer: str) -> None:
    async def play(site: Site) -> None:
        async def quicker(ticket: Ticket) -> bool:
            return False

        gateway, _ = coming_gateway(site, Pasts(OLD))
        with pytest.raises((BusUnavailable, StoreUnavailable)):
            await ask(site, mover_of(site, gateway, move=away if answer == "the store is away" else quicker))
        assert gateway._lanes == {}
        await gateway.close()

    virtually(play)


def test_who_asks_in_vain_for_a_session_that_is_here_leaves_it_as_it_is() -> None:
    async def play(site: Site) -> None:
        gateway, heard = coming_gateway(site, Pasts(OLD))
        await gateway.publish(opened("a"))
        with pytest.raises(StoreUnavailable):
            await ask(site, mover_of(site, gateway, move=away))
        tell(site, OLD, 1)
        await asyncio.sleep(1)
        assert heard == [Progress(A, 1)]
        await gateway.close()

    virtually(play)
