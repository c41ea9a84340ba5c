"""A session moves from gateway to gateway over a real broker: nothing that was said is missing, nothing comes twice."""

import asyncio
import itertools
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace

import pytest
from confluent_kafka import Producer

from streamscribe.bus.kafka import reading
from streamscribe.bus.kafka.gateway import KafkaGatewayBus
from streamscribe.bus.kafka.lane import Lane
from streamscribe.bus.kafka.partitioner import partition_of
from streamscribe.bus.kafka.past import Past
from streamscribe.core.errors import BusUnavailable, SessionSuperseded
from streamscribe.core.ids import SessionId
from streamscribe.core.records import AudioChunk, Failed, Finished, FlushRequested, Progress, Record, WorkerEvent
from streamscribe.core.session_past import SessionPast
from streamscribe.ports import Place, Ticket
from tests.contracts.bus import chunk, opened
from tests.contracts.kafka_broker import MAX_MESSAGE_BYTES, Broker
from tests.contracts.kafka_rig import KafkaRig, kafka_rig
from tests.contracts.takeover import Ear, Listener, session
from tests.unit.session_kit import IDENTITY, LIMITS

A = SessionId("a")
UNHURRIED = {"lease_ttl_s": 30, "session_timeout_ms": 3000}
"""A worker that gets no turn for a second on a busy machine keeps its session, and need not tell all of it again."""
TICKET = Ticket(A, A, "g0", b"digest", opened("a"), ())


class Heard(SessionPast):
    """A past that remembers what it was made of."""

    def __init__(self) -> None:
        super().__init__(IDENTITY, LIMITS)
        self.events: list[WorkerEvent] = []

    def hear(self, event: WorkerEvent) -> None:
        self.events.append(event)
        super().hear(event)


class Gateways:
    """Gateways of one session, one after the other; the last one has it."""

    def __init__(self, rig: KafkaRig) -> None:
        self.rig = rig
        self.ticket = replace(TICKET)
        self.all: list[KafkaGatewayBus] = []
        self.ears: list[Ear] = []
        self.past = Heard()
        self.reading: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    async def open(self, number: int) -> KafkaGatewayBus:
        gateway = KafkaGatewayBus(self.rig.kafka, 30, MAX_MESSAGE_BYTES, reply_to=number)
        self.ears.append(Ear())
        gateway.attach_gateway(self.ears[-1])
        await gateway.start()
        self.all.append(gateway)
        return gateway

    async def first(self, number: int) -> KafkaGatewayBus:
        gateway = await self.open(number)
        self.ticket = replace(self.ticket, places=(gateway.here(0),))
        await self.rig.store.hand_in(self.ticket)
        return gateway

    async def move(self, number: int, beside: Past | None = None) -> KafkaGatewayBus:
        """The session goes on at another gateway; `past` is what that one was told of it.

        That gateway reads another past `beside` it.
        """
        gateway = await self.open(number)
        if beside is not None:
            self.reading = asyncio.ensure_future(gateway._pasts.read(beside))
            await asyncio.sleep(0.2)
        here = gateway.here(self.ticket.places[-1].generation + 1)
        self.ticket = replace(self.ticket, gateway=f"g{number}", places=(*self.ticket.places, here))
        assert await self.rig.store.move(self.ticket)
        self.past = Heard()
        await gateway.take_over(self.ticket, self.past)
        gateway.go_on(A, self.past)
        return gateway

    def told(self) -> list[int]:
        """Which records the session's gateways were told of, as the last one knows it."""
        events = [*self.past.events, *self.ears[-1].of("a")]
        return [event.processed_ms for event in events if isinstance(event, Progress)]


@asynccontextmanager
async def gateways(broker: Broker, lease_ttl_s: float = 1, session_timeout_ms: int = 1000) -> AsyncIterator[Gateways]:
    settings = {"result_partitions": 3, "session_timeout_ms": session_timeout_ms}
    async with kafka_rig(broker, 30, lease_ttl_s, **settings) as rig:
        ours = Gateways(rig)
        try:
            yield ours
        finally:
            for gateway in ours.all:
                await gateway.close()


