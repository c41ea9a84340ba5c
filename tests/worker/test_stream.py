"""Laws of one session's results."""

from collections.abc import Sequence
from dataclasses import replace

import pytest

from streamscribe.core.audio import AudioFormat, Encoding, to_samples
from streamscribe.core.errors import BadRequest, SequenceGap
from streamscribe.core.ids import SessionId
from streamscribe.core.options import EndpointOptions, Mode, SessionOptions, Task
from streamscribe.core.records import (
    AudioChunk,
    Failed,
    Finished,
    Flushed,
    Progress,
    Recognised,
    SpeechStarted,
    SpeechStopped,
)
from streamscribe.models.fake.recognizer import FakeRecognizer
from streamscribe.models.ports import Hypothesis, SegmentRequest
from tests.worker.kit import (
    OFFLINE,
    PACKETS,
    HeardRecognizer,
    fake_models,
    rig,
    said,
    silence,
    speech,
    stereo,
    voice,
)

WORDS = replace(OFFLINE, words=True)


@pytest.mark.parametrize("options", [WORDS, SessionOptions(words=True)], ids=["offline", "2pass"])
async def test_law_4_packets_of_any_size_give_identical_finals_ids_and_times(options: SessionOptions) -> None:
    audio = speech(1, 1500, 3000, 700)
    async with rig() as worker:
        one, *others = [said(await worker.transcribe(f"s{size}", audio, options, size)) for size in PACKETS]
        assert len(one) == 3
        assert all(other == one for other in others)


async def test_law_4_holds_for_two_channels_at_another_rate() -> None:
    audio = stereo(speech(1, 1500, 900), speech(2, 900, 1500, pause_ms=700))
    options = replace(WORDS, audio=AudioFormat(Encoding.PCM_S16, 22_050, 2))
    async with rig() as worker:
        one, *others = [said(await worker.transcribe(f"s{size}", audio, options, size)) for size in (7, 960, 100_000)]
        assert {result[1] for result in one} == {0, 1}
        assert all(other == one for other in others)


async def test_each_channel_is_heard_as_if_it_were_alone() -> None:
    left, right = speech(1, 1500, 900), speech(2, 900, 2000)
    async with rig() as worker:
        both = await worker.transcribe("both", stereo(left, right), replace(OFFLINE, audio=AudioFormat(channels=2)))
        for channel, side in enumerate((left, right)):
            alone = await worker.transcribe(f"alone{channel}", side, OFFLINE)
            heard = [result for result in both if result.channel == channel]
            assert [(r.text, r.start_ms, r.end_ms) for r in heard] == [(r.text, r.start_ms, r.end_ms) for r in alone]
        assert sorted(result.segment_id for result in both) == [0, 1, 2, 3]


async def test_law_3_each_segment_gets_one_final_and_versions_only_grow() -> None:
    async with rig() as worker:
        finals = await worker.transcribe("s", speech(3, 1500, 3000, 700))
        assert [final.segment_id for final in finals] == [0, 1, 2]
        versions = [result.version for result in worker.results("s")]
        assert versions == sorted(set(versions))


async def test_law_5_words_lie_in_their_segment_in_order() -> None:
    async with rig() as worker:
        for final in await worker.transcribe("s", speech(4, 1500, 3000), WORDS):
            times = [final.start_ms, *(t for w in final.words for t in (w.start_ms, w.end_ms)), final.end_ms]
            assert times == sorted(times)
            assert [word.text for word in final.words] == final.text.split()


@pytest.mark.parametrize("tail_padding_ms", [0, 120, 300])
async def test_law_6_a_model_hears_audio_before_the_voice_and_as_much_after_it_as_it_asks_for(
    tail_padding_ms: int,
) -> None:
    recognizer = HeardRecognizer()
    recognizer.tail_padding_ms = tail_padding_ms
    async with rig(fake_models(recognizer)) as worker:
        [final] = await worker.transcribe("s", speech(5, 1500), OFFLINE)
        assert (final.start_ms, final.end_ms) == (1200, 2700)
        [request] = recognizer.requests
        assert len(request.samples) == to_samples(300 + 1500 + tail_padding_ms)


