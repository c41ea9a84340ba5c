"""What a chunk costs a session by how many sessions share a model step, and what it costs in FunASR's own calls.

As many streams as the largest batch has hear speech without a pause. A turn gives each of them its next chunk, so many
of them in a step; the turns of all batches follow each other, over and over. What is told are medians over the rounds:
of the cost, and of the ratios of neighbours in time. The oracle is `AutoModel.generate` with a chunk of one stream's
audio, as FunASR's servers call it.
"""

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from statistics import median
from time import perf_counter

import numpy as np

from streamscribe.bench.kinds import Engine, Size
from streamscribe.bench.report import Report, report
from streamscribe.bench.speech import Pcm, as_samples, unbroken
from streamscribe.bench.streaming_models import kept_or_passing, real_size, settings_of, thread_count
from streamscribe.bootstrap.engines import engines_of
from streamscribe.core.audio import SAMPLE_RATE
from streamscribe.models.fbank import Fbank
from streamscribe.models.ports import ChunkRequest, Frames, StreamingRecognizer

CHUNK_MS = 600
SPEECH_S = 24.0
WARM_UP_CHUNKS = 5
"""So many chunks can a stream look back."""

CHUNKS_OF_A_TURN = {Size.TINY: 20, Size.REAL: 1}
CALLS_OF_A_TURN = 4

_CHUNK_FRAMES = CHUNK_MS // 10
_CHUNK_SAMPLES = CHUNK_MS * SAMPLE_RATE // 1000


def run(
    *, size: Size, engine: Engine, batches: Sequence[int], threads: int, rounds: int, oracle: bool, folder: Path | None
) -> Report:
    """Measures; each of `batches` must divide the largest. The oracle has the weights of the model of real size."""
    threads = thread_count(size, threads)
    with kept_or_passing(folder) as place:
        recognizer = engines_of(settings_of(size, engine, folder=place, threads=threads).model).streaming
        if recognizer is None:
            raise AssertionError("the profile has no first pass")
        streams = _Streams(recognizer, unbroken(max(batches), SPEECH_S))
        ways: dict[str, Callable[[], float]] = {
            f"{count}": partial(streams.turn, count, CHUNKS_OF_A_TURN[size]) for count in sorted(set(batches))
        }
        if oracle:
            generate = _Generate(real_size(place, Engine.TORCH), unbroken(1, SPEECH_S)[0], threads=threads)
            ways["generate"] = generate.turn
        rounds_ms = [{name: way() for name, way in ways.items()} for _ in range(WARM_UP_CHUNKS + rounds)]
    told = {"model": size, "engine": engine, "threads": threads, "rounds": rounds, "chunk_ms": CHUNK_MS}
    figures = figures_of(rounds_ms[WARM_UP_CHUNKS:], sorted(set(batches)))
    parts = [f"{size}_{engine}", *([f"{size}_{engine}_oracle"] if oracle else [])]
    return report("step", told, {f"{size}_{engine}_{name}": value for name, value in figures.items()}, parts)


def figures_of(rounds_ms: Sequence[dict[str, float]], batches: Sequence[int]) -> dict[str, float]:
    """Medians of the costs, and of what each batch gains over steps of one and over the oracle in the same round."""
    names = list(rounds_ms[0])
    figures = {f"{name}_ms": median(one[name] for one in rounds_ms) for name in names}
    for base, gain in (("1", "gain"), ("generate", "over_generate")):
        if base in names:
            gains = {n: median(one[base] / one[f"{n}"] for one in rounds_ms) for n in batches if f"{n}" != base}
            figures |= {f"{gain}_{n}": value for n, value in gains.items()}
    return figures


class _Streams:
    """Streams that hear speech for ever."""

    def __init__(self, recognizer: StreamingRecognizer, voices: Sequence[Pcm]) -> None:
        fbank = Fbank()
        self._recognizer = recognizer
        self._chunks = [_chunks(fbank.frames(as_samples(voice))) for voice in voices]
        self._states = [recognizer.open(CHUNK_MS) for _ in voices]
        self._heard = 0

    def turn(self, together: int, chunks: int) -> float:
        """Gives each stream so many chunks, `together` streams in a step: milliseconds per chunk and stream."""
        took_s = 0.0
        for _ in range(chunks):
            requests = [
                ChunkRequest(state, of_stream[self._heard % len(of_stream)])
                for state, of_stream in zip(self._states, self._chunks, strict=True)
            ]
            self._heard += 1
            began_s = perf_counter()
            for at in range(0, len(requests), together):
                self._recognizer.step(requests[at : at + together])
            took_s += perf_counter() - began_s
        return 1000 * took_s / (chunks * len(self._states))


class _Generate:
    """FunASR's own streaming of one stream, with the look-back that it advises."""

    def __init__(self, folder: Path, voice: Pcm, *, threads: int) -> None:
        from streamscribe.models.funasr_torch.packages import import_all_of_funasr

        self._model = import_all_of_funasr().AutoModel(
            model=str(folder),
            device="cpu",
            ncpu=threads,
            disable_update=True,
            disable_pbar=True,
            trust_remote_code=False,
            log_level="ERROR",
        )
        samples = as_samples(voice)
        self._chunks = np.split(samples, range(_CHUNK_SAMPLES, len(samples), _CHUNK_SAMPLES))
        self._cache: dict[str, object] = {}
        self._heard = 0

    def turn(self) -> float:
        """Milliseconds per chunk."""
        began_s = perf_counter()
        for _ in range(CALLS_OF_A_TURN):
            self._model.generate(
                input=self._chunks[self._heard % len(self._chunks)],
                cache=self._cache,
                is_final=False,
                chunk_size=[0, 10, 5],
                encoder_chunk_look_back=4,
                decoder_chunk_look_back=1,
                disable_pbar=True,
            )
            self._heard += 1
        return 1000 * (perf_counter() - began_s) / CALLS_OF_A_TURN


def _chunks(frames: Frames) -> list[Frames]:
    """Whole ones."""
    return [frames[at : at + _CHUNK_FRAMES] for at in range(0, len(frames) - _CHUNK_FRAMES + 1, _CHUNK_FRAMES)]
