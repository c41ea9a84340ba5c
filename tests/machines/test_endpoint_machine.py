"""Whatever the voice does, segments are monotone, bounded and heard whole."""

from typing import NamedTuple

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from streamscribe.core.endpoint import Endpointer, EndpointReason, EndpointRules, SegmentClosed, SegmentOpened

RULES = EndpointRules(max_segment=5000, preroll=300, tail=200, lookback=800, min_speech=250)
BLOCK = 1000


class Voice(NamedTuple):
    started: bool
    at: int


def quietest(start: int, end: int) -> int:
    return start + (7 * start + end) % (end - start + 1)


class EndpointMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.first = self.endpointer = Endpointer(RULES, quietest)
        self.position = 0
        self.voice = False
        self.last_change = 0
        self.open: SegmentOpened | None = None
        self.last = SegmentClosed(0, 0, 0, 0, EndpointReason.END)
        self.needed = 0

    def perform(self, step):
        """Performs a step of the endpointer; the one that would not have been replaced does the same."""
        effects = step(self.endpointer)
        if self.first is not self.endpointer:
            assert step(self.first) == effects
        for effect in effects:
            assert effect.audio_start >= self.needed
            if isinstance(effect, SegmentOpened):
                self.law_5_segments_follow_each_other(effect)
                self.law_6_preroll_is_kept(effect)
                self.open = effect
            else:
                self.law_5_a_segment_ends_after_its_beginning(effect)
                self.law_6_tail_is_kept(effect)
                self.open = None
                if effect.reason is not EndpointReason.TOO_SHORT:  # else nothing has been heard
                    self.last = effect
        assert self.endpointer.open_segment == self.open
        self.needed = self.endpointer.oldest_needed

    def law_5_segments_follow_each_other(self, opened):
        assert self.open is None
        assert self.last.end <= opened.start <= self.position

    def law_5_a_segment_ends_after_its_beginning(self, closed):
        assert self.open == SegmentOpened(closed.start, closed.audio_start)
        assert closed.start <= closed.end <= self.position
        assert closed.end - closed.start <= RULES.max_segment

    def law_6_preroll_is_kept(self, opened):
        wanted = max(0, opened.start - RULES.preroll)
        assert wanted <= opened.audio_start <= opened.start
        assert opened.audio_start == wanted or opened.audio_start <= max(self.last.audio_end, wanted)

    def law_6_tail_is_kept(self, closed):
        if closed.reason is EndpointReason.TOO_SHORT:
            assert closed.empty
            return
        tail = RULES.tail if closed.reason is not EndpointReason.MAX_LENGTH else 0
        assert closed.audio_end == min(self.position, closed.end + tail)
        assert closed.audio_end + closed.padding == closed.end + tail

    @rule(data=st.data(), count=st.integers(0, 3))
    def a_block_is_heard(self, data, count):
        self.position += BLOCK
        changes = []
        for _ in range(count):
            oldest = 0 if self.voice else self.position - BLOCK - RULES.lookback
            low = max(self.last_change, oldest)
            self.last_change = data.draw(st.integers(low, self.position))
            self.voice = not self.voice
            changes.append(Voice(self.voice, self.last_change))
        self.perform(lambda one: one.advance(self.position, changes))
        assert self.voice == (self.open is not None) or self.last.end == self.position

    @rule()
    def a_flush_leaves_nothing_open(self):
        self.perform(lambda one: one.flush(self.position))
        assert self.open is None

    @rule()
    def another_goes_on_where_it_stands_between_two_segments(self):
        between = self.endpointer.between
        if between is not None:
            self.endpointer = Endpointer(RULES, quietest, between)
            self.endpointer.advance(self.position)
        assert self.endpointer.open_segment == self.open
        assert (between is not None) or self.open is not None

    @invariant()
    def the_equation_holds(self):
        self.endpointer.check_integrity()
        assert self.position - self.needed <= RULES.max_segment + RULES.preroll + RULES.lookback

    def teardown(self):
        self.perform(lambda one: one.end(self.position))
        assert self.open is None


TestEndpoint = EndpointMachine.TestCase
