"""What the platform around the first pass costs: the same sessions through all of it, and through bare model steps.

A platform in this process, no network. All sessions begin at once and hear speech without a pause as fast as it is
taken: gateway sessions, bus, voice activity detection, chunking, step loop, text and transcript. Then the same engine
steps through the frames of the same audio, all sessions in every step. Both follow each other several times; the ratio
of neighbours in time is taken, and its median told.
"""

import asyncio
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from time import perf_counter

from streamscribe.bench.kinds import Engine, Size
from streamscribe.bench.listening import Listening
from streamscribe.bench.report import Report, report
from streamscribe.bench.speech import Pcm, as_samples, unbroken
from streamscribe.bench.streaming_models import kept_or_passing, settings_of, thread_count
from streamscribe.bootstrap.platform import Platform, platform
from streamscribe.core.audio import SAMPLE_RATE
from streamscribe.core.options import MAX_SILENCE_MS, EndpointOptions, Mode, SessionOptions
from streamscribe.models.fbank import Fbank
from streamscribe.models.ports import ChunkRequest, Frames, StreamingRecognizer
from streamscribe.observe.logs import configure
from streamscribe.settings import Settings

CHUNK_MS = 600
OPTIONS = SessionOptions(
    mode=Mode.ONLINE, language="zh", chunk_ms=CHUNK_MS, endpoint=EndpointOptions(silence_ms=MAX_SILENCE_MS)
)
UNPACED = {
    "limits__max_rate": 1000,
    "limits__burst_s": 600,
    "limits__max_burst_s": 3600,
    "limits__max_chunks_per_s": 100_000,
    "limits__max_utilisation": 100,
    "limits__max_lag_ms": 60_000,
    "limits__max_newcomers": 100_000,
}

_CHUNK_FRAMES = CHUNK_MS // 10


def run(
    *, size: Size, engine: Engine, sessions: int, seconds: float, threads: int, rounds: int, folder: Path | None
) -> Report:
    """Measures with sessions that hear `seconds` of speech each, which is one segment."""
    threads = thread_count(size, threads)
    with kept_or_passing(folder) as place:
        settings = settings_of(
            size, engine, folder=place, threads=threads, model__max_chunk_batch_size=sessions, **UNPACED
        )
        configure(settings.observe)
        figures = asyncio.run(_measure(settings, unbroken(sessions, seconds), rounds))
    told = {"model": size, "engine": engine, "sessions": sessions, "seconds": seconds, "threads": threads}
    told |= {"rounds": rounds}
    return report("stack", told, {f"{size}_{name}": value for name, value in figures.items()}, [size])


async def _measure(settings: Settings, voices: Sequence[Pcm], rounds: int) -> dict[str, float]:
    audio_s = sum(map(len, voices)) / SAMPLE_RATE
    fbank = Fbank()
    frames = [fbank.frames(as_samples(voice)) for voice in voices]
    stacks_s, loops_s, finals = [], [], 0
    async with platform(settings) as parts:
        await asyncio.to_thread(parts.models.wait_ready)
        if parts.models.first_pass is None:
            raise AssertionError("the profile has no first pass")
        recognizer = parts.models.first_pass.current.recognizer
        for _ in range(rounds):
            took_s, finals = await _stack(parts, voices)
            stacks_s.append(took_s)
            loops_s.append(await asyncio.to_thread(_loop, recognizer, frames))
    return {
        "finals_per_session": finals / len(voices),
        "stack_times_real_time": audio_s / median(stacks_s),
        "loop_times_real_time": audio_s / median(loops_s),
        "stack_over_loop": median(loop_s / stack_s for stack_s, loop_s in zip(stacks_s, loops_s, strict=True)),
    }


async def _stack(parts: Platform, voices: Sequence[Pcm]) -> tuple[float, int]:
    """How long all sessions took together, and how many finals they heard."""
    began_s = perf_counter()
    sessions = [Listening(parts, OPTIONS) for _ in voices]
    async with asyncio.TaskGroup() as tasks:
        for session, voice in zip(sessions, voices, strict=True):
            tasks.create_task(session.hear_all(voice.tobytes()))
    took_s = perf_counter() - began_s
    return took_s, sum(sent.result.is_final for session in sessions for sent in session.ear.results)


def _loop(recognizer: StreamingRecognizer, frames: Sequence[Frames]) -> float:
    """How long the steps of all streams took; nobody else is in the model now."""
    streams = [recognizer.open(CHUNK_MS) for _ in frames]
    length = max(map(len, frames))
    began_s = perf_counter()
    for at in range(0, length, _CHUNK_FRAMES):
        chunks = [one[at : at + _CHUNK_FRAMES] for one in frames]
        last = at + _CHUNK_FRAMES >= length
        recognizer.step([ChunkRequest(state, chunk, last) for state, chunk in zip(streams, chunks, strict=True)])
    return perf_counter() - began_s
