"""Partials: what is shown of a segment that is still open, beside the finals and never in their way."""

from collections.abc import Sequence
from itertools import pairwise

import pytest

from streamscribe.core.audio import AudioFormat
from streamscribe.core.batching import BatchPolicy
from streamscribe.core.options import EndpointOptions, Mode, SessionOptions
from streamscribe.core.records import Recognised, SpeechStopped, WorkerEvent
from streamscribe.core.results import Result
from streamscribe.models.fake.recognizer import POISON, FakeRecognizer
from streamscribe.models.ports import Hypothesis, Samples, SegmentRequest
from streamscribe.settings import WorkerSettings
from streamscribe.worker.track import AudioTrack
from tests.worker.kit import OFFLINE, HeardRecognizer, Rig, fake_models, rig, silence, speech, stereo, voice

ONLINE = SessionOptions(mode=Mode.ONLINE)


@pytest.fixture(autouse=True)
def no_rest(monkeypatch: pytest.MonkeyPatch) -> None:
    """A draft's due is then a matter of audio alone."""
    monkeypatch.setattr("streamscribe.worker.partials.REST", 0)


ONE_AT_A_TIME = BatchPolicy(max_batch_size=1)


def is_partial(event: WorkerEvent) -> bool:
    return isinstance(event, Recognised) and not event.result.is_final


async def play(worker: Rig, name: str, audio: bytes) -> None:
    """Sends as a live client does: the next packet when the last was heard and its draft is back."""
    for at in range(0, len(audio), 3200):
        await worker.send(name, audio[at : at + 3200])
        await worker.heard(name)
        await worker.recognised()


def check_stable_prefixes(results: Sequence[Result]) -> None:
    stable: dict[int, str] = {}
    for result in results:
        if not result.is_final:
            before = stable.get(result.segment_id, "")
            now = result.text[: result.stable_chars]
            assert now.startswith(before)
            stable[result.segment_id] = now


async def test_partials_come_before_their_final_and_their_stable_prefix_never_changes() -> None:
    async with rig() as worker:
        await worker.open("s", ONLINE)
        for audio in (silence(500) + voice(4000, 1) + silence(1500), voice(3000, 2) + silence(1500)):
            before = len(worker.partials("s"))
            await play(worker, "s", audio)
            assert len(worker.partials("s")) >= before + 5
        await worker.end("s")
        await worker.over("s")
        results = worker.results("s")
        assert len(worker.finals("s")) == 2
        final_at = {result.segment_id: result.version for result in results if result.is_final}
        assert all(result.version < final_at[result.segment_id] for result in results if not result.is_final)
        check_stable_prefixes(results)
        assert any(result.stable_chars for result in worker.partials("s"))


async def test_a_draft_needs_so_much_new_audio() -> None:
    recognizer = HeardRecognizer()
    async with rig(fake_models(recognizer), settings=WorkerSettings(partial_interval_ms=1000)) as worker:
        await worker.open("s", ONLINE)
        await play(worker, "s", voice(6000, 3))
        lengths = [len(request.samples) for request in recognizer.requests if request.draft]
        assert all(later - earlier >= 16_000 for earlier, later in pairwise(lengths))
        assert lengths[0] >= 16_000


async def test_silence_behind_the_voice_brings_no_draft_that_the_final_would_wait_for() -> None:
    recognizer = HeardRecognizer()
    async with rig(fake_models(recognizer)) as worker:
        await worker.open("s", ONLINE)
        await play(worker, "s", voice(1200, 17) + silence(700))
        drafts = [request for request in recognizer.requests if request.draft]
        assert len(drafts) == 3  # at 500 and 1000 ms, and of the last 200 ms of voice
        await play(worker, "s", voice(500, 18))
        assert len([request for request in recognizer.requests if request.draft]) > 3


async def test_law_7_a_draft_decodes_a_bounded_window_and_keeps_the_text_before_it() -> None:
    recognizer = HeardRecognizer()
    settings = WorkerSettings(partial_window_ms=4000)
    async with rig(fake_models(recognizer), settings=settings) as worker:
        await worker.open("s", ONLINE)
        await play(worker, "s", voice(15_000, 4))
        drafts = [request for request in recognizer.requests if request.draft]
        assert len(drafts) > 20
        assert max(len(request.samples) for request in drafts) <= 64_000
        assert len(worker.partials("s")[-1].text.split()) > 30
        check_stable_prefixes(worker.results("s"))


async def test_law_7_a_draft_that_may_not_begin_costs_no_look_at_the_audio(monkeypatch: pytest.MonkeyPatch) -> None:
    """Else the busier the models, the more the event loop would compute for nothing."""
    recognizer = HeardRecognizer()
    recognizer.gate.clear()
    cuts: list[int] = []
    cut = AudioTrack.cut

    def counted(track: AudioTrack, start: int, end: int) -> Samples:
        cuts.append(end - start)
        return cut(track, start, end)

    async with rig(fake_models(recognizer)) as worker:
        await worker.open("drafting", ONLINE)
        await worker.open("waiting", ONLINE)
        await worker.send("drafting", voice(1000, 5))
        await recognizer.entered()
        monkeypatch.setattr(AudioTrack, "cut", counted)
        await worker.send("waiting", voice(3000, 6))
        await worker.heard("waiting")
        assert cuts == []
        recognizer.gate.set()


