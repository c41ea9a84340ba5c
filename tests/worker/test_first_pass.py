"""Two passes: a streaming text at once, the second pass' text off the session's path."""

import asyncio
from collections.abc import Sequence
from dataclasses import replace

import pytest

from streamscribe.core.audio import AudioFormat
from streamscribe.core.batching import BatchPolicy
from streamscribe.core.errors import InternalError
from streamscribe.core.options import EndpointOptions, Latency, Mode, SessionOptions
from streamscribe.core.records import Failed, Finished, Flushed, Recognised, SpeechStarted, WorkerEvent
from streamscribe.core.tokens import Token
from streamscribe.models.fake.recognizer import POISON
from streamscribe.models.ports import ChunkRequest
from streamscribe.settings import WorkerSettings
from tests.worker.kit import (
    OFFLINE,
    PACKETS,
    HeardRecognizer,
    HeardStreams,
    rig,
    said,
    silence,
    speech,
    stereo,
    two_pass_models,
    voice,
)
from tests.worker.passes import ONLINE, TWO_PASS, check_law_3, of_pass, play


async def test_a_segment_gets_partials_then_the_final_of_each_pass() -> None:
    async with rig(two_pass_models()) as worker:
        await play(worker, "s", speech(1, 3000, 1500), replace(TWO_PASS, words=True))
        results = worker.results("s")
        check_law_3(results)
        first, second = of_pass(results, 1), of_pass(results, 2)
        assert [final.segment_id for final in first] == [final.segment_id for final in second] == [0, 1]
        assert all(final.text for final in (*first, *second))
        partials = worker.partials("s")
        assert len({result.text for result in partials if result.segment_id == 0}) >= 3
        for partial in partials:
            final = first[partial.segment_id]
            assert final.text.startswith(partial.text)
            assert partial.stable_chars == len(partial.text), "a stream takes nothing back"
        for result in results:
            times = [result.start_ms, *(t for w in result.words for t in (w.start_ms, w.end_ms)), result.end_ms]
            assert times == sorted(times)
            if result.words:
                assert [word.text for word in result.words] == result.text.split()
        assert first[0].words


@pytest.mark.parametrize("options", [TWO_PASS, ONLINE], ids=["2pass", "online"])
async def test_law_4_packets_of_any_size_give_identical_finals_of_both_passes(options: SessionOptions) -> None:
    audio = speech(2, 1500, 3000, 700)
    async with rig(two_pass_models()) as worker:
        by_size = {}
        for size in PACKETS:
            await worker.transcribe(f"s{size}", audio, replace(options, words=True), size)
            by_size[size] = [said(of_pass(worker.results(f"s{size}"), pass_)) for pass_ in (1, 2)]
        one, *others = by_size.values()
        assert len(one[0]) == 3
        assert all(other == one for other in others)


async def test_online_never_asks_the_second_pass_and_offline_never_the_first() -> None:
    recognizer, streams = HeardRecognizer(), HeardStreams()
    async with rig(two_pass_models(streams, recognizer)) as worker:
        assert [final.pass_ for final in await worker.transcribe("online", speech(3, 1500, 900), ONLINE)] == [1, 1]
        assert recognizer.requests == []
        assert streams.ends == 2
        for name, options in {"offline": OFFLINE, "file": replace(OFFLINE, live=False)}.items():
            assert [final.pass_ for final in await worker.transcribe(name, speech(3, 1500, 900), options)] == [2, 2]
            assert worker.partials(name) == []
        assert len(streams.opened) == streams.ends == 2
        assert len(recognizer.requests) == 4


async def test_the_second_pass_reads_the_segment_with_its_preroll_and_its_frames() -> None:
    recognizer = HeardRecognizer()
    async with rig(two_pass_models(recognizer=recognizer)) as worker:
        await worker.transcribe("s", speech(4, 1500), TWO_PASS)
        [request] = recognizer.requests
        assert len(request.samples) == (300 + 1500 + 300) * 16
        assert request.frames is not None
        assert request.frames.reshape(-1).tolist() == request.samples[: request.frames.size].tolist()
        assert len(request.frames) == (len(request.samples) - 400) // 160 + 1
        assert request.tenant_id == "default"


