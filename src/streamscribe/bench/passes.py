"""What the two passes hear of short recordings, beside the second pass's engine alone on the same audio.

Each recording is cut tight to its speech and sent as fast as the server takes it, with a second of silence behind it,
which endpoints need. What the platform loses against the bare engine (words at the edges, segments cut apart) shows.
"""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import numpy.typing as npt

from streamscribe.audio.decode import DecodeLimits, decode
from streamscribe.bench.corpus import Utterance
from streamscribe.bench.recordings import QUIET, entries
from streamscribe.bench.report import Report, report
from streamscribe.bench.text import corpus_error_rate, normalise
from streamscribe.client.local_server import LocalServer
from streamscribe.client.native import NativeClient
from streamscribe.core.audio import SAMPLE_RATE
from streamscribe.core.script import join
from streamscribe.models.ports import SegmentRequest
from streamscribe.settings import Settings
from streamscribe.wire.native_client import StartMessage
from streamscribe.wire.native_server import ResultMessage

AT_ONCE = 8
SILENCE = np.zeros(SAMPLE_RATE, np.int16)
KINDS = ("plain", "paused", "telephone")


@dataclass(slots=True)
class _Texts:
    """What was heard of each recording, in their order."""

    first: list[str] = field(default_factory=list)
    second: list[str] = field(default_factory=list)
    bare: list[str] = field(default_factory=list)


def run(settings: Settings, corpus: Sequence[Utterance]) -> Report:
    """Measures the profile of `settings`, which must have a first pass, on the recordings of one language."""
    audio = [asyncio.run(_tight(utterance.audio)) for utterance in corpus]
    said = [utterance.text for utterance in corpus]
    texts = _Texts(bare=_bare(settings, audio))
    with LocalServer(["--profile", settings.model.profile]) as server:
        asyncio.run(_through_service(server.address.websocket, audio, texts))
    figures = {
        "recordings": float(len(said)),
        "error_rate_first_pass": corpus_error_rate(said, texts.first),
        "error_rate_second_pass": corpus_error_rate(said, texts.second),
        "error_rate_bare_engine": corpus_error_rate(said, texts.bare),
        "edges_lost_first_pass": float(_edges_lost(said, texts.first)),
        "edges_lost_second_pass": float(_edges_lost(said, texts.second)),
        "edges_lost_bare_engine": float(_edges_lost(said, texts.bare)),
    }
    figures["second_pass_above_bare"] = figures["error_rate_second_pass"] - figures["error_rate_bare_engine"]
    return report("passes", {"profile": settings.model.profile, "recordings": len(said)}, figures)


def recorded() -> list[Utterance]:
    """The recordings that come with the package."""
    return [Utterance(file, text) for kind in KINDS for file, text in entries(kind)]


async def _tight(file: Path) -> npt.NDArray[np.int16]:
    pcm = b"".join([block async for block in decode(file, DecodeLimits())])
    samples = np.frombuffer(pcm, "<i2")
    loud = np.flatnonzero(np.abs(samples.astype(np.int32)) > QUIET)
    return samples[loud[0] : loud[-1] + 1] if len(loud) else samples


def _bare(settings: Settings, audio: Sequence[npt.NDArray[np.int16]]) -> list[str]:
    from streamscribe.bootstrap.engines import engines_of

    recognizer = engines_of(settings.model).recognizer
    pad = SILENCE[: SAMPLE_RATE // 3]
    requests = [SegmentRequest(np.concatenate([one, pad]).astype(np.float32) / np.float32(32768)) for one in audio]
    return [recognizer.recognize([request])[0].text for request in requests]


async def _through_service(url: str, audio: Sequence[npt.NDArray[np.int16]], texts: _Texts) -> None:
    room = asyncio.Semaphore(AT_ONCE)

    async def hear(samples: npt.NDArray[np.int16]) -> dict[int, str]:
        async with room:
            return await _hear(url, np.concatenate([samples, SILENCE]).tobytes())

    for passes in await asyncio.gather(*map(hear, audio)):
        texts.first.append(passes[1])
        texts.second.append(passes[2])


async def _hear(url: str, pcm: bytes) -> dict[int, str]:
    start = StartMessage(itn=False, punctuation=False)
    passes = {1: "", 2: ""}
    async with NativeClient(url, start=start) as client:
        await client.send(pcm)
        await client.end()
        async for message in client:
            if isinstance(message, ResultMessage) and message.is_final:
                passes[message.pass_] = join(passes[message.pass_], message.text)
    return passes


def _edges_lost(said: Sequence[str], heard: Sequence[str]) -> int:
    """In how many texts the first or the last character is missing: one is shorter, and begins or ends otherwise.

    A character that was heard as another one is an error of the model, and is counted by the error rate.
    """
    return sum(
        _lost_edge(normalise(a, characters=True), normalise(b, characters=True))
        for a, b in zip(said, heard, strict=True)
    )


def _lost_edge(said: str, heard: str) -> bool:
    before, after = said.split(), heard.split()
    if not after:
        return bool(before)
    missing = len(after) < len(before)
    return missing and (before[0] != after[0] or before[-1] != after[-1])
