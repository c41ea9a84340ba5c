"""What is kept answers as the models did, spares them the work, and is kept of nobody who forbids it."""

import asyncio
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml

from streamscribe.client.local_server import LocalServer, RunningServer
from streamscribe.client.native import NativeClient
from streamscribe.control.keys import new_key
from streamscribe.core.options import Mode
from streamscribe.models.registry import open_verified
from streamscribe.wire.native_client import StartMessage
from streamscribe.wire.native_server import ResultMessage
from tests.service.conftest import EVERYBODY
from tests.service.kit import cut

pytestmark = pytest.mark.timeout(120)


@dataclass(frozen=True)
class Keeping:
    """A server of the small models that keeps all levels, on disk too; of `quiet` nothing."""

    server: RunningServer
    folder: Path
    keys: dict[str, str]
    recording: Path

    def http(self, tenant: str) -> httpx.AsyncClient:
        headers = {"Authorization": f"Bearer {self.keys[tenant]}"}
        return httpx.AsyncClient(base_url=self.server.address.http, headers=headers, timeout=60)

    async def transcribe(self, tenant: str, headers: dict[str, str] | None = None) -> dict[str, Any]:
        """The file as `verbose_json`, with words."""
        form = {"response_format": "verbose_json", "timestamp_granularities[]": "word"}
        async with self.http(tenant) as http:
            files = {"file": self.recording.read_bytes()}
            answer = await http.post("/v1/audio/transcriptions", data=form, files=files, headers=headers or {})
            assert answer.status_code == 200, answer.text
            told: dict[str, Any] = answer.json()
            return told

    async def hear(self, tenant: str, pcm: bytes, **wishes: Any) -> list[ResultMessage]:
        """The last finals of a live session, without what counts on from session to session."""
        start = StartMessage(words=True, **wishes)
        async with NativeClient(self.server.address.websocket, key=self.keys[tenant], start=start) as client:
            for packet in cut(pcm, 6400):
                await client.send(packet)
            await client.end()
            said = [message async for message in client]
        return [one for one in said if isinstance(one, ResultMessage) and one.is_final and one.pass_ == 2]

    async def steps(self, model: str = "recognizer") -> float:
        """Steps that the model has run."""
        async with self.http("acme") as http:
            text = (await http.get("/metrics")).text
        found = re.search(rf'^streamscribe_step_seconds_count{{model="{model}"}} (\S+)$', text, re.MULTILINE)
        return float(found[1]) if found else 0.0

    def files(self) -> int:
        """Entries on disk."""
        return sum(1 for file in self.folder.rglob("*") if file.is_file() and len(file.name) == 64)


@pytest.fixture(scope="module")
def keeping(tmp_path_factory: pytest.TempPathFactory, model_dir: Path) -> Iterator[Keeping]:
    folder = tmp_path_factory.mktemp("caches")
    tenants = folder / "tenants.yaml"
    keys = {tenant: new_key(tenants, tenant) for tenant in ("acme", "other", "stranger", "quiet")}
    content = yaml.safe_load(tenants.read_text())
    content["tenants"]["quiet"]["zero_retention"] = True
    tenants.write_text(yaml.safe_dump(content))
    settings = {
        "cache.transcripts": "true",
        "cache.transcript_dir": folder / "kept" / "texts",
        "cache.feature_cache_dir": folder / "kept" / "features",
        "cache.secret_file": folder / "secret",
    }
    chosen = [part for name, value in settings.items() for part in ("--set", f"{name}={value}")]
    recording = open_verified("tiny-recordings", model_dir)["paused-33.flac"]
    with LocalServer(["--profile", "tiny", "--tenants", str(tenants), *EVERYBODY, *chosen]) as server:
        yield Keeping(server, folder / "kept", keys, recording)


@pytest.fixture(scope="module")
def pcm(keeping: Keeping) -> bytes:
    import soundfile

    samples, rate = soundfile.read(keeping.recording, dtype="int16")
    assert rate == 16_000
    return bytes(samples.tobytes())


async def test_a_file_that_comes_again_runs_no_second_pass_and_gets_an_equal_answer(keeping: Keeping) -> None:
    first = await keeping.transcribe("acme")
    assert first["words"]
    assert keeping.files() > 0
    before = await keeping.steps(), await keeping.steps("punctuation")
    assert await keeping.transcribe("acme") == first
    assert (await keeping.steps(), await keeping.steps("punctuation")) == before
    assert await keeping.transcribe("stranger") == first  # who shares nothing with acme
    assert await keeping.steps() > before[0]


async def test_a_stream_that_comes_again_runs_no_second_pass_and_gets_equal_finals(
    keeping: Keeping, pcm: bytes
) -> None:
    def told(results: list[ResultMessage]) -> list[tuple[object, ...]]:
        return [(r.segment_id, r.text, r.start_ms, r.end_ms, r.words, r.confidence, r.language) for r in results]

    first = told(await keeping.hear("other", pcm, mode=Mode.TWO_PASS, latency="low"))
    before = await keeping.steps()
    assert told(await keeping.hear("other", pcm, mode=Mode.TWO_PASS, latency="low")) == first
    assert await keeping.steps() == before
    assert len(first) > 1


async def test_nothing_is_kept_of_who_forbids_it(keeping: Keeping, pcm: bytes) -> None:
    async with keeping.http("acme") as http:
        assert (await http.delete("/v1/cache")).status_code == 200
    before = keeping.files()
    unkept = {"cache-control": "no-store"}
    for tenant, headers in (("acme", unkept), ("quiet", {})):
        steps = await keeping.steps()
        assert await keeping.transcribe(tenant, headers) == await keeping.transcribe(tenant, headers)
        assert await keeping.steps() >= steps + 2
    await keeping.hear("acme", pcm, mode=Mode.TWO_PASS, store=False)
    await keeping.hear("quiet", pcm, mode=Mode.TWO_PASS, store=True)
    assert keeping.files() == before
    for tenant in ("acme", "quiet"):
        async with keeping.http(tenant) as http:
            assert set((await http.delete("/v1/cache")).json()["purged"].values()) == {0}


async def test_a_purged_tenant_is_recognised_anew_and_the_other_is_not(keeping: Keeping) -> None:
    first = await keeping.transcribe("acme")
    await keeping.transcribe("other")
    async with keeping.http("acme") as http:
        purged = (await http.delete("/v1/cache")).json()["purged"]
    assert purged["transcripts"] > 0
    before = await keeping.steps()
    assert await keeping.transcribe("other") == first
    assert await keeping.steps() == before
    assert await keeping.transcribe("acme") == first
    assert await keeping.steps() > before


async def test_many_at_once_of_what_is_kept_are_all_equal(keeping: Keeping) -> None:
    first = await keeping.transcribe("acme")
    before = await keeping.steps()
    answers = await asyncio.gather(*(keeping.transcribe("acme") for _ in range(12)))
    assert all(answer == first for answer in answers)
    assert await keeping.steps() == before