async def publish(gateway: KafkaGatewayBus, records: list[Record]) -> None:
    for record in records:
        await gateway.publish(record)


@pytest.mark.parametrize("numbers", [(0, 2), (0, 0), (0, 2, 0), (2, 0, 2, 0)])
async def test_a_session_moves_and_its_gateway_knows_all_that_was_told_before(
    broker: Broker, numbers: tuple[int, ...]
) -> None:
    async with gateways(broker, **UNHURRIED) as ours:
        published = list(session("a", 6 * len(numbers)))
        Listener(await ours.rig.start_worker())
        gateway = await ours.first(numbers[0])
        done = 0
        for number in numbers[1:]:
            await publish(gateway, published[done : done + 6])
            done += 6
            gateway = await ours.move(number)
            assert ours.past.uplink.next_index == done
            last = published[done - 1]
            assert isinstance(last, AudioChunk)
            assert ours.past.uplink.next_sequence == last.sequence + 1
        await publish(gateway, published[done:])
        await ours.ears[-1].finished("a")
        assert ours.told() == list(range(len(published)))


async def test_law_2_a_gateway_that_lost_its_session_hears_so_and_what_it_publishes_is_dropped(broker: Broker) -> None:
    async with gateways(broker) as ours:
        published = list(session("a", 10))
        worker = Listener(await ours.rig.start_worker())
        former = await ours.first(0)
        await publish(former, published[:5])
        await ours.ears[0].wait_for(5)
        newer = await ours.move(2)
        await ours.ears[0].wait_for(6)
        (superseded,) = (event for event in ours.ears[0].of("a") if isinstance(event, Failed))
        assert isinstance(superseded.error, SessionSuperseded)
        former._lanes[A] = Lane(newer._lanes[A].backlog, "t")
        await publish(former, [chunk("a", 5, b"late")])
        await publish(newer, published[5:])
        await ours.ears[-1].finished("a")
        assert worker.heard[A] == published


