"""Finals that are kept: what a second session of the same audio costs, and what is never kept or found."""

import threading
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from streamscribe.cache.blobs import Seal
from streamscribe.cache.disk import DiskBlobs
from streamscribe.cache.memory import MemoryBlobs
from streamscribe.cache.redis import RedisBlobs
from streamscribe.core.cachekey import CacheKey
from streamscribe.core.options import Hotword, SessionOptions
from streamscribe.core.rules import TextPolicy
from streamscribe.core.tokens import Mark
from streamscribe.ports import Blob, BlobStore
from streamscribe.worker import recall
from tests.cache.kit import KEYS, SECRET, memory, transcripts
from tests.contracts.redis_server import redis_server
from tests.worker.kit import OFFLINE, HeardRecognizer, fake_models, rig, said, silence, speech, two_pass_models
from tests.worker.passes import TWO_PASS

SPEECH = speech(31, 1500, 900, 2100)
WORDS = replace(OFFLINE, words=True)


async def test_equal_audio_runs_no_recogniser_again_and_gets_equal_finals() -> None:
    recognizer, blobs = HeardRecognizer(), memory()
    async with rig(fake_models(recognizer), transcripts=transcripts(blobs)) as worker:
        first = await worker.transcribe("first", SPEECH, WORDS)
        steps = len(recognizer.batches)
        second = await worker.transcribe("second", SPEECH, WORDS, sizes=333)
        assert len(recognizer.batches) == steps
        assert said(second) == said(first)
        assert len(first) == 3
        assert all(final.words for final in first)
        assert blobs.usage().entries == 3
        assert worker.observer.of("transcript_sought") == [(False,)] * 3 + [(True,)] * 3


async def test_times_are_those_of_the_session_that_asks() -> None:
    recognizer = HeardRecognizer()
    async with rig(fake_models(recognizer), transcripts=transcripts(memory())) as worker:
        first = await worker.transcribe("first", SPEECH, WORDS)
        steps = len(recognizer.batches)
        later = await worker.transcribe("later", silence(2400) + SPEECH, WORDS)
        assert len(recognizer.batches) == steps
        for early, late in zip(first, later, strict=True):
            assert (late.start_ms, late.end_ms, late.text) == (early.start_ms + 2400, early.end_ms + 2400, early.text)
            shifted = [replace(word, start_ms=word.start_ms + 2400, end_ms=word.end_ms + 2400) for word in early.words]
            assert list(late.words) == shifted


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """However busy this machine is, a look-up is waited for."""
    monkeypatch.setattr(recall, "PATIENCE_S", 60)