async def test_a_stream_goes_on_while_a_second_pass_takes_its_time() -> None:
    recognizer = HeardRecognizer()
    recognizer.gate.clear()
    async with rig(two_pass_models(recognizer=recognizer)) as worker:
        await worker.open("s", TWO_PASS)
        await worker.send("s", speech(5, 1500, 1500, 1500))
        await worker.until("s", lambda e: isinstance(e, Recognised) and e.result.is_final and e.result.segment_id == 2)
        results = worker.results("s")
        assert [final.segment_id for final in of_pass(results, 1)] == [0, 1, 2]
        assert of_pass(results, 2) == []
        recognizer.gate.set()
        await worker.end("s")
        await worker.over("s")
        check_law_3(worker.results("s"))


async def test_the_last_segment_gets_both_finals_before_the_session_is_finished() -> None:
    async with rig(two_pass_models()) as worker:
        await worker.transcribe("s", silence(700) + voice(1900, 6), TWO_PASS)
        assert [final.pass_ for final in worker.finals("s")] == [1, 2]
        assert isinstance(worker.events["s"][-1], Finished)


async def test_flushed_comes_after_both_finals_even_of_voice_that_fills_no_block() -> None:
    streams = HeardStreams()
    async with rig(two_pass_models(streams)) as worker:
        await worker.open("s", TWO_PASS)
        await worker.send("s", voice(1033, 7))
        await worker.flush("s", "now")
        await worker.flushed("s", "now")
        kinds = [e.result.pass_ if isinstance(e, Recognised) and e.result.is_final else 0 for e in worker.events["s"]]
        assert [kind for kind in kinds if kind] == [1, 2]
        assert isinstance(worker.events["s"][-1], Flushed)
        assert {final.end_ms for final in worker.finals("s")} == {1030}
        await worker.send("s", voice(1000, 8) + silence(1500))
        await worker.end("s")
        await worker.over("s")
        assert worker.finals("s")[-1].start_ms == 1030


@pytest.mark.parametrize("mode", [Mode.ONLINE, Mode.TWO_PASS, Mode.OFFLINE])
async def test_voice_in_the_unfilled_block_of_a_flush_is_heard_before_it_is_answered(mode: Mode) -> None:
    async with rig(two_pass_models()) as worker:
        await worker.open("s", SessionOptions(mode=mode))
        await worker.send("s", silence(950) + voice(140, 9))  # it began in a block that is not full
        await worker.flush("s", "now")
        await worker.flushed("s", "now")
        assert worker.finals("s")[-1].end_ms == 1090


async def test_a_first_pass_that_fails_leaves_the_text_to_the_second() -> None:
    class Deaf(HeardStreams):
        def step(self, batch: Sequence[ChunkRequest]) -> list[tuple[Token, ...]]:
            raise ValueError("no")

    async with rig(two_pass_models(Deaf())) as worker:
        finals = await worker.transcribe("s", speech(10, 1500, 4000), TWO_PASS)
        assert [final.pass_ for final in finals] == [2, 2]
        assert worker.partials("s") == []
        assert worker.observer.of("first_pass_failed") == [("default",)] * 2
        assert worker.observer.of("segment_failed") == []
        await worker.open("online", ONLINE)
        await worker.send("online", speech(10, 1500))
        failed = await worker.over("online")
        assert isinstance(failed, Failed)
        assert type(failed.error) is InternalError
        assert worker.observer.of("segment_failed") == [("default",)]
        assert worker.models.first_pass is not None
        assert worker.models.first_pass.current.replica.population == 0


async def test_law_8_a_poisoned_chunk_harms_no_other_session_in_its_step() -> None:
    bad = voice(1000, 2) + POISON * 10 + voice(1000, 3) + silence(1500)
    good = {f"good{seed}": speech(seed, 1500, 1500) for seed in range(6)}
    async with rig(two_pass_models()) as worker:
        for name in ("bad", *good):
            await worker.open(name, ONLINE)
        await asyncio.gather(worker.send("bad", bad), *(worker.send(name, audio) for name, audio in good.items()))
        assert isinstance(await worker.over("bad"), Failed)
        for name in good:
            await worker.end(name)
            assert isinstance(await worker.over(name), Finished)
            assert len(worker.finals(name)) == 2