@pytest.mark.parametrize("cut_samples", [0, 1, 777])
async def test_law_6_the_last_word_survives_where_audio_ends_without_silence(cut_samples: int) -> None:
    audio = silence(700) + voice(1900, 6)
    audio = audio[: len(audio) - 2 * cut_samples]
    recognizer = HeardRecognizer()
    async with rig(fake_models(recognizer)) as worker:
        [final] = await worker.transcribe("s", audio, OFFLINE)
        assert worker.events["s"][-1] == Finished(SessionId("s"), len(audio) // 32)
        assert final.end_ms == len(audio) // 32
        [request] = recognizer.requests
        heard = len(audio) // 2 - to_samples(400)
        assert len(request.samples) == heard + to_samples(recognizer.tail_padding_ms)
        assert request.samples[heard - 1]
        assert not request.samples[heard:].any()


async def test_law_7_voice_without_end_is_cut_at_the_longest_segment_and_nothing_is_lost() -> None:
    recognizer = HeardRecognizer()
    options = replace(OFFLINE, endpoint=EndpointOptions(max_segment_ms=2000))
    async with rig(fake_models(recognizer)) as worker:
        finals = await worker.transcribe("s", voice(9000, 7), options)
        assert all(final.end_ms - final.start_ms <= 2000 for final in finals)
        heard = sum(len(request.samples) for request in recognizer.requests)
        assert heard == to_samples(9000 + recognizer.tail_padding_ms)  # silence stands for what follows the last


@pytest.mark.parametrize("silence_ms", [300, 900])
async def test_a_session_chooses_the_silence_that_ends_a_segment(silence_ms: int) -> None:
    options = replace(OFFLINE, endpoint=EndpointOptions(silence_ms=silence_ms))
    async with rig() as worker:
        finals = await worker.transcribe("s", speech(8, 1000, 1000, pause_ms=600), options)
        assert len(finals) == (2 if silence_ms == 300 else 1)


async def test_a_flush_closes_the_open_segment_behind_the_last_sample_received() -> None:
    recognizer = HeardRecognizer()
    async with rig(fake_models(recognizer)) as worker:
        await worker.open("s", OFFLINE)
        await worker.send("s", voice(1530, 9))
        await worker.flush("s", "now")
        await worker.flushed("s", "now")
        kinds = [type(event) for event in worker.events["s"] if isinstance(event, Recognised | Flushed)]
        assert kinds == [Recognised, Flushed]
        [final] = worker.finals("s")
        assert (final.start_ms, final.end_ms) == (0, 1530)
        await worker.send("s", voice(1000, 10) + silence(1500))
        await worker.end("s")
        await worker.over("s")
        assert worker.finals("s")[1].start_ms == 1530
        assert len(recognizer.requests[0].samples) == to_samples(1530 + recognizer.tail_padding_ms)


async def test_a_flush_after_the_voice_has_ended_brings_no_text_of_its_own() -> None:
    recognizer = HeardRecognizer()
    async with rig(fake_models(recognizer)) as worker:
        await worker.open("s", OFFLINE)
        await worker.send("s", voice(1000, 11) + silence(500))
        await worker.flush("s", "a")
        await worker.send("s", silence(1500))
        await worker.flush("s", "b")
        await worker.end("s")
        await worker.over("s")
        assert len(worker.finals("s")) == len(recognizer.requests) == 1
        assert [event.marker for event in worker.events["s"] if isinstance(event, Flushed)] == ["a", "b"]


async def test_hot_words_change_from_the_next_segment_on() -> None:
    recognizer = HeardRecognizer()
    async with rig(fake_models(recognizer)) as worker:
        await worker.open("s", OFFLINE)
        await worker.send("s", voice(1000, 12))
        await worker.update("s", "魔搭", "FunASR")
        await worker.send("s", silence(1500) + voice(1000, 13))
        await worker.end("s")
        await worker.over("s")
        phrases = [[hotword.phrase for hotword in request.hotwords] for request in recognizer.requests]
        assert phrases == [[], ["魔搭", "FunASR"]]


async def test_voice_is_told_when_it_begins_and_when_it_ends() -> None:
    async with rig() as worker:
        await worker.transcribe("s", speech(14, 1000, 500), OFFLINE)
        session_id = SessionId("s")
        assert [event for event in worker.events["s"] if isinstance(event, SpeechStarted | SpeechStopped)] == [
            SpeechStarted(session_id, 0, 1200),
            SpeechStopped(session_id, 0, 2200),
            SpeechStarted(session_id, 0, 3400),
            SpeechStopped(session_id, 0, 3900),
        ]


async def test_the_mode_says_which_pass_a_final_is_of_and_whether_partials_come() -> None:
    audio = speech(15, 4000)
    async with rig() as worker:
        for mode, passes in ((Mode.ONLINE, 1), (Mode.OFFLINE, 2), (Mode.TWO_PASS, 2)):
            [final] = await worker.transcribe(mode, audio, SessionOptions(mode=mode))
            assert final.pass_ == passes
        assert worker.partials(Mode.OFFLINE) == []


class _Translator(FakeRecognizer):
    def recognize(self, batch: Sequence[SegmentRequest]) -> list[Hypothesis]:
        return [Hypothesis("it costs twenty five dollars", language="zh") for _ in batch]


async def test_a_translation_is_written_as_english_whatever_was_spoken() -> None:
    async with rig(fake_models(_Translator())) as worker:
        [final] = await worker.transcribe("s", speech(15, 1500), replace(OFFLINE, task=Task.TRANSLATE))
        assert "25" in final.text
        assert final.language == "zh"


class _Deaf(FakeRecognizer):
    """Hears something in drafts only."""

    def recognize(self, batch: Sequence[SegmentRequest]) -> list[Hypothesis]:
        return [
            heard if request.draft else replace(heard, text="", words=())
            for request, heard in zip(batch, super().recognize(batch), strict=True)
        ]


async def test_a_segment_in_which_nobody_spoke_takes_its_partials_back() -> None:
    async with rig(fake_models(_Deaf())) as worker:
        assert await worker.transcribe("offline", speech(16, 3000), OFFLINE) == []
        assert worker.observer.of("segment_empty") == [("default",)]
        await worker.open("live")
        await worker.send("live", voice(2000, 17))
        await worker.until("live", lambda event: isinstance(event, Recognised))
        await worker.end("live")
        await worker.over("live")
        assert [final.text for final in worker.finals("live")] == [""]


async def test_a_record_that_comes_again_is_dropped() -> None:
    audio = speech(18, 1500)
    async with rig() as worker:
        once = said(await worker.transcribe("once", audio, OFFLINE))
        await worker.open("twice", OFFLINE)
        for index in range(1, 1 + len(audio) // 3200):
            chunk = AudioChunk(SessionId("twice"), worker.index("twice"), index, audio[(index - 1) * 3200 :][:3200])
            await worker.bus.publish(chunk)
            await worker.bus.publish(chunk)
        await worker.end("twice")
        await worker.over("twice")
        assert said(worker.finals("twice")) == once


async def test_a_record_that_is_missing_fails_the_session() -> None:
    async with rig() as worker:
        await worker.open("s")
        worker.index("s")
        await worker.send("s", silence(100))
        last = await worker.over("s")
        assert isinstance(last, Failed)
        assert isinstance(last.error, SequenceGap)


class _EnglishOnly(FakeRecognizer):
    """The fake, which knows one language."""

    def check_language(self, code: str) -> None:
        if code != "en":
            raise BadRequest("language is not one that this model knows", field="language")


async def test_a_language_that_the_model_does_not_know_is_told_before_any_audio() -> None:
    async with rig(fake_models(_EnglishOnly())) as worker:
        await worker.open("s", SessionOptions(language="xx"))
        last = await worker.over("s")
        assert isinstance(last, Failed)
        assert last.error.field == "language"


async def test_a_session_without_audio_finishes() -> None:
    async with rig() as worker:
        assert await worker.transcribe("s", b"") == []
        assert worker.events["s"] == [Finished(SessionId("s"), 0)]


async def test_audio_that_ends_within_a_sample_loses_only_that() -> None:
    async with rig() as worker:
        await worker.transcribe("s", voice(1000, 19) + b"\x01", OFFLINE)
        assert worker.events["s"][-1] == Finished(SessionId("s"), 1000)


async def test_latency_is_measured_of_live_sessions_only() -> None:
    async with rig() as worker:
        await worker.transcribe("file", speech(20, 1500), replace(OFFLINE, live=False))
        assert worker.observer.of("final_sent") == [("default", None, 2, True)]
        await worker.transcribe("live", speech(20, 1500), OFFLINE)
        _, (tenant, latency_s, *_) = worker.observer.of("final_sent")
        assert tenant == "default"
        assert isinstance(latency_s, float)
        assert latency_s >= 0.8  # the silence that told the end
        assert len(worker.observer.of("segment_recognised")) == 2


async def test_progress_is_told_at_most_once_a_second(monkeypatch: pytest.MonkeyPatch) -> None:
    async with rig() as worker:
        monkeypatch.setattr("streamscribe.worker.stream.PROGRESS_S", 3600)
        await worker.transcribe("s", speech(21, 1500))
        assert not any(isinstance(event, Progress) for event in worker.events["s"])
        monkeypatch.setattr("streamscribe.worker.stream.PROGRESS_S", 0)
        await worker.transcribe("t", silence(1000))
        told = [event.processed_ms for event in worker.events["t"] if isinstance(event, Progress)]
        assert told == list(range(100, 1001, 100))
