"""The reading of many sessions' pasts at once: what is asked of the log, and what each hears."""

import asyncio
import threading
from collections.abc import Callable
from typing import cast

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException

from streamscribe.bus.kafka import config, pasts
from streamscribe.bus.kafka.past import Past
from streamscribe.bus.kafka.pasts import Pasts
from streamscribe.bus.kafka.reading import Reading
from streamscribe.core.errors import InternalError, SessionNotFound
from streamscribe.core.ids import SessionId
from streamscribe.core.records import Emitted, SpeechStopped
from streamscribe.ports import Place
from streamscribe.settings import KafkaSettings
from tests.bus.past_kit import (
    AUDIO,
    CHUNKS,
    FIRST,
    OTHER_RESULTS,
    RESULTS,
    TOPICS,
    Asker,
    Spoken,
    check_whole,
    read_out,
)
from tests.sim.broker import Message


async def test_many_that_come_one_after_the_other_read_the_log_once() -> None:
    names = [f"s{number}" for number in range(30)]
    spoken = Spoken(*names)
    reading = spoken.reading()
    askers = [Asker(name, FIRST) for name in names]
    for asker in askers:
        reading.step([asker.past])
    while reading.busy:
        reading.step([])
    for asker in askers:
        asker.past.settle()
        check_whole(asker)
    assert spoken.consumer.read == spoken.size
    assert spoken.consumer.committed_asked == 1


async def test_who_comes_when_all_was_read_is_given_what_is_kept() -> None:
    spoken = Spoken("first", "second")
    reading = spoken.reading()
    read_out(reading, Asker("first", FIRST))
    before = spoken.consumer.read
    second = Asker("second", FIRST)
    read_out(reading, second)
    check_whole(second)
    assert spoken.consumer.read - before <= 2 * CHUNKS


async def test_records_are_left_as_soon_as_nobody_waits_for_them() -> None:
    spoken = Spoken("ours", "other")
    reading = spoken.reading()
    moved = spoken.consumer.log[RESULTS][-2]
    assert moved.key() == b"ours"
    rest = spoken.consumer.log[RESULTS][-2:]
    del spoken.consumer.log[RESULTS][-2:]
    ours = Asker("ours", FIRST)
    asked = [ours.past]
    for _ in range(30):
        assert reading.step(asked) == []
        asked = []
    read = spoken.consumer.read
    for _ in range(50):
        spoken.go_on("other")
        assert reading.step([]) == []
    assert spoken.consumer.read == read
    spoken.consumer.log[RESULTS] += rest
    while reading.busy:
        reading.step([])
    ours.past.settle()
    check_whole(ours)


async def test_beyond_what_may_be_kept_the_log_is_read_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("streamscribe.bus.kafka.reading.MAX_KEPT_BYTES", 1000)
    spoken = Spoken("first", "second")
    reading = spoken.reading()
    first, second = Asker("first", FIRST), Asker("second", FIRST)
    read_out(reading, first)
    read_out(reading, second)
    check_whole(first)
    check_whole(second)
    assert spoken.consumer.read > spoken.size


async def test_who_comes_from_before_what_is_kept_has_the_consumer_go_back_and_nobody_hears_twice() -> None:
    spoken = Spoken("early", "late")
    reading = spoken.reading()
    late = Asker("late", Place(0, 2 * CHUNKS - 4, 0))
    assert reading.step([late.past]) == []
    early = Asker("early", FIRST)
    ended = reading.step([early.past])
    while reading.busy:
        ended += reading.step([])
    for past in ended:
        past.settle()
    check_whole(early)
    assert [event.at_ms for event in late.events if isinstance(event, SpeechStopped)] == [CHUNKS - 2, CHUNKS - 1]


def far_on(spoken: Spoken) -> Place:
    """A place behind much of others."""
    for _ in range(500):
        spoken.go_on("other")
        spoken.event(RESULTS, SpeechStopped(SessionId("other"), 0, 0))
    log = spoken.consumer.log
    return Place(0, len(log[RESULTS]), 0, audio_offset=len(log[AUDIO]))


async def test_who_comes_from_far_behind_what_was_read_has_nothing_read_that_lies_between() -> None:
    spoken = Spoken("first")
    reading = spoken.reading()
    read_out(reading, Asker("first", FIRST))
    place, before = far_on(spoken), spoken.consumer.read
    spoken.speak("late")
    late = Asker("late", place)
    read_out(reading, late)
    check_whole(late)
    assert spoken.consumer.read - before == 2 * (CHUNKS + 1) + 1


async def test_who_comes_from_far_behind_what_is_being_read_takes_nothing_from_who_reads_it() -> None:
    spoken = Spoken("first", "second")
    reading = spoken.reading()
    first = Asker("first", FIRST)
    ended = reading.step([first.past])
    place = far_on(spoken)
    spoken.speak("late")
    late = Asker("late", place)
    ended += reading.step([late.past])
    while reading.busy:
        ended += reading.step([])
    for past in ended:
        past.settle()
    check_whole(first)
    check_whole(late)


