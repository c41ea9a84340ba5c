"""The worker's own small ledgers: the line, the track and the draft budget."""

import asyncio
import random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamscribe.models.ports import Frames, Samples, frame_count
from streamscribe.worker.budget import MOST, DraftBudget
from streamscribe.worker.line import Line, Place
from streamscribe.worker.track import QUIET_SPAN, AudioTrack, frame_at

BLOCK = 1600


def frames_of(audio: Samples, first: int, last: int) -> Frames:
    """Frames [first, last) as the fake detector makes them: the samples of each shift."""
    return audio[first * 160 : last * 160].reshape(-1, 160)


@given(st.lists(st.tuples(st.integers(0, 5600), st.booleans()), max_size=15), st.integers(0, 30), st.data())
def test_a_track_gives_back_what_it_was_given_whatever_the_packets_and_wherever_it_begins(
    packets: list[tuple[int, bool]], first_shift: int, data: st.DataObject
) -> None:
    begin = first_shift * 160
    audio = np.arange(begin + sum(size for size, _ in packets), dtype=np.float32)
    track = AudioTrack(BLOCK, begin)

    def hold(block: Samples) -> None:
        track.hold(block, frames_of(audio, track.known_frames, frame_count(track.heard + len(block))))

    at = forgotten = begin
    for size, flushed in packets:
        for block in track.receive(audio[at : at + size].copy()):
            hold(block)
            assert track.heard % BLOCK == 0
        at += size
        assert track.received == at
        assert at - track.heard < BLOCK
        if flushed:
            hold(track.short_block())
            assert track.received == at
            assert at - track.heard < 160
            assert track.heard % 160 == 0
        forgotten = max(forgotten, data.draw(st.integers(begin, at)))
        track.forget_before(forgotten)
        assert track.held < track.heard - min(forgotten, track.heard) + BLOCK
        assert track.held_frames <= (track.held + BLOCK) // 160
        start = data.draw(st.integers(forgotten, at))
        end = data.draw(st.integers(start, at))
        np.testing.assert_array_equal(track.cut(start, end), audio[start:end])
        first = min(frame_at(start), track.known_frames)
        last = data.draw(st.integers(first, track.known_frames))
        np.testing.assert_array_equal(track.cut_frames(first, last).reshape(-1), audio[first * 160 : last * 160])
    rest = track.last_block()
    np.testing.assert_array_equal(rest, audio[track.heard :])
    hold(rest)
    assert track.heard == track.received == at


def test_what_is_cut_out_is_a_copy() -> None:
    track = AudioTrack(BLOCK)
    [block] = track.receive(np.ones(BLOCK, np.float32))
    track.hold(block, frames_of(block, 0, 8).copy())
    track.cut(0, BLOCK)[:] = 0
    track.cut_frames(0, 8)[:] = 0
    assert track.cut(0, BLOCK).all()
    assert track.cut_frames(0, 8).all()


@pytest.mark.parametrize(("pause", "cut"), [((3200, 6400), 4800), ((8000, 10_560), 9280), (None, 15_200)])
def test_the_quietest_stretch_is_found_and_of_equals_the_last(pause: tuple[int, int] | None, cut: int) -> None:
    audio = np.full(16_000, 0.5, np.float32)
    if pause:
        audio[slice(*pause)] = 0.01
        audio[(sum(pause) - QUIET_SPAN) // 2 : (sum(pause) + QUIET_SPAN) // 2] = 0.001
    track = AudioTrack(16_000)
    track.hold(audio, frames_of(audio, 0, 0))
    assert track.quietest(0, 16_000) == (cut if pause else 16_000 - QUIET_SPAN // 2)
    assert track.quietest(1600, 16_000) % 160 == 0
    assert track.quietest(15_000, 16_000) == 16_000


@pytest.mark.parametrize("seed", range(20))
async def test_a_line_tells_in_order_whatever_gets_ready_first(seed: int) -> None:
    rng = random.Random(seed)
    line = Line(5)
    told: list[int] = []
    waiting: list[tuple[int, Place]] = []

    async def join_all() -> None:
        for number in range(30):
            await line.room()
            waiting.append((number, line.join()))
            assert len(line) <= 5
            line.check_integrity()

    joining = asyncio.ensure_future(join_all())
    while not joining.done() or waiting:
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        number, place = waiting.pop(rng.randrange(len(waiting)))
        line.ready(place, lambda number=number: told.append(number))
        line.check_integrity()
    assert told == list(range(30))
    assert len(line) == 0


async def test_a_line_that_holds_much_audio_has_no_room_though_it_has_places() -> None:
    line = Line(5, max_audio_s=10)
    first, second = line.join(4.5), line.join(6)
    assert line.full
    waiting = asyncio.ensure_future(line.room())
    line.ready(second, lambda: None)
    await asyncio.sleep(0)
    assert not waiting.done()
    line.check_integrity()
    line.ready(first, lambda: None)
    await waiting
    line.check_integrity()
    assert not line.full


def test_a_budget_starts_with_one_draft_and_grows_while_they_come_back_soon() -> None:
    budget = DraftBudget(0.5)
    assert budget.take()
    assert not budget.take()
    budget.give_back(0.1)
    assert budget.take()
    assert budget.take()
    assert not budget.take()
    assert budget.running == 2


@given(st.lists(st.sampled_from(["take", "soon", "late", "given up"]), max_size=300))
def test_a_budget_never_runs_more_than_its_limit_and_always_leaves_one(steps: list[str]) -> None:
    budget = DraftBudget(0.5)
    for step in steps:
        if step == "take":
            room = budget.running < budget.limit
            assert budget.take() == room
        elif budget.running:
            budget.give_back({"soon": 0.1, "late": 5.0, "given up": None}[step])
        budget.check_integrity()
        assert 1 <= budget.limit <= MOST


def test_drafts_that_come_back_late_bring_the_limit_down_to_one() -> None:
    budget = DraftBudget(0.5)
    for _ in range(20):
        while budget.take():
            pass
        while budget.running:
            budget.give_back(0.1)
    assert budget.limit > 5
    for _ in range(100):
        budget.take()
        budget.give_back(2.0)
    assert budget.limit == 1