@pytest.fixture(params=["memory", "disk", "redis"])
def tier(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[BlobStore]:
    if request.param == "redis":
        with redis_server(tmp_path) as url:
            yield RedisBlobs(url, Seal(SECRET), timeout_s=30)
    else:
        yield memory() if request.param == "memory" else DiskBlobs(tmp_path, Seal(SECRET), max_bytes=2**20)


@pytest.mark.parametrize("mode", [WORDS, TWO_PASS], ids=["file", "live"])
async def test_a_session_that_may_not_be_stored_keeps_and_finds_nothing_in_any_tier(
    mode: SessionOptions, tier: BlobStore
) -> None:
    recognizer, blobs = HeardRecognizer(), tier
    async with rig(two_pass_models(recognizer=recognizer), transcripts=transcripts(blobs)) as worker:
        first = await worker.transcribe("first", SPEECH, replace(mode, store=False))
        assert blobs.usage().entries == 0
        await worker.transcribe("kept", SPEECH, mode)
        requests = len(recognizer.requests)
        again = await worker.transcribe("again", SPEECH, replace(mode, store=False))
        assert len(recognizer.requests) == requests + 3
        last = mode.mode.last_pass
        assert said([f for f in again if f.pass_ == last]) == said([f for f in first if f.pass_ == last])
        await worker.transcribe("found", SPEECH, mode)  # looked up behind what was still to be kept
        assert len(recognizer.requests) == requests + 3
        assert blobs.usage().entries == 3


class _Sampling(HeardRecognizer):
    """Says that it draws its words."""

    @property
    def deterministic(self) -> bool:
        return False


async def test_of_a_model_that_samples_nothing_is_kept_or_found() -> None:
    recognizer, blobs = _Sampling(), memory()
    async with rig(fake_models(recognizer), transcripts=transcripts(blobs)) as worker:
        await worker.transcribe("first", SPEECH, OFFLINE)
        await worker.transcribe("again", SPEECH, OFFLINE)
        assert len(recognizer.requests) == 6
        assert blobs.usage().entries == 0
        assert worker.observer.of("transcript_sought") == []


async def test_a_tenant_never_finds_what_another_one_said() -> None:
    recognizer = HeardRecognizer()
    async with rig(fake_models(recognizer), transcripts=transcripts(memory())) as worker:
        for tenant in ("acme", "other"):
            await worker.open(tenant, OFFLINE, tenant=tenant)
            await worker.send(tenant, SPEECH)
            await worker.end(tenant)
            await worker.over(tenant)
        assert len(recognizer.requests) == 6


async def test_only_last_finals_are_kept_and_no_drafts() -> None:
    blobs = memory()
    async with rig(fake_models(), transcripts=transcripts(blobs)) as worker:
        await worker.transcribe("s", SPEECH)
        assert worker.partials("s")
        await worker.transcribe("again", SPEECH)  # looked up behind what was still to be kept
        assert blobs.usage().entries == len(worker.finals("s")) == 3


async def test_lists_that_have_changed_hold_for_texts_that_are_kept() -> None:
    recognizer = HeardRecognizer()
    async with rig(fake_models(recognizer), transcripts=transcripts(memory())) as worker:
        first = (await worker.transcribe("first", SPEECH, OFFLINE))[0].text
        steps = len(recognizer.batches)
        secret = first.split()[0].lower()
        await worker.open("redacted", OFFLINE, TextPolicy(redact=(secret,)))
        await worker.send("redacted", SPEECH)
        await worker.end("redacted")
        await worker.over("redacted")
        assert secret not in worker.finals("redacted")[0].text.lower()
        assert len(worker.finals("redacted")[0].text) == len(first)
        bare = await worker.transcribe("hot", SPEECH, replace(OFFLINE, hotwords=(Hotword("x"),)))
        assert len(recognizer.batches) > steps  # the model is asked with other hot words
        assert bare[0].text == first


class _SometimesNoMarks:
    identity = ("sometimes", 1)

    def __init__(self) -> None:
        self.broken = True

    def punctuate(self, batch: Sequence[str]) -> list[tuple[Mark, ...]]:
        if self.broken:
            raise ValueError("no marks")
        return [(Mark(len(text), "."),) for text in batch]


async def test_a_text_whose_punctuation_failed_is_not_kept() -> None:
    punctuator, blobs = _SometimesNoMarks(), memory()
    async with rig(two_pass_models(punctuator=punctuator), transcripts=transcripts(blobs)) as worker:
        bare = await worker.transcribe("bare", SPEECH, OFFLINE)
        assert blobs.usage().entries == 0
        punctuator.broken = False
        marked = await worker.transcribe("marked", SPEECH, OFFLINE)
        assert [final.text for final in marked] == [f"{final.text}." for final in bare]
        assert said(await worker.transcribe("again", SPEECH, OFFLINE)) == said(marked)
        assert blobs.usage().entries == 3


class _Stuck(MemoryBlobs):
    """Storage that does not answer while the gate is shut."""

    def __init__(self) -> None:
        super().__init__(max_bytes=2**20)
        self.gate = threading.Event()

    def get(self, key: CacheKey) -> Blob | None:
        self.gate.wait()
        return super().get(key)


async def test_storage_that_does_not_answer_holds_up_no_final(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recall, "PATIENCE_S", 0.01)
    blobs = _Stuck()
    async with rig(fake_models(), transcripts=transcripts(blobs)) as worker:
        try:
            finals = await worker.transcribe("s", SPEECH, OFFLINE)
        finally:
            blobs.gate.set()
        assert len(finals) == 3
        assert blobs.usage().entries == 0
        assert blobs.purge(KEYS.owner(None)) == 0
