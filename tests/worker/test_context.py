"""What a session said before, given to the model that recognises its segments."""

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise

import pytest

from streamscribe.core.options import SessionOptions
from streamscribe.core.records import Failed
from streamscribe.core.tokens import Mark
from streamscribe.models.pool import Models
from streamscribe.models.ports import Hypothesis, SegmentRequest
from streamscribe.models.slot import Slot
from streamscribe.worker import recall
from tests.cache.kit import memory, transcripts
from tests.worker.kit import (
    OFFLINE,
    HeardRecognizer,
    fake_models,
    rig,
    said,
    silence,
    speech,
    stereo,
    two_pass_models,
    voice,
)
from tests.worker.passes import ONLINE, TWO_PASS, of_pass

SPEECH = speech(41, 1500, 900, 2100)
LONG_TTL_S = 60.0


def contexts(recognizer: HeardRecognizer) -> list[str]:
    return [request.context for request in recognizer.requests if not request.draft]


@pytest.mark.parametrize("mode", [OFFLINE, TWO_PASS], ids=["file", "live"])
async def test_each_segment_is_given_the_text_of_the_one_before(mode: SessionOptions) -> None:
    recognizer = HeardRecognizer()
    async with rig(fake_models(recognizer), context_ttl_s=LONG_TTL_S) as worker:
        finals = await worker.transcribe("s", SPEECH, mode)
        told = [final.text for final in finals]
        assert len(told) == 3
        assert [context.lower() for context in contexts(recognizer)] == ["", *(text.lower() for text in told[:2])]


async def test_by_default_nothing_is_given() -> None:
    recognizer = HeardRecognizer()
    async with rig(fake_models(recognizer)) as worker:
        await worker.transcribe("s", SPEECH, OFFLINE)
        assert set(contexts(recognizer)) == {""}


async def test_what_was_said_too_long_before_is_not_given() -> None:
    recognizer = HeardRecognizer()
    audio = silence(1200) + voice(1500, 1) + silence(5000) + voice(900, 2) + silence(1200) + voice(900, 3)
    async with rig(fake_models(recognizer), context_ttl_s=3.0) as worker:
        finals = await worker.transcribe("s", audio, OFFLINE)
        first, second, third = contexts(recognizer)
        assert (first, second) == ("", "")
        assert third.lower() == finals[1].text.lower()


async def test_channels_hear_nothing_of_each_other() -> None:
    recognizer = HeardRecognizer()
    audio = replace(OFFLINE.audio, channels=2)
    data = stereo(speech(42, 1500, 900), speech(43, 900, 1500))
    async with rig(fake_models(recognizer), context_ttl_s=LONG_TTL_S) as worker:
        finals = await worker.transcribe("s", data, replace(OFFLINE, audio=audio))
        texts = {channel: [f.text.lower() for f in finals if f.channel == channel] for channel in (0, 1)}
        given = sorted(context.lower() for context in contexts(recognizer))
        assert given == sorted(["", "", texts[0][0], texts[1][0]])


@pytest.mark.parametrize("sizes", [333, 100_000])
async def test_packets_and_other_sessions_change_nothing(sizes: int) -> None:
    async with rig(fake_models(), context_ttl_s=LONG_TTL_S) as worker:
        first = await worker.transcribe("first", SPEECH, OFFLINE)
        assert said(await worker.transcribe("again", SPEECH, OFFLINE, sizes=sizes)) == said(first)


class _Forgetful(HeardRecognizer):
    """Hears nobody in every second segment that it is given."""

    def recognize(self, batch: Sequence[SegmentRequest]) -> list[Hypothesis]:
        heard = super().recognize(batch)
        return [Hypothesis("")] if batch and len(self.requests) % 2 == 0 else heard


async def test_a_segment_in_which_nobody_spoke_hands_on_what_was_said_before_it() -> None:
    recognizer = _Forgetful()
    async with rig(fake_models(recognizer), context_ttl_s=LONG_TTL_S) as worker:
        finals = await worker.transcribe("s", SPEECH, OFFLINE)
        first, second, third = contexts(recognizer)
        assert first == ""
        assert second == third
        assert second.lower() == finals[0].text.lower()


