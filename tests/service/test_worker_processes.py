"""Worker processes that are killed, frozen, fattened and replaced under live sessions: nobody hears a difference.

What a session hears undisturbed is taken from the same server first; fakes with a cost stand for models.
"""

import asyncio
import os
import signal
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import httpx
import pytest
from websockets.asyncio.client import connect

from streamscribe.bench.recordings import recordings
from streamscribe.bench.swap import Versions
from streamscribe.bench.worker_fleet import until_ready, worker_pids
from streamscribe.client.errors import ServerError
from streamscribe.client.local_server import LocalServer, RunningServer, ServerDidNotStart
from streamscribe.client.native import NativeClient
from streamscribe.models.fake.recognizer import DEADLY, FATTENING, HOARD_BYTES
from streamscribe.settings import load
from tests.service.conftest import EVERYBODY
from tests.service.fleet_kit import (
    PACKET_BYTES,
    SPEECH,
    WORKERS,
    check_whole,
    fleet,
    scrape,
    speaking,
    undisturbed,
    until,
)
from tests.service.kit import cut, figure, is_alive, noise_speech, session, until_no_session, wav

pytestmark = pytest.mark.timeout(120)

HANG_S = 4.0


@pytest.fixture(scope="module")
def pair() -> Iterator[RunningServer]:
    """Two workers on the fake models, whose steps take 20 ms; one that is silent for four seconds hangs."""
    with fleet("model.fake_cost_ms=20", f"worker.hang_timeout_s={HANG_S}") as running:
        yield running


async def test_law_3_workers_killed_under_streams_lose_double_and_change_no_final(pair: RunningServer) -> None:
    await until_ready(pair, WORKERS)
    expected = await undisturbed(pair)
    killed, failed = Counter[int](), await figure(pair, "streamscribe_failed_sessions_total")

    async def kill(number: int) -> None:
        if workers := worker_pids(pair):
            os.kill(workers[number % len(workers)], signal.SIGKILL)
            killed[number] += 1

    assert await speaking(pair, kill) == expected
    assert len(killed) >= 3
    assert await figure(pair, "streamscribe_taken_over_sessions_total") >= 1
    assert await figure(pair, "streamscribe_failed_sessions_total") == failed
    await until_no_session(pair)


async def test_while_no_worker_lives_sessions_wait_newcomers_are_told_to_come_back_and_all_goes_on(
    pair: RunningServer,
) -> None:
    await until_ready(pair, WORKERS)
    expected = await undisturbed(pair)
    waited_for: list[list[str]] = []

    async def kill_all(number: int) -> None:
        if number != 2:
            return
        for worker in worker_pids(pair):
            os.kill(worker, signal.SIGKILL)
        async with httpx.AsyncClient(base_url=pair.address.http, timeout=None) as http:
            while (ready := await http.get("/readyz")).status_code == 200:
                pass
            with pytest.raises(ServerError) as refused:
                await session(pair.address.websocket, [])
            while ready.status_code != 200:
                waited_for.append(ready.json()["waiting_for"])
                ready = await http.get("/readyz")
        assert (refused.value.error.name, refused.value.error.retry) == ("model_unavailable", "after")

    assert await speaking(pair, kill_all) == expected
    assert waited_for[0] == ["workers"]


async def test_a_worker_that_is_frozen_is_ended_and_its_sessions_go_on(pair: RunningServer) -> None:
    await until_ready(pair, WORKERS)
    expected = await undisturbed(pair)
    await until_ready(pair, WORKERS)
    frozen: list[int] = []

    async def freeze(number: int) -> None:
        if number == 1:
            frozen.append(worker_pids(pair)[0])
            os.kill(frozen[0], signal.SIGSTOP)

    assert await speaking(pair, freeze) == expected
    assert not is_alive(frozen[0])
    assert (await scrape(pair))['streamscribe_worker_ends_total{"cause": "hang"}'] >= 1


async def test_a_server_that_was_frozen_itself_does_not_blame_its_workers(pair: RunningServer) -> None:
    await until_ready(pair, WORKERS)
    ends, before = await figure(pair, "streamscribe_worker_ends_total"), sorted(worker_pids(pair))
    pair.process.send_signal(signal.SIGSTOP)
    await asyncio.sleep(HANG_S + 0.5)
    pair.process.send_signal(signal.SIGCONT)
    assert check_whole(await session(pair.address.websocket, cut(SPEECH[0], PACKET_BYTES)))
    assert await figure(pair, "streamscribe_worker_ends_total") == ends
    assert sorted(worker_pids(pair)) == before