async def test_a_session_has_one_draft_at_work() -> None:
    recognizer = HeardRecognizer()
    recognizer.gate.clear()
    async with rig(fake_models(recognizer)) as worker:
        await worker.open("s", ONLINE)
        await worker.send("s", voice(1000, 5))
        await recognizer.entered()
        await worker.send("s", voice(3000, 6))
        await worker.heard("s")
        assert len(recognizer.requests) == 1
        recognizer.gate.set()
        await worker.until("s", is_partial)


async def test_a_draft_that_comes_back_after_its_segment_closed_is_not_told() -> None:
    recognizer = HeardRecognizer()
    async with rig(fake_models(recognizer)) as worker:
        await worker.open("s", ONLINE)
        recognizer.gate.clear()
        await worker.send("s", voice(1000, 7))
        await recognizer.entered()
        await worker.send("s", silence(1500))
        await worker.until("s", lambda event: isinstance(event, SpeechStopped))
        recognizer.gate.set()
        await worker.end("s")
        await worker.over("s")
        assert recognizer.requests[0].draft
        assert [result.is_final for result in worker.results("s")] == [True]


async def test_a_draft_that_still_waits_when_its_segment_closes_never_runs() -> None:
    recognizer = HeardRecognizer()
    async with rig(fake_models(recognizer, ONE_AT_A_TIME)) as worker:
        recognizer.gate.clear()
        await worker.open("busy", OFFLINE)
        await worker.send("busy", voice(500, 8) + silence(1500))
        await recognizer.entered()
        await worker.open("s", ONLINE)
        await worker.send("s", voice(1000, 9) + silence(1500))
        await worker.until("s", lambda event: isinstance(event, SpeechStopped))
        recognizer.gate.set()
        await worker.end("s")
        await worker.over("s")
        assert [request.draft for request in recognizer.requests] == [False, False]


async def test_drafts_never_go_before_finals() -> None:
    recognizer = HeardRecognizer()
    async with rig(fake_models(recognizer, ONE_AT_A_TIME)) as worker:
        for name in ("a", "b", "c"):
            await worker.open(name, ONLINE)
        await worker.open("final", OFFLINE)
        recognizer.gate.clear()
        await worker.send("a", voice(1000, 10))
        await recognizer.entered()
        for name in ("b", "c"):
            await worker.send(name, voice(1000, 11))
        await worker.send("final", voice(700, 12) + silence(1500))
        await worker.heard("final")
        recognizer.gate.set()
        await worker.until("final", lambda event: isinstance(event, Recognised))
        assert [request.draft for request in recognizer.requests[:2]] == [True, False]


async def test_drafts_of_all_sessions_have_one_budget() -> None:
    recognizer = HeardRecognizer()
    recognizer.gate.clear()
    async with rig(fake_models(recognizer)) as worker:
        for index in range(20):
            await worker.open(f"s{index}", ONLINE)
            await worker.send(f"s{index}", voice(1500, index))
            await worker.heard(f"s{index}")
        await recognizer.entered()
        recognizer.gate.set()
        await worker.recognised()
        assert sum(request.draft for request in recognizer.requests) == 1


class _Wavering(FakeRecognizer):
    """Hears nothing in each second draft."""

    def __init__(self) -> None:
        super().__init__()
        self.count = 0

    def recognize(self, batch: Sequence[SegmentRequest]) -> list[Hypothesis]:
        self.count += 1
        return [Hypothesis("")] * len(batch) if self.count % 2 == 0 else super().recognize(batch)


async def test_a_draft_that_hears_nothing_leaves_what_was_shown() -> None:
    async with rig(fake_models(_Wavering())) as worker:
        await worker.open("s", ONLINE)
        await play(worker, "s", voice(5000, 19))
        assert worker.partials("s")
        assert all(result.text for result in worker.partials("s"))


class _NoDrafts(FakeRecognizer):
    def recognize(self, batch: Sequence[SegmentRequest]) -> list[Hypothesis]:
        if any(request.draft for request in batch):
            raise ValueError("no drafts")
        return super().recognize(batch)


async def test_a_draft_that_fails_is_only_missing() -> None:
    async with rig(fake_models(_NoDrafts())) as worker:
        [final] = await worker.transcribe("s", speech(13, 3000), ONLINE)
        assert final.text
        assert worker.partials("s") == []


async def test_a_failing_draft_does_not_hide_the_failing_final() -> None:
    async with rig() as worker:
        await worker.open("s", ONLINE)
        await play(worker, "s", voice(1000, 14) + POISON * 4 + voice(1000, 15) + silence(1500))
        last = await worker.over("s")
        assert type(last).__name__ == "Failed"


async def test_the_first_partial_and_the_intervals_are_measured() -> None:
    async with rig() as worker:
        await worker.open("s", ONLINE)
        await play(worker, "s", voice(4000, 16))
        assert len(worker.observer.of("first_partial_sent")) == 1
        assert len(worker.observer.of("partial_sent")) == len(worker.partials("s")) - 1


async def test_a_channel_that_is_silent_does_not_keep_the_other_from_partials() -> None:
    options = SessionOptions(AudioFormat(channels=2), endpoint=EndpointOptions(silence_ms=6000))
    async with rig() as worker:
        await worker.open("s", options)
        await play(worker, "s", stereo(voice(600, 31) + silence(4400), voice(5000, 32)))
        late = {result.channel for result in worker.partials("s") if result.end_ms > 2500}
        assert late == {1}
        await worker.end("s")
        await worker.over("s")
