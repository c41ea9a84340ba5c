"""A broker that shows a record before an earlier one: who reads gets each of them all the same, once and in turn."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException, TopicPartition
from hypothesis import given
from hypothesis import strategies as st
from structlog.testing import capture_logs

from streamscribe.bus.kafka import gaps
from streamscribe.bus.kafka.gaps import Gaps
from streamscribe.bus.kafka.reader import Reader
from tests.sim.broker import Message

HERE = ("topic", 0)


class Record(Message):
    def __len__(self) -> int:
        return 1


class LateLog:
    """A consumer of one partition; records show themselves in the turn of `shown`, a few more each time it is asked."""

    def __init__(self, shown: list[int], begin: int = 0) -> None:
        self._hidden = shown[::-1]
        self._visible: set[int] = set()
        self.at = begin
        self.refuses = 0
        self.closed = False

    def consume(self, most: int, timeout_s: float) -> list[Any]:
        if self._hidden:
            self._visible.add(self._hidden.pop())
        came = sorted(offset for offset in self._visible if offset >= self.at)[:most]
        if came:
            self.at = came[-1] + 1
        return [Record((*HERE, offset), None, b"", []) for offset in came]

    def seek(self, part: TopicPartition) -> None:
        assert (part.topic, part.partition) == HERE
        if self.refuses:
            self.refuses -= 1
            raise KafkaException(KafkaError(KafkaError._STATE))
        self.at = part.offset

    def close(self) -> None:
        self.closed = True


async def read(log: Any, until: Callable[[list[int]], bool], begin: int | None = 0) -> list[int]:
    """What the loop gets of the log."""
    came: list[int] = []
    enough = asyncio.Event()

    def take(batch: list[Any]) -> None:
        came.extend(message.offset() for message in batch)
        if until(came):
            enough.set()

    reader = Reader(log, take)
    if begin is not None:
        reader.gaps.begin(HERE, begin)
    reader.start()
    async with asyncio.timeout(10):
        await enough.wait()
    await reader.stop()
    return came


@pytest.mark.parametrize(
    "shown",
    [[0, 1, 3, 4, 2], [1, 0], [2, 1, 0], [0, 5, 4, 3, 2, 1], [0, 2, 4, 3, 1, 6, 5]],
    ids=["one behind two", "the first", "the other way round", "many", "two gaps"],
)
async def test_a_record_that_shows_itself_behind_later_ones_comes_in_its_turn(shown: list[int]) -> None:
    came = await read(LateLog(shown), lambda came: len(came) >= len(shown))
    assert came == sorted(shown)


async def test_going_back_is_tried_again_where_the_consumer_refuses() -> None:
    log = LateLog([0, 2, 1])
    log.refuses = 2
    assert await read(log, lambda came: len(came) >= 3) == [0, 1, 2]


async def test_what_the_log_does_not_have_holds_a_partition_up_for_a_moment_only(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(gaps, "PATIENCE_S", 0.05)
    with capture_logs() as lines:
        assert await read(LateLog([7, 8, 9], begin=3), lambda came: len(came) >= 3, begin=3) == [7, 8, 9]
    assert [(line["log_level"], line["detail"]) for line in lines] == [
        ("error", "records 3 to 6 of partition 0 of topic")
    ]


async def test_a_partition_of_which_nothing_is_known_begins_with_what_comes_first() -> None:
    assert await read(LateLog([5, 6], begin=5), lambda came: len(came) >= 2, begin=None) == [5, 6]


def test_a_partition_that_comes_back_begins_where_it_is_said_to() -> None:
    ours = Gaps()
    ours.begin(HERE, 10)
    assert ours.takes(HERE, 10)
    assert not ours.takes(HERE, 12)
    ours.end(HERE)
    assert not ours.behind()
    ours.begin(HERE, 5)
    assert ours.takes(HERE, 5)
    assert not ours.takes(HERE, 11), "it was read for the time before"
    assert ours.behind() == {HERE: 6}


@given(st.permutations(range(12)), st.integers(1, 5), st.integers(0, 12))
def test_in_whatever_turn_records_show_themselves_each_is_taken_once_and_in_its_own(
    shown: list[int], most: int, again_at: int
) -> None:
    log, ours, came = LateLog(shown), Gaps(lambda: 0.0), []
    ours.begin(HERE, 0)
    for _ in range(100):
        came += [m.offset() for m in log.consume(most, 0) if ours.takes(HERE, m.offset())]
        for where, offset in ours.behind().items():
            log.seek(TopicPartition(*where, offset))
            ours.gone_back(where)
        if len(came) == again_at and not ours.behind():  # librdkafka goes back to what was taken, for a rebalance
            log.at = len(came)
    assert came == list(range(12))