async def test_audio_that_ends_two_workers_is_quarantined_and_others_hear_all(pair: RunningServer) -> None:
    """R11."""
    await until_ready(pair, WORKERS)
    expected = await undisturbed(pair)
    await until_ready(pair, WORKERS)
    ends = await figure(pair, "streamscribe_worker_ends_total")
    failures: list[ServerError] = []
    deadly = SPEECH[0][:64_000] + DEADLY * 4 + SPEECH[0][64_000:]

    async def spoil(number: int) -> None:
        if number == 1:
            try:
                await session(pair.address.websocket, cut(deadly, PACKET_BYTES))
            except* ServerError as failed:
                failures.extend(error for error in failed.exceptions if isinstance(error, ServerError))

    assert await speaking(pair, spoil) == expected
    assert [(failure.error.name, failure.error.retry) for failure in failures] == [("quarantined", "never")]
    assert await figure(pair, "streamscribe_quarantined_sessions_total") == 1
    assert await figure(pair, "streamscribe_worker_ends_total") >= ends + 2


async def test_a_client_resumes_over_the_death_of_its_worker(pair: RunningServer) -> None:
    pcm = SPEECH[1]
    await until_ready(pair, WORKERS)  # of tests before this one some have ended
    expected = check_whole(await session(pair.address.websocket, cut(pcm, PACKET_BYTES)))
    async with NativeClient(pair.address.websocket) as client, asyncio.TaskGroup() as tasks:

        async def speak() -> None:
            for number, packet in enumerate(cut(pcm, PACKET_BYTES)):
                await client.send(packet)
                await asyncio.sleep(0.05)
                if number == 16:
                    client.drop_connection()
                    for worker in worker_pids(pair):
                        os.kill(worker, signal.SIGKILL)
            await client.end()

        tasks.create_task(speak())
        heard = [message async for message in client]
    assert check_whole(heard) == expected


async def test_a_file_that_is_being_recognised_survives_its_worker(pair: RunningServer) -> None:
    file = wav(noise_speech(5100, bursts=12))
    await until_ready(pair, WORKERS)
    async with httpx.AsyncClient(base_url=pair.address.http, timeout=None) as http:
        calm = await http.post("/v1/audio/transcriptions", files={"file": ("a.wav", file)})
        asked = asyncio.create_task(http.post("/v1/audio/transcriptions", files={"file": ("a.wav", file)}))
        while not await figure(pair, "funasr_active_streams"):
            pass
        for worker in worker_pids(pair):
            os.kill(worker, signal.SIGKILL)
        answer = await asked
    assert (answer.status_code, answer.json()) == (200, calm.json())
    assert answer.json()["text"]


async def test_metrics_of_all_workers_are_one_exposition_that_adds_up() -> None:
    with fleet("cache.transcripts=true") as server:
        await until_ready(server, WORKERS)
        url = server.address.websocket
        heard = await asyncio.gather(*(session(url, cut(pcm, PACKET_BYTES)) for pcm in SPEECH))
        segments = sum(len({final[0] for final in check_whole(messages)}) for messages in heard)
        await until_no_session(server)
        samples = await scrape(server)
        ok = {
            key: value
            for key, value in samples.items()
            if key.startswith("funasr_final_results_total{") and '"ok"' in key
        }
        assert sum(ok.values()) == segments
        assert all(f'"worker": "{number}"' in "".join(ok) for number in range(WORKERS))
        assert samples["streamscribe_ready_workers{}"] == WORKERS
        assert all(samples[f'streamscribe_worker_memory_bytes{{"worker": "{n}"}}'] > 2**20 for n in range(WORKERS))

        async with httpx.AsyncClient(base_url=server.address.http, timeout=None) as http:
            levels = {level["level"]: level for level in (await http.get("/v1/cache")).json()["levels"]}
            entries = sum(tier["entries"] for tier in levels["transcripts"]["tiers"])
            assert entries >= segments
            answer = await http.delete("/v1/cache")
            assert answer.status_code == 200, answer.text
            purged = answer.json()["purged"]
            assert purged["transcripts"] == entries
            levels = {level["level"]: level for level in (await http.get("/v1/cache")).json()["levels"]}
            assert sum(tier["entries"] for tier in levels["transcripts"]["tiers"]) == 0