async def test_the_worker_dies_too_and_the_next_one_tells_the_new_gateway(
    broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with gateways(broker) as ours:
        published = list(session("a", 20))
        first = Listener(await ours.rig.start_worker(), stop_at=13)
        gateway = await ours.first(0)
        await publish(gateway, published[:16])
        await first.stopped.wait()
        await ours.rig.kill_worker(first.bus)
        moving = asyncio.ensure_future(ours.move(2))
        await asyncio.sleep(0)
        Listener(await ours.rig.start_worker())
        gateway = await moving
        await publish(gateway, published[16:])
        await ours.ears[-1].finished("a")
        assert sorted(set(ours.told())) == list(range(len(published)))


async def test_without_a_worker_a_session_does_not_move_in_time_and_can_be_moved_again(
    broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reading, "PATIENCE_S", 1.0)
    async with gateways(broker) as ours:
        published = list(session("a", 10))
        gateway = await ours.first(0)
        await publish(gateway, published[:5])
        with pytest.raises(BusUnavailable):
            await ours.move(2)
        monkeypatch.undo()
        Listener(await ours.rig.start_worker())
        gateway = await ours.move(1)
        await publish(gateway, published[5:])
        await ours.ears[-1].finished("a")
        assert sorted(set(ours.told())) == list(range(len(published)))


def never(broker_numbers: tuple[int, ...]) -> Past:
    """The past of a session that no worker tells of."""
    nothing = SessionPast(IDENTITY, LIMITS)
    places = tuple(Place(number, 0, generation) for generation, number in enumerate(broker_numbers))
    done = asyncio.get_running_loop().create_future()
    hears = (nothing.uplink.take, nothing.hear)
    return Past(SessionId("nobody"), len(places), partition_of(A, 2), 4, places, *hears, done)


@pytest.mark.parametrize("stuck", [(0,), (2, 0)])
async def test_a_session_that_no_worker_tells_of_holds_up_no_other(broker: Broker, stuck: tuple[int, ...]) -> None:
    async with gateways(broker, **UNHURRIED) as ours:
        published = list(session("a", 18))
        Listener(await ours.rig.start_worker())
        gateway = await ours.first(0)
        await publish(gateway, published[:6])
        gateway = await ours.move(2)
        await publish(gateway, published[6:12])
        gateway = await ours.move(1, beside=never(stuck))
        assert not ours.reading.done()
        await publish(gateway, published[12:])
        await ours.ears[-1].finished("a")
        assert ours.told() == list(range(len(published)))
        with pytest.raises(BusUnavailable):
            await ours.reading


async def test_a_gateway_that_ends_while_it_reads_waits_for_nobody(broker: Broker) -> None:
    async with gateways(broker) as ours:
        gateway = await ours.open(0)
        reading = asyncio.ensure_future(gateway._pasts.read(never((0,))))
        await asyncio.sleep(0.1)
        await gateway.close()
        with pytest.raises(BusUnavailable):
            await reading


async def test_a_session_whose_last_record_is_no_audio_goes_on_behind_its_audio(broker: Broker) -> None:
    async with gateways(broker) as ours:
        Listener(await ours.rig.start_worker())
        gateway = await ours.first(0)
        said = list(session("a", 4))
        await publish(gateway, [*said[:3], FlushRequested(A, 3, "m")])
        await ours.ears[0].wait_for(3)
        (behind,) = gateway._started(gateway._sender).delivered_to.values()
        behind_all = replace(ours.ticket.places[0], audio_offset=behind - 1)
        ours.ticket = replace(ours.ticket, places=(behind_all,))
        assert await ours.rig.store.settle_places(ours.ticket, (replace(behind_all, audio_offset=0),))
        await ours.move(2)
        past = ours.past
        assert isinstance(said[2], AudioChunk)
        assert (past.uplink.next_index, past.uplink.next_sequence) == (4, said[2].sequence + 1)
        assert past.uplink.received_bytes == sum(len(one.data) for one in said[:3] if isinstance(one, AudioChunk))


async def test_a_session_that_ended_where_no_gateway_was_any_more_is_read_to_its_end(broker: Broker) -> None:
    async with gateways(broker) as ours:
        gateway = await ours.first(0)
        await publish(gateway, list(session("a", 5)))
        lost = await ours.open(2)  # it takes the ticket, and dies before it says so in the log
        ours.ticket = replace(ours.ticket, gateway="g2", places=(*ours.ticket.places, lost.here(1)))
        assert await ours.rig.store.move(ours.ticket)
        bus = await ours.rig.start_worker()
        worker = Listener(bus)
        async with asyncio.timeout(20):
            while not worker.heard[A] or bus.sessions:
                await asyncio.sleep(0.05)
        await ours.move(1)
        assert isinstance(ours.past.outcome, Finished)


async def test_a_session_that_was_done_is_read_to_its_end(broker: Broker) -> None:
    async with gateways(broker) as ours:
        Listener(await ours.rig.start_worker())
        gateway = await ours.first(0)
        await publish(gateway, list(session("a", 5)))
        await ours.ears[0].finished("a")
        await ours.move(2)
        assert isinstance(ours.past.outcome, Finished)
        assert ours.past.uplink.ended


async def test_keys_are_given_to_partitions_as_the_producer_gives_them(broker: Broker) -> None:
    kafka = broker.with_topics(audio_partitions=7)
    producer = Producer({"bootstrap.servers": kafka.brokers, "partitioner": "murmur2_random"})
    placed: dict[str, int] = {}

    def report(error: object, message: object) -> None:
        placed[message.key().decode()] = message.partition()  # type: ignore[attr-defined]

    names = ["".join(letters) for length in range(1, 6) for letters in itertools.product("a9", repeat=length)]
    for name in names:
        producer.produce(f"{kafka.topic_prefix}audio-chunks", b"", name, on_delivery=report)
    await asyncio.to_thread(producer.flush)
    assert placed == {name: partition_of(name, 7) for name in names}
