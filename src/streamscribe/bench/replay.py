"""A workload whose clips come again, replayed over Whisper: who is spared an encoding, and what that is worth.

Each stage gets the requests directly, so many at a time, without sessions or voice activity detection. Encode after
admission, which it is compared with, has the same model with all threads at one step.
"""

import asyncio
import os
from collections.abc import Callable, Sequence
from pathlib import Path

from streamscribe.bench.kinds import Part
from streamscribe.bench.replay_levels import AT_ONCE, levels
from streamscribe.bench.replay_restart import restarts
from streamscribe.bench.replay_reuse import Engines, replayed, serial_texts, unique
from streamscribe.bench.replay_stub import alone, hits, hops, together
from streamscribe.bench.replay_workload import Workload, check_lengths, from_file, synthetic
from streamscribe.bench.report import Report, report
from streamscribe.models.ports import EncoderDecoder
from streamscribe.models.registry import open_verified
from streamscribe.settings import ModelSettings

TOGETHER = 32
SYNTHETIC = "synthetic"


def run(settings: ModelSettings, *, workload: str, small: bool, parts: Sequence[Part], rounds: int) -> Report:
    """Measures `parts` on a manifest or the synthetic workload; `rounds` of the unique pass and of restarts.

    Raises BadRequest for a manifest that cannot be used, ModelUnavailable for a model that is not installed,
    ServerError and ConnectionLost for a server.
    """
    figures: dict[str, float] = {}
    told: dict[str, object] = {"at_once": TOGETHER, "rounds": rounds}
    if Part.STUB in parts:
        figures |= asyncio.run(_over_a_stub())
    if set(parts) - {Part.STUB}:
        asked = _workload(settings, workload, small=small)
        told |= {"workload": asked.name, "requests": len(asked.order), "clips": len(asked.clips)}
    if {Part.REUSE, Part.UNIQUE} & set(parts):
        engines = _engines(settings, asked)
        if Part.REUSE in parts:
            serial = serial_texts(engines.whole, asked)
            figures |= asyncio.run(replayed(engines, asked, serial, at_once=TOGETHER))
        if Part.UNIQUE in parts:
            figures |= asyncio.run(unique(engines, asked, at_once=TOGETHER, rounds=rounds))
    if Part.RESTART in parts:
        figures |= restarts(asked.clips[0], times=rounds)
    return report("replay", told, figures, parts)


def run_levels(settings: ModelSettings, *, workload: str, small: bool) -> Report:
    """Measures what each level of reuse adds to the one below; raises what `run` does."""
    asked = _workload(settings, workload, small=small)
    load = _loader(settings)
    figures = asyncio.run(levels(lambda: load(2 * _threads(settings)), _engines(settings, asked), asked))
    told = {"at_once": AT_ONCE, "workload": asked.name, "requests": len(asked.order), "clips": len(asked.clips)}
    return report("replay-levels", told, figures)


async def _over_a_stub() -> dict[str, float]:
    return await together(at_once=TOGETHER) | await alone() | await hits() | await hops()


def _workload(settings: ModelSettings, workload: str, *, small: bool) -> Workload:
    if workload == SYNTHETIC:
        return synthetic(settings.dir.expanduser(), small=small)
    return from_file(Path(workload))


def _engines(settings: ModelSettings, workload: Workload) -> Engines:
    load, threads = _loader(settings), _threads(settings)
    engines = Engines(apart=load(threads), whole=load(2 * threads))  # half of its threads are for another step
    check_lengths(workload, engines.whole.max_samples)
    return engines


def _threads(settings: ModelSettings) -> int:
    return settings.threads or os.cpu_count() or 1


def _loader(settings: ModelSettings) -> Callable[[int], EncoderDecoder]:
    from streamscribe.models.whisper.model import WhisperModel

    files = open_verified("whisper-base", settings.dir.expanduser())
    return lambda threads: WhisperModel(files, threads=threads, compute_type=settings.compute_type)
