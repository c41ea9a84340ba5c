"""Where segments begin and end, told in samples."""

from dataclasses import replace
from typing import NamedTuple

from streamscribe.core.endpoint import Endpointer as RealEndpointer
from streamscribe.core.endpoint import EndpointReason, EndpointRules, SegmentClosed, SegmentOpened

RULES = EndpointRules(max_segment=10_000, preroll=300, tail=200, lookback=500)
SILENCE, MAX_LENGTH, FLUSH, END, TOO_SHORT = EndpointReason


class Voice(NamedTuple):
    started: bool
    at: int


def begins(at):
    return Voice(True, at)


def ends(at):
    return Voice(False, at)


class Endpointer(RealEndpointer):
    """Checks the equation after each step."""

    def advance(self, position, changes=()):
        effects = super().advance(position, changes)
        self.check_integrity()
        return effects


def test_law_6_a_segment_has_its_preroll_and_tail():
    endpointer = Endpointer(RULES)
    assert endpointer.advance(1000) == []
    assert endpointer.advance(2000, [begins(1500)]) == [SegmentOpened(1500, audio_start=1200)]
    assert endpointer.advance(3000) == []
    assert endpointer.advance(4000, [ends(3400)]) == [SegmentClosed(1500, 3400, 1200, 3600, SILENCE)]


def test_preroll_ends_at_the_beginning_of_the_session():
    assert Endpointer(RULES).advance(1000, [begins(100)]) == [SegmentOpened(100, audio_start=0)]


def test_preroll_does_not_repeat_what_the_segment_before_heard():
    endpointer = Endpointer(RULES)
    endpointer.advance(2000, [begins(1000)])
    endpointer.advance(3000, [ends(2500)])
    assert endpointer.advance(4000, [begins(2900)]) == [SegmentOpened(2900, audio_start=2700)]


def test_law_6_a_segment_that_begins_in_the_tail_of_the_one_before_is_heard_whole():
    endpointer = Endpointer(RULES)
    endpointer.advance(3000, [begins(1000), ends(2500)])
    assert endpointer.advance(4000, [begins(2600)]) == [SegmentOpened(2600, audio_start=2600)]


def test_law_6_silence_stands_for_what_of_the_tail_has_not_come():
    endpointer = Endpointer(RULES)
    assert endpointer.advance(3000, [begins(1000), ends(2950)])[1] == SegmentClosed(1000, 2950, 700, 3000, SILENCE, 150)


def test_a_segment_is_cut_at_its_longest_and_the_next_begins_at_the_cut():
    endpointer = Endpointer(RULES)
    endpointer.advance(2000, [begins(1000)])
    assert endpointer.advance(11_000) == []
    assert endpointer.advance(12_000) == [
        SegmentClosed(1000, 11_000, 700, 11_000, MAX_LENGTH),
        SegmentOpened(11_000, audio_start=11_000),
    ]


def test_a_long_step_is_cut_as_often_as_needed():
    endpointer = Endpointer(RULES)
    effects = endpointer.advance(35_000, [begins(0)])
    assert [effect.start for effect in effects if isinstance(effect, SegmentOpened)] == [0, 10_000, 20_000, 30_000]


def test_a_segment_that_ended_just_beyond_the_longest_is_cut_too():
    endpointer = Endpointer(RULES)
    endpointer.advance(2000, [begins(1000)])
    effects = endpointer.advance(12_000, [ends(11_500)])
    assert effects == [
        SegmentClosed(1000, 11_000, 700, 11_000, MAX_LENGTH),
        SegmentOpened(11_000, audio_start=11_000),
        SegmentClosed(11_000, 11_500, 11_000, 11_700, SILENCE),
    ]


def test_a_flush_during_voice_closes_and_the_next_segment_begins_at_the_flush():
    endpointer = Endpointer(RULES)
    endpointer.advance(2000, [begins(1000)])
    assert endpointer.flush(2300) == [SegmentClosed(1000, 2300, 700, 2300, FLUSH, 200)]
    assert endpointer.open_segment is None
    assert endpointer.oldest_needed == 2300
    assert endpointer.advance(3000) == [SegmentOpened(2300, audio_start=2300)]


def test_a_flush_after_the_voice_had_already_ended_opens_nothing():
    endpointer = Endpointer(RULES)
    endpointer.advance(2000, [begins(1000)])
    endpointer.flush(2300)
    assert endpointer.advance(3000, [ends(2100)]) == []


def test_voice_that_ended_before_a_cut_leaves_an_empty_segment_behind_the_cut():
    endpointer = Endpointer(RULES)
    endpointer.advance(2000, [begins(1000)])
    endpointer.advance(12_000)
    assert endpointer.advance(13_000, [ends(10_900)]) == [SegmentClosed(11_000, 11_000, 11_000, 11_200, SILENCE)]