async def test_a_session_that_has_moved_twice_is_read_at_both_places_from_what_is_kept() -> None:
    spoken = Spoken("ours", "other")
    spoken.event(OTHER_RESULTS, SpeechStopped(SessionId("ours"), 0, 77))
    spoken.move("ours", OTHER_RESULTS, 2)
    reading = spoken.reading()
    for _ in range(2):  # the second time all of it is kept
        ours = Asker("ours", FIRST, Place(1, 0, 1), generation=2)
        read_out(reading, ours)
        assert ours.done.result() is None
        assert [event.at_ms for event in ours.events if isinstance(event, SpeechStopped)] == [*range(CHUNKS), 77]


async def test_of_results_that_the_log_has_dropped_a_later_comer_is_told_too() -> None:
    spoken = Spoken("first", "second")
    spoken.consumer.begins[RESULTS] = 5
    now = 0.0
    reading = Reading(cast("Consumer", spoken.consumer), TOPICS, lambda: now)
    for name in ("first", "second"):
        asker = Asker(name, FIRST)
        asked = [asker.past]
        while not asker.done.done():
            for past in reading.step(asked):
                past.settle()
            asked, now = [], now + 0.5
        assert isinstance(asker.done.exception(), SessionNotFound)


async def test_a_past_at_which_something_fails_fails_alone() -> None:
    spoken = Spoken("sick", "well")
    reading = spoken.reading()
    sick, well = Asker("sick", FIRST), Asker("well", FIRST)

    def fail(event: Emitted) -> None:
        raise ZeroDivisionError

    sick.past.hear = cast("Callable[..., None]", fail)
    read_out(reading, sick, well)
    check_whole(well)
    error = sick.done.exception()
    assert isinstance(error, InternalError)
    assert isinstance(error.__cause__, ZeroDivisionError)


REFUSED = KafkaError(KafkaError.NOT_COORDINATOR)


@pytest.mark.parametrize("refusal", [REFUSED, KafkaException(REFUSED)])
async def test_who_comes_while_the_group_cannot_be_asked_waits_alone_and_is_not_read_from_the_beginning(
    refusal: KafkaError | KafkaException,
) -> None:
    spoken = Spoken("before", "ours", "late")
    now = 0.0
    reading = Reading(cast("Consumer", spoken.consumer), TOPICS, lambda: now)
    before, ours, late = (Asker(name, FIRST) for name in ("before", "ours", "late"))
    assert reading.step([before.past]) == []
    spoken.consumer.refusal, now = refusal, 3.0
    ended = reading.step([ours.past])
    for _ in range(50):
        ended += reading.step([])
    assert ended == [before.past]
    assert (ours.records, ours.events) == ([], [])
    assert spoken.consumer.committed_asked == 2, "who is read is held up again only after a while"
    now = 5.0
    assert reading.step([late.past]) == []
    now = 9.5
    assert reading.step([]) == [ours.past]
    assert not ours.past.complete, "his time is over"
    spoken.consumer.refusal = None
    now = 10.5
    while reading.busy:
        ended += reading.step([])
    for past in ended:
        past.settle()
    check_whole(before)
    check_whole(late)


async def test_what_belongs_to_no_session_takes_no_room_of_what_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("streamscribe.bus.kafka.reading.MAX_KEPT_BYTES", 200_000)
    spoken = Spoken("first", "second")
    rest = spoken.consumer.log[RESULTS]
    settled = [Message((*RESULTS, at), None, b"\0" * 10_000, [], 0.0) for at in range(100)]
    later = [
        Message((*RESULTS, 100 + at), one.key_bytes, one.value_bytes, one.its_headers, 0.0)
        for at, one in enumerate(rest)
    ]
    spoken.consumer.log[RESULTS] = settled + later
    reading = spoken.reading()
    first, second = Asker("first", FIRST), Asker("second", FIRST)
    read_out(reading, first)
    read_out(reading, second)
    check_whole(second)
    assert spoken.consumer.read == spoken.size


async def test_who_asks_while_a_thread_ends_is_read_by_the_next_one_which_is_waited_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    first_ends, first_may_end = threading.Event(), threading.Event()
    threads: list[threading.Thread] = []

    class Ending(Pasts):
        """The first thread stands still between its last look at who asks and its end; the next one outlives it."""

        def _next(self, reading: Reading, idle_since: float) -> list[Past] | None:
            here = threading.current_thread()
            threads.extend([] if here in threads else [here])
            if here is not threads[0]:
                threads[0].join(5)
                return super()._next(reading, idle_since)
            asked = super()._next(reading, idle_since)
            if asked is None:
                first_ends.set()
                first_may_end.wait(5)
            return asked

    spoken = Spoken("first", "second")
    monkeypatch.setattr(config, "made", lambda *_: spoken.consumer)
    monkeypatch.setattr(pasts, "_LINGER_S", 0.0)
    reading = Ending(KafkaSettings(brokers="one:9092"), 2**20)
    first, second = Asker("first", FIRST), Asker("second", FIRST)
    await asyncio.wait_for(reading.read(first.past), 5)
    assert await asyncio.to_thread(first_ends.wait, 5)
    waiting = asyncio.ensure_future(reading.read(second.past))
    await asyncio.sleep(0)
    first_may_end.set()
    await asyncio.wait_for(waiting, 5)
    check_whole(first)
    check_whole(second)
    await reading.close()
    assert not any(thread.is_alive() for thread in threads)
