"""One record that nobody can read or answer costs itself alone, whatever is wrong with it: no process, no neighbour."""

import asyncio
import random
from typing import Any

import numpy as np
import pytest
from confluent_kafka import KafkaError, KafkaException

from streamscribe.bus.kafka import config, gateway, sender, worker
from streamscribe.bus.kafka.config import NoSuchPartition
from streamscribe.bus.kafka.dead_letter import TELL_EVERY_S, DeadLetters
from streamscribe.bus.kafka.envelope import (
    NO_EPOCH,
    SETTLED_HEADERS,
    Settled,
    encode_settled,
    event_headers,
    headers_of,
    moved_headers,
    record_headers,
)
from streamscribe.bus.kafka.finals.asking import Patience
from streamscribe.bus.kafka.finals.codec import question
from streamscribe.bus.kafka.gateway import DOUBT_S, KafkaGatewayBus
from streamscribe.bus.kafka.past import Past
from streamscribe.bus.kafka.sender import Sender
from streamscribe.core.batching import Priority
from streamscribe.core.errors import BadRequest, InternalError
from streamscribe.core.fair_share import Share
from streamscribe.core.ids import LeaseEpoch, SessionId, TraceId
from streamscribe.core.records import Emitted, Failed, Progress, Record, SessionAbandoned, WorkerEvent
from streamscribe.models.ports import Origin, SegmentRequest
from streamscribe.ports import Place
from streamscribe.store.redis_attempts import _key as attempts_key
from streamscribe.wire.bus_records import decode_record, encode_event, encode_record
from streamscribe.wire.final_requests import FinalAnswer, encode_answer, encode_request
from tests.bus.kafka_site import TOPICS, A, B, Site, Wayward, virtually
from tests.contracts.bus import opened
from tests.contracts.takeover import Listener, session
from tests.sim.broker import Broker, Message
from tests.sim.clock import Node, run_virtually
from tests.sim.cluster import KAFKA
from tests.sim.cluster import TOPICS as FINALS
from tests.sim.finals import POLICY, FinalizerProcess, SimFinalizers
from tests.sim.group import Group
from tests.sim.kafka_site import _GatewayEnd
from tests.sim.store import SimStore

BEYOND = KAFKA.result_partitions
POISON = encode_record(opened("poison"))


class Unnamed(Message):
    """A message whose headers have a name that is no UTF-8, as confluent-kafka gives it: a second look ends us."""

    __slots__ = ()

    def headers(self) -> list[tuple[str, Any]]:
        looks.append(self.offset())
        assert looks.count(self.offset()) == 1, "SIGSEGV"
        raise SystemError("returned a result with an exception set")


looks: list[int] = []


def request_of(session_id: SessionId, segment_id: int) -> bytes:
    request = SegmentRequest(np.zeros(800, np.float32), origin=Origin(session_id, segment_id, TraceId("t")))
    return encode_request(
        question(
            request, priority=Priority.URGENT, share=Share(None), asked_by="w", number=0, reply_to=0, patience_ms=60_000
        )
    )


@pytest.fixture(autouse=True)
def _nobody_has_looked() -> None:
    looks.clear()


def put(site: Site, headers: Any, value: bytes = POISON, key: str = "poison", kind: type[Message] = Message) -> None:
    site.broker.append(TOPICS.audio, 0, key, value, headers)
    log = site.broker._logs[TOPICS.audio, 0]
    log[-1] = kind(log[-1].where, log[-1].key_bytes, log[-1].value_bytes, log[-1].its_headers)


ODD_HEADERS = {
    "answers-beyond": record_headers(BEYOND, 0, "t"),
    "answers-far-beyond": record_headers(10**17, 0, "t"),
    "left-beyond": record_headers(0, 0, "t", 1, (BEYOND,)),
    "left-more-than-there-are": record_headers(0, 0, "t", 1, (0,) * (BEYOND + 1)),
}


@pytest.mark.parametrize("headers", ODD_HEADERS.values(), ids=ODD_HEADERS)
def test_a_record_that_nobody_could_answer_is_buried_and_ends_no_worker(headers: Any) -> None:
    async def play(site: Site) -> None:
        bus = site.worker()
        listener = Listener(bus)
        site.publish(*list(session("a", 9))[:5])
        put(site, headers)
        site.publish(*list(session("a", 9))[5:])
        await asyncio.sleep(3)
        assert (site.finished(), bus.dead_letters, bus.over) == ({A}, 1, False)
        assert SessionId("poison") not in listener.heard
        assert site.committed == 13, "its own end is marked"

    virtually(play)


