"""Any order of arrival leaves an intake with each item once and in order."""

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from streamscribe.core.errors import SequenceGap
from streamscribe.core.intake import DUPLICATE, Intake


class IntakeMachine(RuleBasedStateMachine):
    @initialize(window=st.integers(0, 4), window_bytes=st.sampled_from([0, 15, 100]), first=st.sampled_from([0, 1]))
    def begin(self, window: int, window_bytes: int, first: int) -> None:
        self.window, self.window_bytes, self.first = window, window_bytes, first
        self.intake: Intake[int] = Intake(window=window, window_bytes=window_bytes, gap_timeout_s=2.0, firsts=(0, 1))
        self.released = self.expect_list(self.intake.offer(first, first, 10, 0.0))
        self.held: set[int] = set()
        self.now = 0.0

    @staticmethod
    def expect_list(taken: object) -> list[int]:
        assert isinstance(taken, list)
        return taken

    @rule(distance=st.integers(-3, 6))
    def an_item_arrives(self, distance: int) -> None:
        self.now += 0.5
        sequence = max(0, self.first + len(self.released) + distance)
        known = sequence in self.held or sequence < self.first + len(self.released)
        assert self.intake.has(sequence) == known
        taken = self.intake.offer(sequence, sequence, 10, self.now)
        if known:
            assert taken is DUPLICATE
        elif isinstance(taken, SequenceGap):
            full = (len(self.held) + 1) * 10 > self.window_bytes
            assert distance > 0
            assert distance > self.window or full, "law 7: refused only beyond the window"
        else:
            self.released += self.expect_list(taken)
            self.held = {held for held in {*self.held, sequence} if held >= self.first + len(self.released)}

    @rule()
    def what_is_held_is_forgotten(self) -> None:
        assert self.intake.forget_held() == 10 * len(self.held)
        self.held = set()

    @invariant()
    def law_2_released_items_are_all_and_in_order(self) -> None:
        assert self.released == list(range(self.first, self.first + len(self.released)))
        assert self.intake.next_sequence == self.first + len(self.released)

    @invariant()
    def a_gap_is_timed_while_items_are_held(self) -> None:
        at = self.intake.next_timer()
        assert (at is not None) == bool(self.held) == self.intake.holding
        assert at is None or at <= self.now + 2.0

    @invariant()
    def integrity(self) -> None:
        self.intake.check_integrity()


TestIntake = IntakeMachine.TestCase
TestIntake.settings = settings(max_examples=60, stateful_step_count=40)
