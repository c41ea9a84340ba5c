"""How much a consumer's thread hands over to the loop at once."""

import asyncio
from typing import Any

import pytest
from confluent_kafka import KafkaError
from structlog.testing import capture_logs

from streamscribe.bus.kafka.reader import MAX_BATCH_BYTES, MAX_BATCH_RECORDS, Reader
from streamscribe.core.errors import BusUnavailable, InternalError
from tests.sim.broker import Message


class Record(Message):
    def __len__(self) -> int:
        return len(self.value_bytes)


class Fetched:
    """A consumer that has fetched all of these."""

    def __init__(self, sizes: list[int]) -> None:
        self._records = [Record(("topic", 0, at), None, bytes(size), []) for at, size in enumerate(sizes)][::-1]
        self.calls = 0

    def consume(self, most: int, timeout_s: float) -> list[Any]:
        self.calls += bool(self._records)
        return [self._records.pop() for _ in range(min(most, len(self._records)))]

    def close(self) -> None:
        """Nothing is left of it."""


async def batches(fetched: Any, records: int) -> list[list[int]]:
    """The sizes of the records of each batch."""
    found: list[list[int]] = []
    done = asyncio.Event()

    def take(batch: list[Any]) -> None:
        found.append([len(message) for message in batch])
        if sum(map(len, found)) == records:
            done.set()

    reader = Reader(fetched, take)
    reader.start()
    async with asyncio.timeout(10):
        await done.wait()
    await reader.stop()
    return found


@pytest.mark.parametrize(
    "size", [MAX_BATCH_BYTES // 20, MAX_BATCH_BYTES // 4, MAX_BATCH_BYTES - 1, 4 * MAX_BATCH_BYTES]
)
async def test_large_records_come_in_batches_that_are_larger_than_the_bound_by_less_than_one(size: int) -> None:
    for batch in await batches(Fetched([size] * 64), 64):
        assert sum(batch[:-1]) < MAX_BATCH_BYTES


async def test_records_larger_than_those_before_them_exceed_the_bound_once() -> None:
    first, *rest = await batches(Fetched([1, *[2 * MAX_BATCH_BYTES] * 40]), 41)
    assert len(first) <= 33
    assert all(len(batch) == 1 for batch in rest)


async def test_small_records_come_in_few_calls() -> None:
    fetched = Fetched([3300] * 1000)
    assert max(map(len, await batches(fetched, 1000))) <= MAX_BATCH_RECORDS + 32
    assert fetched.calls < 100


async def test_empty_records_are_taken_too() -> None:
    assert sum(map(len, await batches(Fetched([0] * 100), 100))) == 100


class Defective(Fetched):
    """Whose callbacks, or whatever it calls, meet a defect."""

    closed = False

    def consume(self, most: int, timeout_s: float) -> list[Any]:
        raise ValueError("a defect")

    def close(self) -> None:
        self.closed = True


async def test_a_defect_in_the_thread_is_told_to_who_waits_for_records_and_to_the_logs_and_the_group_is_left() -> None:
    told: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda loop, context: told.append(context))
    consumer: Any = Defective([])
    reader = Reader(consumer, lambda batch: None)
    reader.start()
    async with asyncio.timeout(10):
        assert isinstance(await reader.failed, InternalError)
    await reader.stop()
    assert consumer.closed
    assert [str(context["exception"]) for context in told] == ["a defect"]


class Trouble(Record):
    """What librdkafka says in a record's place."""

    def __init__(self, code: int) -> None:
        super().__init__(("topic", 0, 0), None, b"", [])
        object.__setattr__(self, "code", code)

    def error(self) -> Any:
        return KafkaError(self.code)  # type: ignore[attr-defined]


class Troubled(Fetched):
    """Has troubles, then a record."""

    def __init__(self, *codes: int) -> None:
        super().__init__([1])
        self._records += [Trouble(code) for code in codes[::-1]]  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("code", "remedy"),
    [
        (KafkaError.INVALID_SESSION_TIMEOUT, "group.min.session.timeout.ms"),
        (KafkaError.GROUP_AUTHORIZATION_FAILED, "let this user read the group"),
        (KafkaError.TOPIC_AUTHORIZATION_FAILED, "let this user read the topics"),
    ],
)
async def test_who_can_read_nothing_until_somebody_mends_it_ends_and_says_what_to_mend(code: int, remedy: str) -> None:
    consumer: Any = Troubled(code)
    reader = Reader(consumer, lambda batch: None)
    reader.start()
    told = await asyncio.wait_for(reader.failed, 10)
    await reader.stop()
    assert isinstance(told, BusUnavailable)
    assert remedy in told.message


async def test_trouble_that_librdkafka_mends_itself_is_one_warning_of_each_kind_and_reading_goes_on() -> None:
    defects: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda loop, context: defects.append(context))
    away, late = KafkaError._ALL_BROKERS_DOWN, KafkaError.REQUEST_TIMED_OUT
    with capture_logs() as lines:
        assert await batches(Troubled(away, late, away, away), 1) == [[1]]
    told = "the log cannot be read for now; it is tried again"
    assert [(line["event"], line["log_level"]) for line in lines] == [(told, "warning")] * 2
    assert [line["detail"] for line in lines] == [KafkaError(code).str() for code in (away, late)]
    assert not defects, "asyncio's logger tells of defects"
