"""Whether a server that has just said that it is ready answers its first request as quickly as later ones."""

import asyncio
import io
import wave
from statistics import median
from time import perf_counter

import httpx

from streamscribe.bench.replay_workload import Clip
from streamscribe.client.errors import ConnectionLost
from streamscribe.client.local_server import LocalServer
from streamscribe.core.audio import SAMPLE_RATE

REQUESTS = 100
LAST = 10
"""The hundredth is told by the median of so many around it."""
REQUEST_TIMEOUT_S = 120.0

NOTHING_KEPT = ("--set", "cache.max_encoder_entries=0", "--set", "cache.max_feature_cache_size=0")
"""So that each request is as the first."""


def restarts(clip: Clip, *, times: int) -> dict[str, float]:
    """Starts a server so many times and asks for the same clip a hundred times, one by one, nothing being kept.

    Cold caches, warm models. Raises ServerError and ConnectionLost.
    """
    runs_s = [_run(clip) for _ in range(times)]
    first_s = median(one[0] for one in runs_s)
    later_s = median(median(one[-LAST:]) for one in runs_s)
    return {
        "restart_first_ms": 1000 * first_s,
        "restart_hundredth_ms": 1000 * later_s,
        "restart_first_over_hundredth": median(one[0] / median(one[-LAST:]) for one in runs_s),
    }


def _run(clip: Clip) -> list[float]:
    with LocalServer(NOTHING_KEPT) as server:
        return asyncio.run(_ask(server.address.http, _wav(clip), clip.language))


async def _ask(url: str, wav: bytes, language: str | None) -> list[float]:
    fields = {"model": "whisper-1"} | ({"language": language} if language else {})
    latencies_s = []
    async with httpx.AsyncClient(base_url=url, timeout=REQUEST_TIMEOUT_S) as client:
        for _ in range(REQUESTS):
            began_s = perf_counter()
            try:
                answer = await client.post("/v1/audio/transcriptions", data=fields, files={"file": ("a.wav", wav)})
                answer.raise_for_status()
            except httpx.HTTPError as error:
                raise ConnectionLost(f"REST: {error}") from error
            latencies_s.append(perf_counter() - began_s)
    return latencies_s


def _wav(clip: Clip) -> bytes:
    file = io.BytesIO()
    with wave.open(file, "wb") as wav:
        wav.setparams((1, 2, SAMPLE_RATE, 0, "NONE", ""))
        wav.writeframes((clip.samples * 32767).astype("<i2").tobytes())
    return file.getvalue()
