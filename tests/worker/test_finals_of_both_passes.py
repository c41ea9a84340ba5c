"""What becomes of a first text: marks, moods, and the second pass' word for it."""

import threading
from collections.abc import Callable, Sequence
from dataclasses import replace

import pytest

from streamscribe.core.rules import TextPolicy
from streamscribe.core.tokens import Mark
from streamscribe.models.fake.recognizer import FakeRecognizer
from streamscribe.models.ports import Hypothesis, SegmentRequest
from streamscribe.text.policy import PolicyIndex
from tests.worker.kit import rig, speech, two_pass_models
from tests.worker.passes import TWO_PASS, play


class _Commas:
    """Puts a mark behind each text."""

    def __init__(self) -> None:
        self.texts: list[str] = []

    def punctuate(self, batch: Sequence[str]) -> list[tuple[Mark, ...]]:
        self.texts += batch
        return [(Mark(len(text), "."),) for text in batch]


async def test_finals_of_both_passes_are_punctuated_and_partials_are_not() -> None:
    punctuator = _Commas()
    async with rig(two_pass_models(punctuator=punctuator)) as worker:
        await play(worker, "s", speech(24, 2000), TWO_PASS)
        assert worker.partials("s")
        assert all(final.text.endswith(".") for final in worker.finals("s"))
        assert not any("." in partial.text for partial in worker.partials("s"))
        assert len(punctuator.texts) == 2
        await worker.transcribe("bare", speech(24, 2000), replace(TWO_PASS, punctuation=False))
        assert len(punctuator.texts) == 2


class _Moody(FakeRecognizer):
    def recognize(self, batch: Sequence[SegmentRequest]) -> list[Hypothesis]:
        return [
            replace(heard, punctuated=True, emotion="happy", events=("laughter",)) for heard in super().recognize(batch)
        ]


async def test_what_a_model_hears_besides_words_reaches_the_result() -> None:
    punctuator = _Commas()
    async with rig(two_pass_models(recognizer=_Moody(), punctuator=punctuator)) as worker:
        first, second = await worker.transcribe("s", speech(25, 2000), TWO_PASS)
        assert (first.emotion, second.emotion, second.events) == (None, "happy", ("laughter",))
        assert len(punctuator.texts) == 1  # the second pass writes its own marks


class _NoMarks:
    def punctuate(self, batch: Sequence[str]) -> list[tuple[Mark, ...]]:
        raise ValueError("no marks")


async def test_a_punctuator_that_fails_costs_only_the_marks() -> None:
    async with rig(two_pass_models(punctuator=_NoMarks())) as worker:
        assert all(final.text for final in await worker.transcribe("s", speech(26, 2000), TWO_PASS))


class _Nobody(FakeRecognizer):
    def recognize(self, batch: Sequence[SegmentRequest]) -> list[Hypothesis]:
        return [Hypothesis("")] * len(batch)


async def test_a_second_pass_that_hears_nobody_takes_the_first_text_back() -> None:
    async with rig(two_pass_models(recognizer=_Nobody())) as worker:
        first, second = await worker.transcribe("s", speech(27, 2000), TWO_PASS)
        assert first.text
        assert (second.pass_, second.text) == (2, "")
        assert worker.observer.of("segment_empty") == [("default",)]


async def test_a_policy_is_compiled_off_the_event_loop_and_masks_partials_and_finals(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    threads: list[threading.Thread] = []
    build: Callable[..., None] = PolicyIndex.__init__

    def noted(index: PolicyIndex, *parts: object) -> None:
        threads.append(threading.current_thread())
        build(index, *parts)

    monkeypatch.setattr(PolicyIndex, "__init__", noted)
    policy = TextPolicy(redact=("pugeri",))
    async with rig(two_pass_models()) as worker:
        await play(worker, "s", speech(24, 2000), TWO_PASS, policy)
        await play(worker, "t", speech(24, 2000), TWO_PASS, policy)
        assert any("******" in partial.text for partial in worker.partials("s"))
        assert all("******" in final.text for final in worker.finals("t"))
        assert not any("puge" in result.text for name in "st" for result in worker.results(name))
    assert len(threads) == 1
    assert threading.main_thread() not in threads