class _Failing(HeardRecognizer):
    def recognize(self, batch: Sequence[SegmentRequest]) -> list[Hypothesis]:
        if batch and len(self.requests) == 1:
            raise ValueError("a defect")
        return super().recognize(batch)


async def test_a_session_whose_segment_fails_ends_and_leaves_nobody_waiting() -> None:
    async with rig(fake_models(_Failing()), context_ttl_s=LONG_TTL_S) as worker:
        await worker.open("s", OFFLINE)
        await worker.send("s", SPEECH)
        await worker.end("s")
        assert isinstance(await worker.over("s"), Failed)
        assert worker.worker.sessions == 0


async def test_kept_finals_are_found_after_the_same_words_only(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recall, "PATIENCE_S", 60)  # however busy this machine is
    recognizer, blobs = HeardRecognizer(), memory()
    async with rig(fake_models(recognizer), transcripts=transcripts(blobs), context_ttl_s=LONG_TTL_S) as worker:
        first = await worker.transcribe("first", SPEECH, OFFLINE)
        requests = len(recognizer.requests)
        assert said(await worker.transcribe("again", SPEECH, OFFLINE)) == said(first)
        assert len(recognizer.requests) == requests
        await worker.transcribe("other", speech(44, 1800) + SPEECH, OFFLINE)
        assert len(recognizer.requests) == requests + 2  # the other words, and what came after them


