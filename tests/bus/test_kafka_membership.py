"""What becomes of partitions that the group takes away, where the loop is not there in time to let them go."""

import asyncio
import threading
from collections.abc import Collection
from typing import Any

import pytest
from confluent_kafka import TopicPartition

from streamscribe.bus.kafka import config, membership
from streamscribe.settings import KafkaSettings


class Broker:
    """As much of a consumer as a rebalance uses."""

    def __init__(self) -> None:
        self.commits: list[TopicPartition] = []

    def commit(self, offsets: list[TopicPartition], asynchronous: bool) -> None:
        self.commits += offsets

    def committed(self, parts: list[TopicPartition], timeout: float) -> list[TopicPartition]:
        return parts

    def incremental_assign(self, parts: list[TopicPartition]) -> None:
        """Nothing comes of them here."""

    incremental_unassign = pause = resume = incremental_assign


class Owner:
    """Who has the partitions on the loop, and the member's thread."""

    def __init__(self, release_s: float = 0.0) -> None:
        self.has: dict[int, int] = {}
        self.times = 0
        self.release_s = release_s
        self.broker: Any = Broker()
        kafka = KafkaSettings(brokers="127.0.0.1:9")
        self.member = membership.Membership(
            config.member(kafka, "group", 2**20),
            "topic",
            take=lambda batch: None,
            assigned=self.assigned,
            give_up=self.give_up,
            lost=self.lost,
        )

    def assigned(self, numbers: Collection[int]) -> None:
        self.times += 1
        self.has.update(dict.fromkeys(numbers, self.times))

    async def give_up(self, numbers: Collection[int]) -> dict[int, int]:
        self.lost(numbers)
        await asyncio.sleep(self.release_s)
        return dict.fromkeys(numbers, 7)

    def lost(self, numbers: Collection[int]) -> None:
        for number in numbers:
            self.has.pop(number, None)

    def away_and_back(self) -> threading.Thread:
        """Partition 3 is taken away, and given back at once."""
        parts = [TopicPartition("topic", 3)]

        def rebalance() -> None:
            self.member._on_revoke(self.broker, parts)
            self.member._on_assign(self.broker, parts)

        thread = threading.Thread(target=rebalance)
        self.member._on_assign(self.broker, parts)
        thread.start()
        return thread


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(membership, "GIVE_UP_S", 0.1)


async def has_ended(thread: threading.Thread) -> None:
    await asyncio.to_thread(thread.join)
    for _ in range(10):
        await asyncio.sleep(0)


async def test_a_partition_that_comes_back_while_the_loop_stands_still_stays() -> None:
    owner = Owner()
    thread = owner.away_and_back()
    thread.join()
    await has_ended(thread)
    assert owner.has == {3: 2}
    assert owner.broker.commits == []


async def test_a_partition_whose_sessions_are_let_go_too_slowly_comes_back_without_them() -> None:
    owner = Owner(release_s=0.3)
    await has_ended(owner.away_and_back())
    assert owner.has == {3: 2}
    await asyncio.sleep(0.4)
    assert owner.has == {3: 2}
    assert owner.broker.commits == []


async def test_what_is_let_go_in_time_is_committed_before_another_has_it() -> None:
    owner = Owner()
    await has_ended(owner.away_and_back())
    assert owner.has == {3: 2}
    assert [(part.partition, part.offset) for part in owner.broker.commits] == [(3, 7)]


async def test_who_is_given_nothing_has_joined_and_who_was_thrown_out_has_not_until_it_is_back() -> None:
    owner, seen = Owner(), []

    async def see() -> None:
        await asyncio.sleep(0)
        seen.append(owner.member.joined.is_set())

    await see()
    owner.member._on_assign(owner.broker, [])  # one too many: others have all partitions
    await see()
    owner.member._on_assign(owner.broker, [TopicPartition("topic", 3)])
    await asyncio.to_thread(owner.member._on_revoke, owner.broker, [TopicPartition("topic", 3)])
    await see()
    owner.member._on_lost(owner.broker, [])
    await see()
    owner.member._on_assign(owner.broker, [])
    await see()
    assert seen == [False, True, True, False, True]


async def test_a_partition_that_is_begun_again_is_let_go_first_and_never_told_to_be_lost() -> None:
    owner, let_go = Owner(), list[int]()

    def lose(numbers: Collection[int]) -> None:
        raise AssertionError("it is ours")

    owner.member._consumer, owner.member._lost = owner.broker, lose
    owner.member._on_assign(owner.broker, [TopicPartition("topic", 3), TopicPartition("topic", 4)])
    await asyncio.sleep(0)
    for number in (3, 5):
        owner.member.begin_again(number, let_go.extend)
    for _ in range(2):
        owner.member._turn()
        await asyncio.sleep(0)
    assert (let_go, owner.has, owner.member.joined.is_set()) == ([3], {3: 2, 4: 1}, True)