async def test_law_7_a_session_whose_chunks_wait_reads_no_more_and_loses_none() -> None:
    streams = HeardStreams()
    streams.gate.clear()
    audio = voice(20_000, 11) + silence(1500)
    async with rig(two_pass_models(streams), max_backlog_s=1) as worker:
        await worker.open("s", replace(ONLINE, latency=Latency.LOW))
        sending = asyncio.ensure_future(worker.send("s", audio))
        await streams.entered()
        await worker.open("other", OFFLINE)
        await worker.send("other", voice(900, 9))
        await worker.until("other", lambda event: isinstance(event, SpeechStarted))
        assert not sending.done()
        streams.gate.set()
        await sending
        await worker.end("s")
        await worker.over("s")
        slow = said(worker.finals("s"))
        assert slow == said(await worker.transcribe("free", audio, replace(ONLINE, latency=Latency.LOW)))


async def test_partials_that_are_overtaken_are_not_told() -> None:
    streams = HeardStreams()
    streams.gate.clear()
    async with rig(two_pass_models(streams)) as worker:
        await worker.open("s", ONLINE)
        await worker.send("s", voice(3100, 12))
        await worker.heard("s")
        streams.gate.set()
        await worker.send("s", silence(1500))
        await worker.until("s", lambda event: isinstance(event, Recognised) and event.result.is_final)
        assert len(streams.chunks) >= 5
        assert len(worker.partials("s")) < len(streams.chunks) - 1


async def test_the_last_chunk_goes_before_the_chunks_of_others() -> None:
    streams = HeardStreams()
    async with rig(two_pass_models(streams, policy=BatchPolicy(max_batch_size=1))) as worker:
        for name in ("busy", "waiting", "closing"):
            await worker.open(name, ONLINE)
        await worker.send("closing", voice(900, 13) + silence(600))
        await worker.heard("closing")
        for _ in range(2):
            await streams.entered()
        while len(streams.chunks) < 2:
            await asyncio.sleep(0)
        streams.gate.clear()
        await worker.send("busy", voice(700, 14))
        await streams.entered()
        await worker.send("waiting", voice(700, 15))
        await worker.heard("waiting")
        await worker.send("closing", silence(500))
        await worker.heard("closing")
        before = len(streams.chunks)
        streams.gate.set()
        await worker.until("closing", lambda event: isinstance(event, Recognised) and event.result.is_final)
        await worker.until("waiting", is_partial)
        assert [request.last for request in streams.chunks[before + 1 :]][:2] == [True, False]


def is_partial(event: WorkerEvent) -> bool:
    return isinstance(event, Recognised) and not event.result.is_final


@pytest.mark.parametrize(
    ("options", "chunk_ms"),
    [
        (SessionOptions(latency=Latency.LOW), 300),
        (SessionOptions(), 600),
        (SessionOptions(latency=Latency.THROUGHPUT), 1200),
        (SessionOptions(latency=Latency.ADAPTIVE), 600),
        (SessionOptions(latency=Latency.LOW, chunk_ms=1000), 1200),
        (SessionOptions(latency=Latency.ADAPTIVE, chunk_ms=60), 300),
    ],
)
async def test_a_session_chooses_its_chunk(options: SessionOptions, chunk_ms: int) -> None:
    streams = HeardStreams()
    async with rig(two_pass_models(streams)) as worker:
        await worker.transcribe("s", speech(16, 2000), options)
        assert streams.opened == [chunk_ms]


