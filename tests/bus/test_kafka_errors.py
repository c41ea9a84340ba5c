"""What becomes of librdkafka's errors: clients are told our texts, and who runs a process hears all of it."""

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import Future
from types import SimpleNamespace
from typing import Any, cast

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException

from streamscribe.bus.kafka import config, pasts, sender, topics
from streamscribe.bus.kafka.past import Past
from streamscribe.bus.kafka.pasts import Pasts
from streamscribe.bus.kafka.reader import Reader
from streamscribe.bus.kafka.sender import Sender
from streamscribe.core.errors import BusUnavailable, InternalError, ModelUnavailable, StreamScribeError, TooLarge
from streamscribe.core.ids import SessionId
from streamscribe.settings import KafkaSettings

TIMED_OUT = KafkaError(KafkaError._MSG_TIMED_OUT, "ssl://kafka-7.internal:9093: Local: Message timed out")
KAFKA = KafkaSettings(brokers="127.0.0.1:1")


def test_what_librdkafka_says_of_a_record_is_told_to_who_runs_it_and_not_to_clients() -> None:
    told = config.typed(TIMED_OUT)
    assert (type(told), told.message) == (BusUnavailable, config.NOT_TAKEN)
    assert config.fatal(told).message.endswith("kafka-7.internal:9093: Local: Message timed out")
    assert isinstance(config.typed(KafkaError(KafkaError.MSG_SIZE_TOO_LARGE)), TooLarge)


def test_a_process_ends_with_what_ended_it() -> None:
    stopped = RuntimeError("nobody can go on")
    stopped.__cause__ = ModelUnavailable("the model has stopped")
    assert config.fatal(stopped) is stopped.__cause__
    assert type(config.fatal(KeyError("a defect"))) is InternalError
    lost = BusUnavailable("the log cannot be read: no")
    assert config.fatal(lost) is lost


def past() -> Past:
    done = asyncio.get_running_loop().create_future()
    return Past(SessionId("a"), 1, 0, 1, (), lambda *_: None, lambda _: None, done)


async def test_who_waits_for_a_past_that_cannot_be_read_hears_our_text(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*args: Any) -> None:
        raise KafkaException(TIMED_OUT)

    monkeypatch.setattr(config, "made", refuse)
    with pytest.raises(BusUnavailable) as told:
        await Pasts(KAFKA, 2**20).read(past())
    assert told.value.message == "the session's past cannot be read"


async def test_who_waits_hears_it_too_where_the_consumer_fails_as_his_past_is_begun(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Failing:
        def committed(self, parts: list[Any], timeout: float) -> list[Any]:
            return parts

        def incremental_assign(self, parts: Any) -> None:
            raise KafkaException(TIMED_OUT)

        def close(self) -> None: ...

    monkeypatch.setattr(config, "made", lambda *_: Failing())
    with pytest.raises(BusUnavailable, match="cannot be read"):
        await asyncio.wait_for(Pasts(KAFKA, 2**20).read(past()), 20)


async def test_a_consumer_that_does_not_close_holds_up_no_gateway(monkeypatch: pytest.MonkeyPatch) -> None:
    closes, may_close = threading.Event(), threading.Event()

    class Stuck:
        def committed(self, parts: list[Any], timeout: float) -> list[Any]:
            return parts

        def incremental_assign(self, parts: Any) -> None: ...

        def consume(self, most: int, timeout_s: float) -> list[Any]:
            return []

        def close(self) -> None:
            closes.set()
            may_close.wait(10)

    monkeypatch.setattr(config, "made", lambda *_: Stuck())
    monkeypatch.setattr(pasts, "LEAVE_WITHIN_S", 0.05)
    reading = Pasts(KAFKA, 2**20)
    waiting = asyncio.ensure_future(reading.read(past()))
    await asyncio.sleep(0)
    await asyncio.wait_for(reading.close(), 5)
    assert await asyncio.to_thread(closes.wait, 5)
    may_close.set()
    with pytest.raises(BusUnavailable):
        await waiting


@pytest.mark.parametrize("late", [TimeoutError(), KafkaException(KafkaError(KafkaError._TIMED_OUT))])
@pytest.mark.parametrize("ask", [lambda: topics.ensure(KAFKA, 2**20), lambda: topics.min_session_timeout_ms(KAFKA)])
def test_brokers_that_were_reached_and_answer_nothing_more_are_told_with_the_likely_reason_whoever_gives_up_first(
    ask: Callable[[], object], late: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    answer: Future[None] = Future()
    answer.set_exception(late)
    brokers = SimpleNamespace(topics={}, brokers=dict.fromkeys(range(KAFKA.replication)))
    admin = SimpleNamespace(
        list_topics=lambda **_: brokers,
        create_topics=lambda new, **_: {one.topic: answer for one in new},
        describe_configs=lambda of, **_: dict.fromkeys(of, answer),
    )
    monkeypatch.setattr(config, "made", lambda *_: admin)
    with pytest.raises(BusUnavailable) as told:
        ask()
    assert told.value.message.endswith(topics.ADVERTISED)


class Producers:
    """librdkafka's producers one after the other; the first can send no more."""

    def __init__(self) -> None:
        self.made = 0
        self.sent: list[int] = []

    def __call__(self, properties: dict[str, Any]) -> "Producers.One":
        self.made += 1
        return self.One(self, self.made)

    class One:
        def __init__(self, all_of_them: "Producers", number: int) -> None:
            self.all, self.number = all_of_them, number

        def produce(self, *args: Any, **kwargs: Any) -> None:
            if self.number == 1:
                raise KafkaException(KafkaError(KafkaError._FATAL))
            self.all.sent.append(self.number)

        def poll(self, timeout_s: float) -> int:
            return 0

        def flush(self, timeout_s: float) -> int:
            return 0

        def purge(self) -> None: ...


async def test_a_producer_that_takes_no_record_any_more_is_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    producers = Producers()
    monkeypatch.setattr(sender, "Producer", producers)
    sends = Sender({})
    failed: list[StreamScribeError | None] = []
    with pytest.raises(BusUnavailable):
        sends.send("topic", b"1", [], failed.append)
    sends.send("topic", b"2", [], failed.append)
    assert (producers.made, producers.sent, sends.unsent_bytes) == (2, [2], 1)
    await sends.close()


class Fenced:
    """A consumer whose name another worker has taken: librdkafka says so once, and gives nothing more."""

    def consume(self, most: int, timeout_s: float) -> list[Any]:
        return [self]

    def error(self) -> KafkaError:
        return KafkaError(KafkaError.FENCED_INSTANCE_ID, "Static consumer fenced by other consumer", fatal=True)

    def close(self) -> None:
        """It is the other's group now."""


async def test_a_worker_whose_name_another_has_taken_ends_and_says_why() -> None:
    reading = Reader(cast(Consumer, Fenced()), lambda batch: None)
    reading.start()
    told = await asyncio.wait_for(reading.failed, 20)
    assert isinstance(told, BusUnavailable)
    assert "Static consumer fenced by other consumer" in told.message
    await reading.stop()
