"""A worker in its group: whose partitions come and go, are paused and committed, all in the consumer's own thread."""

import asyncio
import threading
import time
from collections.abc import Awaitable, Callable, Collection
from contextlib import suppress
from typing import Any, Literal

from confluent_kafka import Consumer, KafkaException, Message, TopicPartition

from streamscribe.bus.kafka import config
from streamscribe.bus.kafka.reader import Reader

GIVE_UP_S = 2.0
"""How long a rebalance waits for the loop to let sessions go. A loop that stands still holds up no other worker."""

LetGo = Callable[[Collection[int]], None]
GiveUp = Callable[[Collection[int]], Awaitable[dict[int, int]]]
"""Lets the sessions of partitions go, on the loop, and gives the offset at which another goes on with each."""

Change = Literal["assigned", "revoked", "lost", "begun_again"]
OnPartitions = Callable[[Change, Collection[int]], None]
"""What becomes of partitions: `revoked` ones were given up in good order, `lost` ones are another's already, and those
that are `begun_again` were ours and stay so."""


class Membership:
    """The consumer of a worker. What the loop asks for is done at the next turn.

    A partition begins at its committed offset. Before one is given to another worker, `give_up` is waited for and the
    offsets that it gives are committed; where that takes too long, or the partition was lost already, `lost` is told,
    and nothing is committed. `give_up` lets go before it waits for anything.
    """

    def __init__(
        self,
        properties: dict[str, Any],
        topic: str,
        *,
        take: Callable[[list[Message]], None],
        assigned: Callable[[Collection[int]], None],
        give_up: GiveUp,
        lost: LetGo,
    ) -> None:
        """Raises SettingsError for properties that librdkafka refuses."""
        self._loop = asyncio.get_running_loop()
        self._topic = topic
        self._assigned, self._give_up, self._lost = assigned, give_up, lost
        self._consumer: Consumer = config.made(Consumer, properties | {"on_commit": self._committed_or_not})
        self._reader = Reader(self._consumer, take, self._turn)
        self.failed = self._reader.failed
        self.joined = asyncio.Event()
        """Set while it has its share of the partitions, which is none where there are fewer of them than members."""
        self._lock = threading.Lock()
        self._wanted_paused: set[int] = set()
        self._wanted_offsets: dict[int, int] = {}
        self._wanted_again: dict[int, LetGo] = {}
        self._owned: set[int] = set()  # the rest is the thread's
        self._paused: set[int] = set()
        self._committed: dict[int, int] = {}
        self._turned_at = time.monotonic()

    @property
    def silent_s(self) -> float:
        """For how long the consumer has not been polled: after `max.poll.interval.ms` the group gives all away."""
        return time.monotonic() - self._turned_at

    def join(self) -> None:
        """Joins the group."""
        self._consumer.subscribe(
            [self._topic], on_assign=self._on_assign, on_revoke=self._on_revoke, on_lost=self._on_lost
        )
        self._reader.start()

    async def leave(self) -> None:
        """Gives everything up and leaves the group."""
        await self._reader.stop()

    def pause(self, partition: int) -> None:
        """Reads no more of it for now; what was read already still comes."""
        with self._lock:
            self._wanted_paused.add(partition)

    def resume(self, partition: int) -> None:
        """Reads it again."""
        with self._lock:
            self._wanted_paused.discard(partition)

    def commit(self, offsets: dict[int, int]) -> None:
        """Commits where another worker would go on."""
        with self._lock:
            self._wanted_offsets.update(offsets)

    def begin_again(self, partition: int, let_go: LetGo) -> None:
        """Begins with it anew where it is committed, if it is still ours; `let_go` is told before, on the loop."""
        with self._lock:
            self._wanted_again[partition] = let_go

    def _turn(self) -> None:
        self._turned_at = time.monotonic()
        with self._lock:
            again = {number: let_go for number, let_go in self._wanted_again.items() if number in self._owned}
            self._wanted_again.clear()
        for number, let_go in again.items():
            self._reader.on_loop(let_go, [number])
            self._disown([number])
            self._consumer.incremental_unassign(self._parts({number}))
            self._on_assign(self._consumer, self._parts({number}))
        with self._lock:
            paused = self._wanted_paused & self._owned
            offsets = {part: at for part, at in self._wanted_offsets.items() if part in self._owned}
            self._wanted_offsets.clear()
        if paused != self._paused:
            self._consumer.pause(self._parts(paused - self._paused))
            self._consumer.resume(self._parts(self._paused - paused))
            self._paused = paused
        moved = {part: at for part, at in offsets.items() if self._committed.get(part) != at}
        if moved:
            self._committed.update(moved)
            with suppress(KafkaException):  # tried again with the next
                self._consumer.commit(offsets=self._with_offsets(moved), asynchronous=True)

    def _on_assign(self, consumer: Consumer, parts: list[TopicPartition]) -> None:
        numbers = [part.partition for part in parts]
        begin = self._begin(consumer, parts)
        self._owned.update(numbers)
        self._reader.on_loop(self._assigned, numbers)
        self._reader.on_loop(self.joined.set)
        consumer.incremental_assign(begin)

    def _begin(self, consumer: Consumer, parts: list[TopicPartition]) -> list[TopicPartition]:
        """Where they are read from; left to librdkafka, which asks on and on, where the group does not say so now."""
        with suppress(KafkaException):
            parts = consumer.committed(parts, timeout=GIVE_UP_S)
            for part in parts:
                if part.error is None:
                    self._reader.gaps.begin((self._topic, part.partition), max(0, part.offset))
        return [TopicPartition(self._topic, part.partition, part.offset) for part in parts]

    def _on_revoke(self, consumer: Consumer, parts: list[TopicPartition]) -> None:
        numbers = [part.partition for part in parts]
        too_late = threading.Event()
        asked = asyncio.run_coroutine_threadsafe(self._give_up_in_time(numbers, too_late), self._loop)
        try:
            if offsets := asked.result(GIVE_UP_S):
                with suppress(KafkaException):  # then another hears a little more of it again
                    consumer.commit(offsets=self._with_offsets(offsets), asynchronous=False)
        except TimeoutError:
            too_late.set()
            self._reader.on_loop(self._lost, numbers)
        self._disown(numbers)
        consumer.incremental_unassign(parts)

    def _on_lost(self, consumer: Consumer, parts: list[TopicPartition]) -> None:
        numbers = [part.partition for part in parts]
        self._reader.on_loop(self._lost, numbers)
        self._reader.on_loop(self.joined.clear)
        self._disown(numbers)
        consumer.incremental_unassign(parts)

    async def _give_up_in_time(self, numbers: Collection[int], too_late: threading.Event) -> dict[int, int]:
        """Begins only while the rebalance waits for it: later, the partitions may be ours again."""
        return {} if too_late.is_set() else await self._give_up(numbers)

    def _disown(self, numbers: Collection[int]) -> None:
        self._owned.difference_update(numbers)
        self._paused.difference_update(numbers)
        for number in numbers:
            self._committed.pop(number, None)
            self._reader.gaps.end((self._topic, number))
        with self._lock:
            self._wanted_paused.difference_update(numbers)

    def _committed_or_not(self, error: object, parts: list[TopicPartition]) -> None:
        """In the thread: what was refused is asked for again when it moves."""
        for part in parts:
            if error is not None or part.error is not None:
                self._committed.pop(part.partition, None)

    def _parts(self, numbers: set[int]) -> list[TopicPartition]:
        return [TopicPartition(self._topic, number) for number in numbers]

    def _with_offsets(self, offsets: dict[int, int]) -> list[TopicPartition]:
        return [TopicPartition(self._topic, number, at) for number, at in offsets.items()]