def test_a_header_whose_name_is_no_text_is_looked_at_once_and_costs_its_record() -> None:
    async def play(site: Site) -> None:
        bus = site.worker()
        Listener(bus)
        site.publish(*list(session("a", 9))[:5])
        put(site, [], kind=Unnamed)
        site.publish(*list(session("a", 9))[5:])
        await asyncio.sleep(3)
        assert (site.finished(), bus.dead_letters, len(looks)) == ({A}, 1, 1)

    virtually(play)


async def test_who_reads_a_past_looks_once_too() -> None:
    done = asyncio.get_running_loop().create_future()
    past = Past(A, 1, 0, 1, (Place(0, 0, 0),), lambda *_: None, lambda _: None, done)
    message: Any = Unnamed(("t", 0, 7), b"a", b"", [])
    for read in (past.record, past.result):
        looks.clear()
        with pytest.raises(BadRequest):
            read(message)
    with pytest.raises(BadRequest):
        past.record(Message(("t", 0, 8), b"a", POISON, record_headers(1, 0, "t", 1)))  # type: ignore[arg-type]
    assert past.error is None


@pytest.mark.parametrize("its", ["no request", "a deadly segment"])
def test_headers_that_nobody_can_read_cost_a_finalizer_nothing_whatever_the_record_is_buried_for(its: str) -> None:
    async def play() -> None:
        rng = random.Random(0)
        store, group = SimStore(rng), Group(Broker(rng, KAFKA.finalize_partitions), FINALS.finalize)
        finalizer = FinalizerProcess(Node("f"), group, store, KAFKA, 0.01, lambda origin: False)
        while not finalizer.bus.partitions:
            await asyncio.sleep(0.1)
        store.attempts[attempts_key(A, 1)] = {"others", "that", "ended"}
        value = b"" if its == "no request" else request_of(A, 1)
        store.unsure, now_s = 0.0, asyncio.get_running_loop().time()
        batch: Any = [
            Unnamed((FINALS.finalize, 0, 0), A.encode(), value, [], now_s),
            Message((FINALS.finalize, 0, 1), B.encode(), request_of(B, 1), [], now_s),
        ]
        finalizer.bus._take(batch)
        await asyncio.sleep(3)
        assert (finalizer.over, finalizer.bus.dead_letters, finalizer.bus.waiting) == (False, 1, 0)
        assert finalizer.bus.answered == 1 + (its == "a deadly segment")
        assert group.broker.committed[FINALS.finalize, 0] == 2
        await finalizer.end()
        await group.close()

    _, loop = run_virtually(play)
    assert loop.failures == []


async def test_headers_that_nobody_can_read_cost_a_worker_none_of_the_answers_behind_them() -> None:
    nowhere: Any = Nowhere()
    asking = SimFinalizers(KAFKA, POLICY, Patience(30.0, 30.0))
    asking._dead_letters = DeadLetters(nowhere, "dead")
    answer = encode_answer(FinalAnswer(A, asking.asker, 7, error=InternalError()))
    batch: Any = [Unnamed(("finals", 0, 0), b"a", b"", []), Message(("finals", 0, 1), b"a", answer, [])]
    asking._take(batch)
    assert (asking._dead_letters.count, asking.dropped) == (1, 1), "it was heard; nobody waits for it"


def test_a_defect_of_the_bus_at_one_record_costs_that_record(monkeypatch: pytest.MonkeyPatch) -> None:
    def read(value: bytes) -> Record:
        if value == POISON:
            raise KeyError("a defect")
        return decode_record(value)

    monkeypatch.setattr(worker, "decode_record", read)

    async def play(site: Site) -> None:
        bus = site.worker()
        Listener(bus)
        put(site, record_headers(0, 0, "t"))
        site.publish(*session("a", 9))
        await asyncio.sleep(3)
        assert (site.finished(), bus.dead_letters, bus.over) == ({A}, 1, False)

    assert [one["message"] for one in virtually(play).failures] == ["a record met a defect"]


