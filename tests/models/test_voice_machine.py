"""FunASR's rules from speech frames to segments, without a model."""

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from streamscribe.models.fsmn_vad.machine import Boundary, VoiceMachine, VoiceRules

RULES = VoiceRules(window=20, speech_in_window=15, silence_in_window=15, lookback=20, lookahead=10, silence=65)
RUNS = st.lists(st.tuples(st.booleans(), st.integers(1, 120)), max_size=12).map(
    lambda runs: [flag for flag, length in runs for _ in range(length)]
)
SETTINGS = st.builds(
    VoiceRules,
    window=st.just(20),
    speech_in_window=st.just(15),
    silence_in_window=st.just(15),
    lookback=st.just(20),
    lookahead=st.just(10),
    silence=st.integers(-5, 200).map(float),
)


def heard(rules: VoiceRules, frames: list[bool]) -> list[Boundary]:
    return VoiceMachine(rules).advance(frames, last=True)


def test_voice_starts_before_the_window_that_proves_it_and_ends_after_the_lookahead():
    frames = [False] * 100 + [True] * 100 + [False] * 200
    # Proven by the 15th speech frame, 40 frames back. Five frames of the window turn silent, then eleven count in.
    assert heard(RULES, frames) == [Boundary(True, 114 - 40), Boundary(False, 200 + 5 + 11)]


def test_a_start_never_lies_before_the_stream_or_the_segment_before():
    frames = [True] * 30 + [False] * 80 + [True] * 100
    start, end, again, _ = heard(RULES, frames)
    assert start.frame == 0
    assert again.frame >= end.frame


def test_a_pause_within_the_silence_does_not_end_the_segment():
    # 65 frames of silence, after the five that turn the window and with the fourteen before speech is proven again.
    frames = [True] * 50 + [False] * 55 + [True] * 50
    assert heard(RULES, frames) == [Boundary(True, 0), Boundary(False, 155)]
    assert len(heard(RULES, [True] * 50 + [False] * 56 + [True] * 50)) == 4


def test_a_voice_that_the_last_frame_proves_is_ended_too():
    assert heard(RULES, [True] * 15) == [Boundary(True, 0), Boundary(False, 15)]


def test_less_than_a_window_of_speech_is_no_voice():
    assert heard(RULES, [False] * 50 + [True] * 14 + [False] * 50) == []


@given(SETTINGS, RUNS)
def test_law_5_boundaries_alternate_and_stay_in_order_and_inside_the_stream(rules, frames):
    boundaries = heard(rules, frames)
    assert [b.started for b in boundaries] == [i % 2 == 0 for i in range(len(boundaries))]
    positions = [b.frame for b in boundaries]
    assert positions == sorted(positions)
    assert all(0 <= position <= len(frames) for position in positions)


@given(SETTINGS, RUNS, st.lists(st.integers(0, 500), max_size=6))
def test_law_4_the_cuts_between_blocks_change_nothing(rules, frames, cuts):
    machine = VoiceMachine(rules)
    edges = [0, *sorted(min(cut, len(frames)) for cut in cuts), len(frames)]
    found: list[Boundary] = []
    for start, stop in pairwise(edges):
        found += machine.advance(frames[start:stop])
    found += machine.advance([], last=True)
    assert found == heard(rules, frames)


@given(SETTINGS, RUNS)
def test_law_7_what_is_kept_does_not_grow(rules, frames):
    machine = VoiceMachine(rules)
    for _ in range(20):
        machine.advance(frames)
    kept = {name: getattr(machine, name) for name in VoiceMachine.__slots__ if name != "_rules"}
    assert all(value is None or type(value) in (int, bool) for value in kept.values())
    assert kept["_window"] < 1 << rules.window