async def test_a_worker_that_outgrows_its_memory_is_replaced_and_its_session_goes_on() -> None:
    fattening = SPEECH[0][:64_000] + FATTENING * 4 + SPEECH[0][64_000:]
    with fleet(f"worker.max_memory_bytes={HOARD_BYTES + 2**25}") as server:
        async with NativeClient(server.address.websocket) as client:
            for packet in cut(fattening[:112_000], PACKET_BYTES):
                await client.send(packet)
            await until(lambda: replaced(server))
            for packet in cut(fattening[112_000:], PACKET_BYTES):
                await client.send(packet)
            await client.end()
            heard = [message async for message in client]
        assert len(check_whole(heard)) == 3
        assert await figure(server, "streamscribe_taken_over_sessions_total") >= 1
        assert await figure(server, "streamscribe_quarantined_sessions_total") == 0


async def replaced(server: RunningServer) -> bool:
    samples = await scrape(server)
    return samples.get('streamscribe_worker_ends_total{"cause": "memory"}', 0) >= 1


async def test_models_are_replaced_in_all_workers_under_streams_and_a_worker_that_begins_later_has_the_new_ones(
    tmp_path: Path,
) -> None:
    versions = Versions(tmp_path, load(None, {"model.profile": "tiny"}).model)
    clips = [one.samples.astype("<i2").tobytes() + bytes(48_000) for one in recordings()[:6]]
    speech = [b"".join(clips[first : first + 3]) for first in range(3)]
    with LocalServer(["--config", str(versions.config), "--workers", str(WORKERS), *EVERYBODY]) as server:
        expected = await undisturbed(server, speech)
        await until_ready(server, WORKERS)

        async def swapped() -> bool:
            samples = await scrape(server)
            swaps = {key: value for key, value in samples.items() if key.startswith("streamscribe_model_swaps_total{")}
            assert not [key for key in swaps if '"done"' not in key]
            return sum(swaps.values()) == WORKERS * versions.roles

        async def replace_and_kill(number: int) -> None:
            if number == 0:
                versions.renew()
                server.process.send_signal(signal.SIGHUP)
                await until(swapped)
                os.kill(worker_pids(server)[0], signal.SIGKILL)

        assert await speaking(server, replace_and_kill, speech) == expected

        async def ended() -> bool:
            return await figure(server, "streamscribe_worker_ends_total") == 1

        await until(ended)
        await until_ready(server, WORKERS)
        assert await undisturbed(server, speech) == expected


async def test_a_drain_loses_nothing_and_leaves_no_worker() -> None:
    with fleet("model.fake_cost_ms=20") as server:
        expected = check_whole(await session(server.address.websocket, cut(SPEECH[0], PACKET_BYTES)))
        await until_ready(server, WORKERS)
        workers = worker_pids(server)

        async def stop() -> AsyncIterator[bytes]:
            for number, packet in enumerate(cut(SPEECH[0], PACKET_BYTES)):
                yield packet
                if number == 10:
                    server.process.send_signal(signal.SIGTERM)

        async with NativeClient(server.address.websocket) as client, asyncio.TaskGroup() as tasks:

            async def speak() -> None:
                async for packet in stop():
                    await client.send(packet)
                await client.end()

            tasks.create_task(speak())
            heard = [message async for message in client]
        assert check_whole(heard) == expected
        assert await asyncio.to_thread(server.process.wait, 30) == 0
        assert len(workers) == WORKERS
        assert not any(map(is_alive, workers))


async def test_workers_of_a_server_that_was_killed_end_by_themselves_frozen_ones_too() -> None:
    with fleet("model.fake_cost_ms=20") as server:
        await until_ready(server, WORKERS)
        workers = worker_pids(server)
        os.kill(workers[0], signal.SIGSTOP)
        async with connect(server.address.websocket, compression=None) as socket:
            await socket.send(SPEECH[0])
            server.process.kill()
        while any(map(is_alive, workers)):
            await asyncio.sleep(0.05)
        assert len(workers) == WORKERS


@pytest.mark.parametrize("setting", ["model.dir=/nowhere", "model.folders={whisper-base-int8: /nowhere}"])
def test_a_server_whose_models_are_missing_says_so_as_one_process_does(setting: str) -> None:
    said = []
    for workers in (0, WORKERS):
        with pytest.raises(ServerDidNotStart) as failed, LocalServer(["--workers", str(workers), "--set", setting]):
            pass
        said.append((failed.value.exit_code, str(failed.value)))
    assert said[0] == said[1]
    assert said[0][0] != 0