def test_a_session_that_cannot_be_claimed_for_a_defect_is_let_go_and_ends_no_worker() -> None:
    async def play(site: Site) -> None:
        async def claim(session_id: SessionId, owner: str) -> Any:
            if session_id == "poison":
                raise KeyError("a defect")
            return await site.memory.claim(session_id, owner)

        site.store = Wayward(site.memory, claim=claim)
        bus = site.worker()
        Listener(bus)
        put(site, record_headers(0, 0, "t"))
        site.publish(*session("a", 9))
        await asyncio.sleep(3)
        assert (site.finished(), bus.over, list(bus.sessions)) == ({A}, False, [])
        assert site.failures() == {"poison": "internal"}
        assert site.committed == site.broker.end(TOPICS.audio, 0)

    assert [one["message"] for one in virtually(play).failures] == ["a bus has a defect"]


@pytest.mark.parametrize("speaks", ["never", "settles", "tells"])
def test_a_gateway_hears_of_a_session_that_cannot_be_claimed_unless_a_worker_that_has_it_speaks(speaks: str) -> None:
    async def play(site: Site) -> None:
        async def claim(session_id: SessionId, owner: str) -> Any:
            raise KeyError("a defect")

        def owner_speaks() -> None:
            if speaks == "settles":
                settled = encode_settled([Settled(B, LeaseEpoch(7), 0, 1)])
                site.broker.append(TOPICS.results, 0, None, settled, SETTLED_HEADERS)
            elif speaks == "tells":
                told = encode_event(Progress(B, 1000))
                site.broker.append(TOPICS.results, 0, B, told, event_headers(LeaseEpoch(7), "t"))

        site.store = Wayward(site.memory, claim=claim)
        gateway, heard = _GatewayEnd(KAFKA, 5, 2**20, 0), list[Emitted]()
        gateway.begin(site.broker, Node("gateway"))
        gateway.attach_gateway(heard.append)
        await gateway.publish(opened("a"))
        await gateway.publish(opened("b"))
        gateway._lanes[B].epoch = LeaseEpoch(7)
        Listener(site.worker())
        await asyncio.sleep(3)
        owner_speaks()
        await asyncio.sleep(DOUBT_S - 4)
        assert [one.session_id for one in heard if isinstance(one, Failed)] == [A]
        assert gateway.fenced == 1
        await asyncio.sleep(30)
        failed = {one.session_id: one.error.code for one in heard if isinstance(one, Failed)}
        assert failed == {A: "internal"} | ({B: "internal"} if speaks == "never" else {})
        await gateway.close()

    virtually(play)


@pytest.mark.parametrize("speaks", [False, True])
async def test_who_reads_a_past_hears_of_a_session_that_could_not_be_claimed_unless_its_owner_spoke_after_that(
    speaks: bool,
) -> None:
    done = asyncio.get_running_loop().create_future()
    heard: list[WorkerEvent] = []
    past = Past(A, 1, 0, 1, (Place(0, 0, 0),), lambda *_: None, heard.append, done)
    told: list[tuple[Emitted, int]] = [(Progress(A, 1000), 7), (Failed(A, InternalError()), NO_EPOCH)]
    for event, epoch in told + [(Progress(A, 2000), 7)] * speaks:
        message = Message(("r", 0, 0), b"a", encode_event(event), event_headers(LeaseEpoch(epoch), "t"))
        past.result(message)  # type: ignore[arg-type]
    past.result(Message(("r", 0, 0), b"a", b"", moved_headers(LeaseEpoch(7), 1, "t")))  # type: ignore[arg-type]
    assert past.leg == 1
    assert [type(one) for one in heard] == [Progress, Progress if speaks else Failed]


async def test_who_reads_a_past_hears_its_owner_out_though_one_that_had_lost_it_has_told_no_more() -> None:
    done = asyncio.get_running_loop().create_future()
    heard: list[WorkerEvent] = []
    past = Past(A, 1, 0, 1, (Place(0, 0, 0),), lambda *_: None, heard.append, done)
    last_words = [Message(("r", 0, 0), b"a", b"", moved_headers(LeaseEpoch(epoch), 1, "t")) for epoch in (6, 7)]
    told = [
        Message(("r", 0, 0), b"a", encode_event(Progress(A, at)), event_headers(LeaseEpoch(7), "t")) for at in (1, 2)
    ]
    for message in (told[0], last_words[0], told[1], last_words[1]):
        past.result(message)  # type: ignore[arg-type]
    assert heard == [Progress(A, 1), Progress(A, 2)]
    assert past.leg == 1


