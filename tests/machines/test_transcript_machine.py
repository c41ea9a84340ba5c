"""Any sequence of decodes leaves a transcript's laws intact."""

from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from streamscribe.core.results import Result, Word
from streamscribe.core.script import common_prefix, is_boundary
from streamscribe.core.transcript import Transcript, continue_from

texts = st.lists(
    st.sampled_from(
        ["we", "meet", "meat", "on", "Monday", ",", ".", "it's", "今", "天", "气", "，", "AI", "3", "한국어"]
    ),
    max_size=6,
).flatmap(lambda parts: st.sampled_from(["", " "]).map(lambda space: space.join(parts)))
times = st.integers(-100, 3000)


class TranscriptMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.transcript = Transcript()
        self.last_pass = 1
        self.channels: list[int] = []
        self.told: list[Result] = []

    @initialize(last_pass=st.integers(1, 2))
    def a_session_begins(self, last_pass: int) -> None:
        self.last_pass = last_pass
        self.transcript = Transcript(last_pass)

    @rule(channel=st.integers(0, 1), start_ms=st.integers(0, 1000))
    def voice_begins(self, channel: int, start_ms: int) -> None:
        assert self.transcript.open_segment(channel, start_ms) == len(self.channels)
        self.channels.append(channel)

    @precondition(lambda self: self.channels)
    @rule(data=st.data(), text=texts, end_ms=times)
    def a_partial_is_decoded(self, data: st.DataObject, text: str, end_ms: int) -> None:
        self.tell(self.transcript.partial(self.draw_segment(data), text, end_ms, sequence=0))

    @precondition(lambda self: self.channels)
    @rule(
        data=st.data(),
        text=texts,
        pass_=st.integers(1, 2),
        end_ms=times,
        spans=st.lists(st.tuples(times, times), max_size=4),
    )
    def a_final_is_decoded(self, data, text, pass_, end_ms, spans) -> None:
        words = [Word("w", start, end, 1.0) for start, end in spans]
        result = self.transcript.final(self.draw_segment(data), pass_, text, end_ms, words, sequence=0)
        if result is not None:
            self.law_5_times_are_monotone_and_inside(result)
            assert len(result.words) == len(words)
        self.tell(result)

    @precondition(lambda self: self.channels)
    @rule(data=st.data())
    def nobody_spoke(self, data: st.DataObject) -> None:
        self.tell(self.transcript.drop(self.draw_segment(data), data.draw(st.integers(1, 2)), sequence=0))

    def draw_segment(self, data: st.DataObject) -> int:
        return data.draw(st.integers(max(0, len(self.channels) - 3), len(self.channels)))

    def tell(self, result: Result | None) -> None:
        if result is None:
            return
        before = [old for old in self.told if old.segment_id == result.segment_id]
        assert result.version == len(self.told) + 1, "law 3: versions grow, none is spent for nothing"
        finals = [old.pass_ for old in before if old.is_final]
        assert not finals or (result.is_final and result.pass_ > max(finals)), "law 3: one final per segment and pass"
        if not result.is_final and before:
            last = before[-1]
            stable = last.text[: last.stable_chars]
            assert result.text.startswith(stable)
            assert result.stable_chars >= last.stable_chars
            assert (result.text, result.stable_chars) != (last.text, last.stable_chars)
        if self.last_pass == 1 and not result.is_final:
            concluded = {old.segment_id for old in self.told if old.is_final}
            earlier = {
                one for one, channel in enumerate(self.channels[: result.segment_id]) if channel == result.channel
            }
            assert earlier <= concluded, "one pass: a channel's segments are told one after the other"
        self.told.append(result)

    def law_5_times_are_monotone_and_inside(self, result: Result) -> None:
        marks = [result.start_ms]
        for word in result.words:
            marks += [word.start_ms, word.end_ms]
        marks.append(result.end_ms)
        assert marks == sorted(marks)

    @invariant()
    def integrity(self) -> None:
        self.transcript.check_integrity()
        assert self.transcript.version == len(self.told)


TestTranscript = TranscriptMachine.TestCase
TestTranscript.settings = settings(max_examples=60, stateful_step_count=40)


@given(texts, texts)
def test_a_common_prefix_begins_both_and_tears_no_word(one: str, other: str) -> None:
    shared = common_prefix(one, other)
    assert one.startswith(shared)
    assert other.startswith(shared)
    assert is_boundary(one, len(shared))
    assert is_boundary(other, len(shared))
    assert shared == common_prefix(other, one)


@given(texts, texts)
def test_a_rebuilt_text_keeps_the_stable_prefix(stable: str, text: str) -> None:
    stable = stable.rstrip()
    assert continue_from(stable, text).startswith(stable)