class HeardPunctuator:
    """Keeps what it reads, and puts `mark` in the middle of it, beside the last one; `broken`, it fails once.

    It hears no sentence end behind the last word: what it has there is `if_open`.
    """

    identity = ("heard", 1)

    def __init__(self, mark: str = ",") -> None:
        self.mark = mark
        self.texts: list[str] = []
        self.broken = False
        self.if_open: str | None = None

    def punctuate(self, batch: Sequence[str]) -> list[tuple[Mark, ...]]:
        self.texts += batch
        if self.broken:
            self.broken = False
            raise ValueError("no marks")
        return [(Mark(self.middle(text), self.mark), Mark(len(text), ".", self.if_open)) for text in batch]

    @staticmethod
    def middle(text: str) -> int:
        return text.index(" ", len(text) // 2)


def punctuated(punctuator: HeardPunctuator, recognizer: HeardRecognizer | None = None) -> Models:
    """Two passes whose recogniser does not read what was said before."""
    models = two_pass_models(recognizer=recognizer, punctuator=punctuator)
    models.recognition = Slot(replace(models.recognition.current, reads_on=False))
    return models


@pytest.mark.parametrize(("mode", "pass_"), [(OFFLINE, 2), (ONLINE, 1), (TWO_PASS, 1), (TWO_PASS, 2)])
async def test_marks_are_found_behind_the_sentence_that_no_end_closes(mode: SessionOptions, pass_: int) -> None:
    punctuator = HeardPunctuator()
    async with rig(punctuated(punctuator), context_ttl_s=LONG_TTL_S) as worker:
        await worker.transcribe("s", SPEECH, mode)
        bare = [final.text.replace(",", "").replace(".", "") for final in of_pass(worker.results("s"), pass_)]
        assert len(bare) == 3
        read = {text.lower() for text in punctuator.texts}
        assert {" ".join(bare[:count]).lower()[-100:] for count in (1, 2)} <= {text[-100:] for text in read}


async def test_what_a_sentence_end_closes_is_not_read_again() -> None:
    punctuator = HeardPunctuator("?")
    async with rig(punctuated(punctuator), context_ttl_s=LONG_TTL_S) as worker:
        finals = await worker.transcribe("s", SPEECH, OFFLINE)
        for former, text in pairwise(punctuator.texts):
            assert text.startswith(former[punctuator.middle(former) :].strip() + " ")
        assert [final.text.count("?") for final in finals] == [
            1 if punctuator.middle(text) > len(text) - len(final.text) else 0
            for text, final in zip(punctuator.texts, finals, strict=True)
        ]


async def test_marks_have_their_places_in_the_text_that_they_are_of() -> None:
    punctuator = HeardPunctuator()
    async with rig(punctuated(punctuator), context_ttl_s=LONG_TTL_S) as worker:
        carried = await worker.transcribe("s", SPEECH, OFFLINE)
    async with rig(punctuated(HeardPunctuator())) as worker:
        plain = await worker.transcribe("s", SPEECH, OFFLINE)
    for one, other in zip(carried, plain, strict=True):
        assert one.text.replace(",", "") == other.text.replace(",", "")
        assert one.text.endswith(".")


@pytest.mark.parametrize(("if_open", "end"), [("", ""), (",", ","), (None, ".")])
async def test_a_final_that_the_next_one_is_read_on_from_ends_as_the_model_has_it(
    if_open: str | None, end: str
) -> None:
    punctuator = HeardPunctuator()
    punctuator.if_open = if_open
    async with rig(punctuated(punctuator), context_ttl_s=LONG_TTL_S) as worker:
        for final in await worker.transcribe("s", SPEECH, OFFLINE):
            assert final.text.endswith(end)
            assert final.text.rstrip(",.") + end == final.text
    async with rig(punctuated(punctuator)) as worker:
        assert all(final.text.endswith(".") for final in await worker.transcribe("s", SPEECH, OFFLINE))


async def test_by_default_marks_are_found_for_each_segment_alone() -> None:
    punctuator = HeardPunctuator()
    async with rig(punctuated(punctuator)) as worker:
        finals = await worker.transcribe("s", SPEECH, OFFLINE)
        alone = {final.text.replace(",", "").replace(".", "").lower() for final in finals}
        assert {text.lower() for text in punctuator.texts} == alone


async def test_a_model_that_does_not_read_on_is_told_nothing_and_its_segments_are_recognised_together() -> None:
    recognizer = HeardRecognizer()
    recognizer.gate.clear()
    async with rig(punctuated(HeardPunctuator(), recognizer), context_ttl_s=LONG_TTL_S) as worker:
        session = asyncio.create_task(worker.transcribe("s", SPEECH, OFFLINE))
        while worker.models.inflight("fake") < 3:
            await asyncio.sleep(0.001)
        recognizer.gate.set()
        await session
        assert set(contexts(recognizer)) == {""}


async def test_a_text_whose_punctuation_failed_leaves_nothing_to_read_on_from() -> None:
    punctuator = HeardPunctuator()
    punctuator.broken = True
    async with rig(punctuated(punctuator), context_ttl_s=LONG_TTL_S) as worker:
        finals = await worker.transcribe("s", SPEECH, OFFLINE)
        assert [final.text.endswith(".") for final in finals] == [False, True, True]
        first, second, third = punctuator.texts
        assert first not in second
        assert third.startswith(second)


async def test_kept_words_get_the_marks_of_the_session_that_asks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recall, "PATIENCE_S", 60)  # however busy this machine is
    recognizer, punctuator, blobs = HeardRecognizer(), HeardPunctuator(), memory()
    models = punctuated(punctuator, recognizer)
    async with rig(models, transcripts=transcripts(blobs), context_ttl_s=LONG_TTL_S) as worker:
        first = await worker.transcribe("first", SPEECH, OFFLINE)
        requests = len(recognizer.requests)
        assert said(await worker.transcribe("again", SPEECH, OFFLINE)) == said(first)
        assert len(recognizer.requests) == requests
        assert punctuator.texts[3:] == punctuator.texts[:3]
        after = await worker.transcribe("other", speech(44, 1800) + SPEECH, OFFLINE)
        assert len(recognizer.requests) == requests + 1  # the other words only
        assert [final.text for final in after[1:]] != [final.text for final in first]