@pytest.mark.parametrize("moves", [False, True])
def test_what_cannot_be_told_for_want_of_a_partition_costs_its_session(moves: bool) -> None:
    """Topics may have fewer partitions than the settings of who looked at them."""

    async def play(site: Site) -> None:
        bus = site.worker()
        send = bus._sender.send

        def refuse(topic: str, value: bytes, headers: Any, done: Any, **where: Any) -> None:
            if where.get("partition") == BEYOND - 1:
                asyncio.get_running_loop().call_soon(done, NoSuchPartition())
            else:
                send(topic, value, headers, done, **where)

        bus._sender.send = refuse  # type: ignore[method-assign]
        listener = Listener(bus)
        published = list(session("b", 9))
        if moves:
            site.publish(*published)
            site.publish(opened("b"), generation=1, left=(BEYOND - 1,))
        else:
            site.publish(*published[:5], reply_to=BEYOND - 1)
        site.publish(*session("a", 9))
        await asyncio.sleep(3)
        assert (bus.over, list(bus.sessions)) == (False, [])
        assert site.finished() == ({A, B} if moves else {A})
        assert moves or isinstance(listener.heard[B][-1], SessionAbandoned)
        assert site.committed == site.broker.end(TOPICS.audio, 0)

    virtually(play)


class Refuses:
    """A producer that knows the topics."""

    def __init__(self, properties: dict[str, Any]) -> None: ...

    def produce(self, *args: Any, **kwargs: Any) -> None:
        raise KafkaException(KafkaError(KafkaError._UNKNOWN_PARTITION))

    def poll(self, timeout_s: float) -> int:
        return 0

    flush = poll

    def purge(self) -> None: ...


async def test_a_partition_that_there_is_not_is_told_later_to_who_sent_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sender, "Producer", Refuses)
    sends, told = Sender({}), list[Any]()
    sends.send("topic", b"1", [], told.append, partition=9999)
    assert told == []
    await asyncio.sleep(0)
    assert [type(one) for one in told] == [NoSuchPartition]
    assert isinstance(config.typed(KafkaError(KafkaError._UNKNOWN_PARTITION)), NoSuchPartition)
    assert sends.unsent_bytes == 0
    await sends.close()


class Nowhere:
    """A sender that keeps nothing."""

    room = True

    def send(self, *args: Any, **kwargs: Any) -> None: ...


async def test_a_gateway_goes_on_behind_what_it_cannot_take(monkeypatch: pytest.MonkeyPatch) -> None:
    nowhere: Any = Nowhere()
    bus = KafkaGatewayBus(KAFKA, 5, 2**20, reply_to=0)
    bus._sender, bus._dead_letters = nowhere, DeadLetters(nowhere, "dead")
    monkeypatch.setattr(gateway, "decode_settled", lambda value: 1 / 0 if value == b"defect" else [])
    defects = list[Any]()
    asyncio.get_running_loop().set_exception_handler(lambda _, told: defects.append(told["message"]))
    batch: Any = [
        Unnamed(("results", 0, 0), None, b"", []),
        Message(("results", 0, 1), None, b"defect", SETTLED_HEADERS),
        Message(("results", 0, 2), None, encode_settled([]), SETTLED_HEADERS),
    ]
    bus._take(batch)
    assert (bus.dead_letters, bus.here(0).offset, defects) == (2, 3, ["a record met a defect"])


def test_headers_are_a_list_whatever_a_message_has() -> None:
    none: Any = Message(("t", 0, 0), None, b"", None)  # type: ignore[arg-type]
    assert headers_of(none) == []


def test_a_flood_of_records_that_meet_defects_is_told_in_few_lines_that_say_how_many() -> None:
    async def play() -> None:
        nowhere: Any = Nowhere()
        letters, flood = DeadLetters(nowhere, "dead"), [Message(("t", 0, at), None, b"", []) for at in range(100)]
        for _ in range(25):
            letters.take_each(flood, lambda message: 1 / 0)  # type: ignore[arg-type,return-value]
            await asyncio.sleep(TELL_EVERY_S / 10)
        assert letters.count == 2500

    _, loop = run_virtually(play)
    assert [told["message"] for told in loop.failures] == [
        "a record met a defect",
        "1000 records met defects, and this is the last one's",
        "1000 records met defects, and this is the last one's",
    ]
    assert all(isinstance(told["exception"], ZeroDivisionError) for told in loop.failures)
