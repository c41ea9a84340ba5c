"""What the two passes hear of short recordings, beside the second pass's engine alone on the same audio.

Each recording is cut tight to its speech and sent as fast as the server takes it, with a second of silence behind it,
which endpoints need. What the platform loses against the bare engine (words at the edges, segments cut apart) shows.
"""

import asyncio
from collections.abc import Sequence

import numpy as np

from streamscribe.bench.corpus import Utterance
from streamscribe.bench.hearing import SILENCE, Pcm, hear_all, read
from streamscribe.bench.load import OPEN_DOOR
from streamscribe.bench.recordings import QUIET
from streamscribe.bench.report import Report, report
from streamscribe.bench.text import corpus_error_rate, normalise
from streamscribe.client.local_server import LocalServer
from streamscribe.core.audio import SAMPLE_RATE
from streamscribe.models.ports import SegmentRequest
from streamscribe.settings import Settings
from streamscribe.wire.native_client import StartMessage


def run(settings: Settings, corpus: Sequence[Utterance]) -> Report:
    """Measures the profile of `settings`, which must have a first pass, on the recordings of one language."""
    audio = [_tight(asyncio.run(read(utterance.audio))) for utterance in corpus]
    said = [utterance.text for utterance in corpus]
    start = StartMessage(itn=False, punctuation=False)
    with LocalServer(["--profile", settings.model.profile, *OPEN_DOOR]) as server:
        heard = asyncio.run(hear_all(server.address.websocket, audio, start))
    texts = {
        "first_pass": [passes[1] for passes in heard],
        "second_pass": [passes[2] for passes in heard],
        "bare_engine": _bare(settings, audio),
    }
    figures = {"recordings": float(len(said))}
    figures |= {f"error_rate_{name}": corpus_error_rate(said, told) for name, told in texts.items()}
    figures |= {f"edges_lost_{name}": float(_edges_lost(said, told)) for name, told in texts.items()}
    figures["second_pass_above_bare"] = figures["error_rate_second_pass"] - figures["error_rate_bare_engine"]
    return report("passes", {"profile": settings.model.profile, "recordings": len(said)}, figures)


def _tight(samples: Pcm) -> Pcm:
    loud = np.flatnonzero(np.abs(samples.astype(np.int32)) > QUIET)
    return samples[loud[0] : loud[-1] + 1] if len(loud) else samples


def _bare(settings: Settings, audio: Sequence[Pcm]) -> list[str]:
    from streamscribe.bootstrap.engines import engines_of

    recognizer = engines_of(settings.model).recognizer
    pad = SILENCE[: SAMPLE_RATE // 3]
    requests = [SegmentRequest(np.concatenate([one, pad]).astype(np.float32) / np.float32(32768)) for one in audio]
    return [recognizer.recognize([request])[0].text for request in requests]


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
