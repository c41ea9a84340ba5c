"""What every segment recogniser promises. A test class of an engine inherits it and names its fixtures.

Beside `recognizer`, an engine gives `utterances`: three recordings of 1 to 10 s in which it hears words.
"""

import dataclasses
from typing import Any

import numpy as np
import pytest

from streamscribe.core.audio import to_samples
from streamscribe.models.ports import Hypothesis, Samples, SegmentRecognizer, SegmentRequest


def requests(utterances: list[Samples], **how: Any) -> list[SegmentRequest]:
    return [SegmentRequest(samples, **how) for samples in utterances]


class SegmentRecognizerContract:
    @pytest.fixture
    def recognizer(self) -> SegmentRecognizer:
        raise NotImplementedError

    @pytest.fixture
    def utterances(self) -> list[Samples]:
        raise NotImplementedError

    def test_each_request_has_its_own_text_in_order(self, recognizer, utterances):
        texts = [hypothesis.text for hypothesis in recognizer.recognize(requests(utterances))]
        backwards = [hypothesis.text for hypothesis in recognizer.recognize(requests(utterances[::-1]))]
        assert all(texts)
        assert len(set(texts)) == len(utterances)
        assert backwards == texts[::-1]

    def test_law_4_batch_mates_change_nothing(self, recognizer, utterances):
        batch = [
            *requests(utterances, words=True),
            *requests(utterances[:1], draft=True),
            SegmentRequest(np.zeros(to_samples(1000), dtype=np.float32)),
        ]
        alone = [recognizer.recognize([request])[0] for request in batch]
        together = recognizer.recognize(batch)
        assert [self.compared(hypothesis) for hypothesis in together] == [self.compared(one) for one in alone]

    def test_law_4_equal_requests_give_equal_hypotheses(self, recognizer, utterances):
        request = SegmentRequest(utterances[0], words=True)
        first, second = recognizer.recognize([request, dataclasses.replace(request)])
        assert self.compared(first) == self.compared(second)

    @staticmethod
    def compared(hypothesis: Hypothesis) -> tuple[Any, ...]:
        """What has to be equal: all but the confidences' last digits, which a batch's arithmetic may change."""
        words = tuple((word.text, word.start, word.end) for word in hypothesis.words)
        return hypothesis.text, hypothesis.language, round(hypothesis.confidence, 2), words

    def test_law_5_words_lie_in_order_inside_the_segment_and_make_up_the_text(self, recognizer, utterances):
        for samples, heard in zip(utterances, recognizer.recognize(requests(utterances, words=True)), strict=True):
            assert heard.words
            times = [time for word in heard.words for time in (word.start, word.end)]
            assert times == sorted(times)
            assert times[0] >= 0
            assert times[-1] <= len(samples)
            assert "".join("".join(word.text for word in heard.words).split()) == "".join(heard.text.split())
            assert all(0 <= word.confidence <= 1 for word in heard.words)
            assert 0 <= heard.confidence <= 1

    def test_words_come_only_when_asked_for(self, recognizer, utterances):
        assert all(heard.words == () for heard in recognizer.recognize(requests(utterances)))

    def test_silence_has_no_text(self, recognizer):
        lengths = (0, 1, 100, to_samples(300), to_samples(5000))
        silences = [np.zeros(length, dtype=np.float32) for length in lengths]
        for heard in recognizer.recognize([*requests(silences, words=True), *requests(silences, draft=True)]):
            assert (heard.text, heard.words) == ("", ())

    def test_a_draft_is_a_text_too(self, recognizer, utterances):
        assert all(heard.text for heard in recognizer.recognize(requests(utterances, draft=True)))

    def test_a_given_language_is_kept(self, recognizer, utterances):
        for heard in recognizer.recognize(requests(utterances, language="en")):
            assert heard.language == "en"

    def test_the_longest_segment_is_taken(self, recognizer, utterances):
        speech = np.concatenate(utterances)
        longest = np.tile(speech, recognizer.max_samples // len(speech) + 1)[: recognizer.max_samples]
        assert recognizer.recognize([SegmentRequest(longest)])[0].text

    def test_an_empty_batch_is_nothing(self, recognizer):
        assert recognizer.recognize([]) == []