def test_a_flush_without_voice_does_nothing():
    endpointer = Endpointer(RULES)
    endpointer.advance(2000)
    assert endpointer.flush(2500) == []


def test_the_end_closes_what_is_open():
    endpointer = Endpointer(RULES)
    endpointer.advance(2000, [begins(1000)])
    assert endpointer.end(2700) == [SegmentClosed(1000, 2700, 700, 2700, END, 200)]


def test_a_flush_and_then_the_end_leave_one_segment():
    endpointer = Endpointer(RULES)
    endpointer.advance(2000, [begins(1000)])
    endpointer.flush(2300)
    assert endpointer.end(2300) == []


def test_what_is_needed_is_bounded_by_lookback_and_preroll_in_silence_and_by_the_segment_in_voice():
    endpointer = Endpointer(RULES)
    assert endpointer.oldest_needed == 0
    endpointer.advance(5000)
    assert endpointer.oldest_needed == 5000 - 500 - 300
    endpointer.advance(6000, [begins(5500)])
    endpointer.advance(9000)
    assert endpointer.oldest_needed == 5200


def test_a_start_in_the_future_counts_from_now():
    assert Endpointer(RULES).advance(1000, [begins(1010)]) == [SegmentOpened(1000, audio_start=700)]


def test_voice_that_grows_too_long_is_cut_where_it_is_quietest():
    asked = []

    def quietest(start, end):
        asked.append((start, end))
        return 8000

    endpointer = RealEndpointer(RULES, quietest)
    endpointer.advance(2000, [begins(1000)])
    assert endpointer.advance(11_001) == [
        SegmentClosed(1000, 8000, 700, 8000, MAX_LENGTH),
        SegmentOpened(8000, audio_start=8000),
    ]
    assert asked == [(6000, 11_000)]  # never in the first half
    endpointer.check_integrity()


def test_the_quietest_is_looked_for_in_the_last_seconds_only():
    rules = EndpointRules(max_segment=160_000, preroll=0, tail=0, lookback=0)
    asked = []
    endpointer = RealEndpointer(rules, lambda start, end: asked.append((start, end)) or end)
    endpointer.advance(200_000, [begins(0)])
    assert asked == [(120_000, 160_000)]


PATIENT = replace(RULES, min_speech=400)


def test_voice_that_is_too_short_leaves_an_empty_segment():
    endpointer = Endpointer(PATIENT)
    effects = endpointer.advance(3000, [begins(1000), ends(1399)])
    assert effects == [SegmentOpened(1000, audio_start=700), SegmentClosed(1000, 1000, 700, 1000, TOO_SHORT)]
    assert effects[1].empty


def test_voice_that_is_just_long_enough_is_a_segment():
    endpointer = Endpointer(PATIENT)
    assert endpointer.advance(3000, [begins(1000), ends(1400)])[1].reason is SILENCE


def test_the_audio_of_a_voice_too_short_may_be_the_next_preroll():
    endpointer = Endpointer(PATIENT)
    endpointer.advance(2000, [begins(1000), ends(1300)])
    assert endpointer.advance(3000, [begins(1500)]) == [SegmentOpened(1500, audio_start=1200)]


def test_the_rest_of_a_long_voice_behind_a_cut_is_not_too_short():
    endpointer = Endpointer(PATIENT)
    endpointer.advance(2000, [begins(1000)])
    endpointer.flush(2300)
    assert endpointer.advance(3000, [ends(2400)])[-1] == SegmentClosed(2300, 2400, 2300, 2600, SILENCE)


def test_voice_too_short_at_the_end_of_the_audio_is_none_but_a_flush_takes_what_there_is():
    endpointer = Endpointer(PATIENT)
    endpointer.advance(1200, [begins(1000)])
    assert endpointer.end(1200)[-1].reason is TOO_SHORT
    endpointer = Endpointer(PATIENT)
    endpointer.advance(1200, [begins(1000)])
    assert endpointer.flush(1200)[-1].reason is FLUSH


def test_nobody_goes_on_from_a_voice_that_begins_with_the_newest_sample_where_another_ended():
    """Were the audio to end there, only the one that has opened a segment would close it."""
    endpointer = Endpointer(RULES)
    endpointer.advance(3000, [begins(1000), ends(3000), begins(3000)])
    assert endpointer.open_segment is not None
    assert endpointer.between is None
    endpointer.advance(4000)
    assert endpointer.between is not None


def test_a_segment_ends_by_the_rules_that_are_followed_then():
    endpointer = Endpointer(RULES)
    endpointer.advance(3000, [begins(1000)])
    endpointer.follow(replace(RULES, tail=RULES.tail + 300))
    [closed] = endpointer.advance(6000, [ends(4000)])
    assert closed.audio_end == 4000 + RULES.tail + 300
