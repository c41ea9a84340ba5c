"""What a worker says in its log of its partitions, and of a group in which none comes to it."""

import asyncio
from typing import Any, cast

import pytest
from structlog.testing import capture_logs

from streamscribe.bootstrap.cluster import group
from streamscribe.bootstrap.cluster.group import Idle, tell_partitions
from streamscribe.core.cluster_load import UNOWNED_TOO_LONG_S, WorkerLoad
from streamscribe.observe.logs import ATTRIBUTES

LATE = UNOWNED_TOO_LONG_S + 1


def loads(**partitions: set[int]) -> dict[str, WorkerLoad]:
    return {name: WorkerLoad(frozenset(numbers), {}, ()) for name, numbers in partitions.items()}


class Worker:
    """The worker `a` of a cluster with four partitions, and what it said."""

    def __init__(self) -> None:
        self.mine: set[int] = set()
        self._idle = Idle(4, lambda: self.mine)

    def hears(self, now: float, **others: set[int]) -> list[list[int]]:
        """The partitions that it names, of each line."""
        with capture_logs() as lines:
            self._idle.look(loads(a=self.mine, **others), now)
        assert all(line.keys() - {"event", "log_level"} <= ATTRIBUTES for line in lines)
        return [line["partitions"] for line in lines]

    def looks_away(self, now: float) -> None:
        """As while it has some: nobody is heard."""
        self._idle.look({}, now)


def test_a_worker_without_a_partition_says_once_that_others_have_had_no_owner_for_long() -> None:
    one = Worker()
    assert one.hears(0, b={1}) == []
    assert one.hears(LATE - 2, b={1}) == []
    assert one.hears(LATE, b={1}) == [[0, 2, 3]]
    assert one.hears(2 * LATE, b={1}) == []
    one.mine = {0}
    assert one.hears(3 * LATE, b={1}) == []
    one.mine = set()
    assert one.hears(5 * LATE, b={1}) == [[0, 2, 3]]


def test_a_worker_that_has_none_because_others_have_all_says_nothing() -> None:
    one = Worker()
    assert [one.hears(now, b={0, 1}, c={2, 3}) for now in (0, LATE, 9 * LATE)] == [[], [], []]


def test_a_worker_that_has_some_says_nothing_of_those_that_nobody_has() -> None:
    one = Worker()
    one.mine = {0}
    assert [one.hears(now) for now in (0, LATE)] == [[], []]


class Board:
    """A notice board that counts who reads it."""

    def __init__(self) -> None:
        self.reads = 0

    async def announced(self) -> dict[str, bytes]:
        self.reads += 1
        return {}


async def test_a_worker_reads_what_others_tell_only_while_it_has_no_partition(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(group, "LOOK_EVERY_S", 0)
    board, mine = Board(), {1}
    watching = asyncio.ensure_future(Idle(4, lambda: mine).watch(cast("Any", board)))
    for _ in range(20):
        await asyncio.sleep(0)
    assert board.reads == 0
    mine.clear()
    for _ in range(20):
        await asyncio.sleep(0)
    assert board.reads > 0
    watching.cancel()


def test_a_worker_that_lost_all_counts_from_then_on() -> None:
    one = Worker()
    one.mine = {0}
    assert one.hears(0) == []
    with capture_logs() as lines:
        one.looks_away(LATE)
    one.mine = set()
    assert lines == []
    assert [one.hears(LATE + after, b={1}) for after in (1, LATE - 1, LATE)] == [[], [], [[0, 2, 3]]]


def test_each_change_of_partitions_is_one_line_with_all_their_numbers_and_no_change_is_none() -> None:
    with capture_logs() as lines:
        tell_partitions("assigned", [3, 1])
        tell_partitions("assigned", [])
        tell_partitions("revoked", [1])
        tell_partitions("lost", [3])
        tell_partitions("begun_again", [1])
    told = [(line["log_level"], line["reason"], line["partitions"]) for line in lines]
    assert told == [
        ("info", "assigned", [1, 3]),
        ("info", "revoked", [1]),
        ("warning", "lost", [3]),
        ("warning", "begun_again", [1]),
    ]
    assert all(line.keys() - {"event", "log_level"} <= ATTRIBUTES for line in lines)
