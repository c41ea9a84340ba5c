"""What each level of reuse adds to the one below: five requests at a time, a first pass (cold) and a second (warm)."""

import asyncio
from collections.abc import Callable
from itertools import islice

from streamscribe.audio.fingerprint import Fingerprints
from streamscribe.bench.after_admission import EncodeAfterAdmission
from streamscribe.bench.replay_load import Pass, Recognise, drive, requests_of
from streamscribe.bench.replay_reuse import Engines
from streamscribe.bench.replay_stage import SECRET, Telemetry, after_admission, before_admission
from streamscribe.bench.replay_workload import Workload
from streamscribe.cache.features import Features
from streamscribe.cache.memory import MemoryBlobs
from streamscribe.cache.transcripts import Said, Sources, Transcripts
from streamscribe.core.cachekey import CacheKeys
from streamscribe.models.ports import EncoderDecoder, Hypothesis, SegmentRequest

AT_ONCE = 5
LOADS = 10
"""Requests that load a model each; more would tell the same."""
STORE_BYTES = 1 << 30
_SOURCES = Sources(("replay",), None)
TTL_S = 3600.0
_STEPS = (
    ("model", "load_per_request"),
    ("features_cold", "model"),
    ("features_warm", "model_again"),
    ("encodings_cold", "features_cold"),
    ("encodings_warm", "features_warm"),
    ("transcripts_cold", "encodings_cold"),
    ("transcripts_warm", "encodings_warm"),
)
"""Each pass, and that of the level below it."""


async def levels(load: Callable[[], EncoderDecoder], engines: Engines, workload: Workload) -> dict[str, float]:
    """Throughput and 95th percentile of each level on top of those before it, and its throughput over theirs.

    `load` loads a model, as is done for each request where none is kept. The model alone is measured twice: by how
    much the same differs. Features are kept in memory only.
    """
    requests = requests_of(workload)
    loaded = await drive(_loading(load), list(islice(requests, LOADS)), at_once=AT_ONCE)
    figures = _told("load_per_request", loaded)
    with after_admission(EncodeAfterAdmission(engines.whole)) as recognise:
        figures |= await _two_passes("model", recognise, requests, ("", "_again"))
    with before_admission(engines.apart, Telemetry(), cached=False, features=_features()) as recognise:
        figures |= await _two_passes("features", recognise, requests)
    with before_admission(engines.apart, Telemetry(), cached=True, features=_features()) as recognise:
        figures |= await _two_passes("encodings", recognise, requests)
    with before_admission(engines.apart, Telemetry(), cached=True, features=_features()) as recognise:
        figures |= await _two_passes("transcripts", _remembering(recognise), requests)
    return figures | {f"{one}_over_below": figures[f"{one}_per_s"] / figures[f"{below}_per_s"] for one, below in _STEPS}


async def _two_passes(
    level: str, recognise: Recognise, requests: list[SegmentRequest], names: tuple[str, str] = ("_cold", "_warm")
) -> dict[str, float]:
    figures: dict[str, float] = {}
    for name in names:
        figures |= _told(f"{level}{name}", await drive(recognise, requests, at_once=AT_ONCE))
    return figures


def _told(name: str, one: Pass) -> dict[str, float]:
    return {f"{name}_per_s": one.per_s, f"{name}_p95_ms": one.percentile_ms(95)}


def _loading(load: Callable[[], EncoderDecoder]) -> Recognise:
    def recognise(request: SegmentRequest) -> str:
        return EncodeAfterAdmission(load()).recognize([request])[0].text

    async def off_the_loop(request: SegmentRequest) -> str:
        return await asyncio.to_thread(recognise, request)

    return off_the_loop


def _features() -> Features:
    return Features(MemoryBlobs(max_bytes=STORE_BYTES), CacheKeys(SECRET), ttl_s=TTL_S)


def _remembering(recognise: Recognise) -> Recognise:
    """Texts first, and only for what is new the recogniser."""
    transcripts = Transcripts(
        MemoryBlobs(max_bytes=STORE_BYTES),
        CacheKeys(SECRET),
        Fingerprints(SECRET),
        ttl_s=TTL_S,
    )

    async def recall(request: SegmentRequest) -> str:
        found = await asyncio.to_thread(transcripts.find, request, _SOURCES)
        if found.said is not None:
            return found.said.heard.text
        text = await recognise(request)
        if found.key is not None:
            await asyncio.to_thread(transcripts.keep, request.tenant_id, found.key, Said(Hypothesis(text)))
        return text

    return recall