async def test_an_adaptive_session_takes_longer_chunks_for_its_next_segment_while_answers_lag(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("streamscribe.core.latency.HIGH_LAG_S", 0.0)  # every answer is late
    streams = HeardStreams()
    async with rig(two_pass_models(streams)) as worker:
        await play(worker, "s", speech(16, 2000, 2000), SessionOptions(latency=Latency.ADAPTIVE))
        await play(worker, "t", speech(16, 2000), SessionOptions())
        assert streams.opened == [600, 1200, 600]


async def test_tail_padding_is_what_follows_and_silence_where_the_audio_ends() -> None:
    for audio in (silence(700) + voice(1000, 17) + silence(1500), silence(700) + voice(1000, 17)):
        streams = HeardStreams(tail_padding_ms=500)
        async with rig(two_pass_models(streams)) as worker:
            await worker.transcribe("s", audio, replace(ONLINE, endpoint=EndpointOptions(silence_ms=400)))
            heard = [row for request in streams.chunks for row in request.frames]
            wanted = (300 + 1000 + 500) // 10
            assert wanted - 2 <= len(heard) <= wanted + 60
            assert not any(row.any() for row in heard[300 // 10 + 1000 // 10 :])


async def test_voice_too_long_is_cut_where_it_is_quietest_and_no_audio_is_heard_twice_in_finals() -> None:
    recognizer = HeardRecognizer()
    audio = voice(8300, 18) + silence(300) + voice(4000, 19) + silence(1500)
    options = replace(TWO_PASS, endpoint=EndpointOptions(max_segment_ms=10_000))
    async with rig(two_pass_models(recognizer=recognizer)) as worker:
        await play(worker, "s", audio, options)
        first, second = of_pass(worker.results("s"), 1), of_pass(worker.results("s"), 2)
        assert 8300 <= second[0].end_ms <= 8600
        assert second[1].start_ms == second[0].end_ms
        for one, other in zip(first, second, strict=True):
            assert (one.start_ms, one.end_ms) == (other.start_ms, other.end_ms)
        heard = [len(request.samples) for request in recognizer.requests]
        assert sum(heard) == (8300 + 300 + 4000 + 300) * 16
        unsettled = [r for r in worker.partials("s") if r.segment_id == 0 and r.stable_chars < len(r.text)]
        assert unsettled, "what may lie behind the cut is not stable"
        for partial in worker.partials("s"):
            final = first[partial.segment_id]
            assert final.text.startswith(partial.text[: partial.stable_chars])
            assert partial.version < final.version


async def test_voice_shorter_than_asked_is_no_segment() -> None:
    audio = silence(700) + voice(300, 20) + silence(1500) + voice(2000, 21) + silence(1500)
    for min_speech_ms, count in ((None, 2), (500, 1)):
        async with rig(two_pass_models()) as worker:
            options = replace(TWO_PASS, endpoint=EndpointOptions(min_speech_ms=min_speech_ms))
            finals = await worker.transcribe("s", audio, options)
            assert [final.pass_ for final in finals if final.text].count(2) == count
            assert finals[-1].start_ms == 2500
    async with rig(two_pass_models(), settings=WorkerSettings(min_speech_ms=500)) as worker:
        assert len(of_pass(await worker.transcribe("s", audio, TWO_PASS), 2)) == 1
        zero = replace(TWO_PASS, endpoint=EndpointOptions(min_speech_ms=0))
        assert len(of_pass(await worker.transcribe("t", audio, zero), 2)) == 2


async def test_each_channel_streams_as_if_it_were_alone() -> None:
    left, right = speech(22, 1500, 900), speech(23, 900, 2000)
    async with rig(two_pass_models()) as worker:
        await worker.transcribe("both", stereo(left, right), replace(TWO_PASS, audio=AudioFormat(channels=2)))
        check_law_3(worker.results("both"))
        for channel, side in enumerate((left, right)):
            await worker.transcribe(f"alone{channel}", side, TWO_PASS)
            for pass_ in (1, 2):
                heard = [result for result in of_pass(worker.results("both"), pass_) if result.channel == channel]
                alone = of_pass(worker.results(f"alone{channel}"), pass_)
                assert [(r.text, r.start_ms, r.end_ms) for r in heard] == [
                    (r.text, r.start_ms, r.end_ms) for r in alone
                ]


async def test_latency_is_measured_by_pass_and_a_segment_counts_once() -> None:
    async with rig(two_pass_models()) as worker:
        await play(worker, "s", speech(28, 3000), TWO_PASS)
        facts = worker.observer.of("final_sent")
        assert [(pass_, last) for _, _, pass_, last in facts] == [(1, False), (2, True)]
        assert len(worker.observer.of("first_partial_sent")) == 1
