"""A live session under chaos: it says a script in real time, and keeps what it was told, and when."""

import asyncio
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import cycle, islice
from time import perf_counter
from typing import Protocol

import msgspec
import numpy as np
import numpy.typing as npt

from streamscribe.bench.load import CHUNK_BYTES, CHUNK_S, Latencies, LoadSession, connect
from streamscribe.bench.recordings import recordings
from streamscribe.core.audio import SAMPLE_RATE

START = b'{"type":"start","framing":"sequenced"}'
BURST_S, PAUSE_S = 5.0, 1.2
SCRIPTS = 20
OPENED_PER_S = 50
CLOSE_TIMEOUT_S = 60.0
MIN_SLEEP_S = 0.0005
_RESULT, _CLOSED, _ERROR = b'{"type":"result"', b'{"type":"closed"', b'{"type":"error"'

Final = tuple[str, int, int]
"""Its text, and its start and end in milliseconds."""


class _Result(msgspec.Struct):
    pass_: int = msgspec.field(name="pass")
    segment_id: int
    text: str
    start_ms: int
    end_ms: int
    is_final: bool


class _Closed(msgspec.Struct):
    audio_ms: int


class _Refusal(msgspec.Struct):
    name: str


_result = msgspec.json.Decoder(_Result)
_closed = msgspec.json.Decoder(_Closed)
_refusal = msgspec.json.Decoder(_Refusal)


@dataclass(frozen=True, slots=True)
class Script:
    """What a session says: noise in bursts, which the fake models hear as words, or speech. `bursts` are seconds."""

    chunks: tuple[bytes, ...]
    bursts: tuple[tuple[float, float], ...]

    @classmethod
    def of(cls, seed: int, seconds: float, burst_s: float = BURST_S, pause_s: float = PAUSE_S) -> "Script":
        """So long, and silent at its end; the first burst of each seed begins at another time."""
        generator = np.random.default_rng(seed)
        wave = np.zeros(int(seconds * SAMPLE_RATE), np.int16)
        at, bursts = generator.uniform(0, burst_s) % (seconds / 2), []
        while at + burst_s + pause_s <= seconds:
            begin, length = int(at * SAMPLE_RATE), int(burst_s * SAMPLE_RATE)
            wave[begin : begin + length] = generator.integers(-16_000, 16_000, length)
            bursts.append((at, at + burst_s))
            at += burst_s + pause_s
        return cls(_chunks(wave), tuple(bursts))

    @classmethod
    def spoken(cls, seed: int, seconds: float) -> "Script":
        """Recordings that the small models understand, one after the other: of each seed in another order."""
        said = recordings()
        wave = np.zeros(int(seconds * SAMPLE_RATE), np.int16)
        at, bursts = SAMPLE_RATE // 2, []
        for index in np.random.default_rng(seed).permutation(len(said)):
            samples = said[index].samples
            if at + len(samples) + int(BURST_S * SAMPLE_RATE) > len(wave):
                break
            wave[at : at + len(samples)] = samples
            bursts.append((at / SAMPLE_RATE, (at + said[index].speech_end) / SAMPLE_RATE))
            at += len(samples) + int(PAUSE_S * SAMPLE_RATE)
        return cls(_chunks(wave), tuple(bursts))


def _chunks(wave: npt.NDArray[np.int16]) -> tuple[bytes, ...]:
    data = wave.astype("<i2").tobytes()
    return tuple(data[n * CHUNK_BYTES : (n + 1) * CHUNK_BYTES] for n in range(len(data) // CHUNK_BYTES))


@dataclass(slots=True)
class Told:
    """What a session was told: finals by segment and pass, when texts came, and errors."""

    finals: dict[tuple[int, int], list[Final]] = field(default_factory=dict)
    texts_at: list[float] = field(default_factory=list)
    finals_at: list[float] = field(default_factory=list)
    final_waits_s: list[float] = field(default_factory=list)
    """From the handing over of the last sample of each segment until its final was read here."""
    errors: list[str] = field(default_factory=list)
    audio_ms: int | None = None


class Voice(LoadSession):
    """A session of a script."""

    def __init__(self, host: str, path: str, script: Script, start: bytes = START) -> None:
        super().__init__(host, path, Latencies(), start)
        self.script = script
        self.told_ = Told()
        self._sent_at: list[float] = []  # a number for each chunk of the script

    @property
    def done(self) -> bool:
        """Whether all is said."""
        return len(self._sent_at) == len(self.script.chunks)

    @property
    def acked_ms(self) -> int:
        """Audio that the server has acknowledged."""
        return round(1000 * CHUNK_S * (self._sequence - len(self._unacked)))

    def say(self) -> None:
        """Sends the script's next chunk, and after the last one the end."""
        if self.done:
            return
        self._sent_at.append(perf_counter())
        self.send(self.script.chunks[len(self._sent_at) - 1])
        if self.done:
            self.end()

    def wait_s(self, since: float, spoken_s: float) -> float | None:
        """How long after `since` its next text came; None unless it spoke then and for `spoken_s` more."""
        if not self._sent_at:
            return None
        at = since - self._sent_at[0]
        if not any(begin + 1.0 <= at and at + spoken_s <= end for begin, end in self.script.bursts):
            return None
        texts_at = self.told_.texts_at
        nearest = bisect_right(texts_at, since)
        return texts_at[nearest] - since if nearest < len(texts_at) else CLOSE_TIMEOUT_S

    def told(self, payload: bytes, now: float) -> None:
        """Keeps what counts."""
        if payload.startswith(_RESULT):
            result = _result.decode(payload)
            self.told_.texts_at.append(now)
            if result.is_final:
                final = (result.text, result.start_ms, result.end_ms)
                self.told_.finals.setdefault((result.segment_id, result.pass_), []).append(final)
                self.told_.finals_at.append(now)
                last = min(result.end_ms * SAMPLE_RATE // 1000 // (CHUNK_BYTES // 2), len(self._sent_at) - 1)
                self.told_.final_waits_s.append(now - self._sent_at[last])
        elif payload.startswith(_CLOSED):
            self.told_.audio_ms = _closed.decode(payload).audio_ms
        elif payload.startswith(_ERROR):
            self.told_.errors.append(_refusal.decode(payload).name)


async def all_say(
    urls: str | Sequence[str], scripts: Sequence[Script], count: int, opened: asyncio.Event | None = None
) -> list[Voice]:
    """So many sessions, each with the next script, and at the next server where there are several; returns when all
    are over, or the last is late by a minute.

    `opened` is set when all are there.
    """
    voices: list[Voice] = []
    async with asyncio.TaskGroup() as tasks:
        saying = tasks.create_task(say_in_turn(voices))
        turns = zip(cycle(scripts), cycle([urls] if isinstance(urls, str) else urls), strict=False)
        for script, url in islice(turns, count):
            voices.append(await connect(url, partial(Voice, script=script)))
            await asyncio.sleep(1 / OPENED_PER_S)
        if opened is not None:
            opened.set()
        while not all(voice.done or voice.closed.done() for voice in voices):  # noqa: ASYNC110 - they are many
            await asyncio.sleep(CHUNK_S)
        saying.cancel()
    await asyncio.wait({voice.closed for voice in voices}, timeout=CLOSE_TIMEOUT_S)
    return voices


async def say_in_turn(voices: Sequence[Voice]) -> None:
    """Every voice's chunks in real time, evenly spread over the length of a chunk, until cancelled."""
    due = perf_counter()
    while True:
        present = [voice for voice in voices if not voice.done]
        for voice in present:
            due += CHUNK_S / len(present)
            if (wait_s := due - perf_counter()) > MIN_SLEEP_S:
                await asyncio.sleep(wait_s)
            voice.say()
        if not present:
            await asyncio.sleep(CHUNK_S)
            due = perf_counter()


class Spoken(Protocol):
    """A session that is over."""

    @property
    def script(self) -> Script:
        """What it says."""
        ...

    @property
    def told_(self) -> Told:
        """What it was told."""
        ...

    @property
    def acked_ms(self) -> int:
        """Audio that the server has acknowledged."""
        ...


def held_against(expected: Sequence[Spoken], heard: Sequence[Spoken]) -> dict[str, float]:
    """Finals, errors and acknowledged audio of sessions, held against what undisturbed ones of their scripts heard."""
    by_script = {id(voice.script): voice.told_.finals for voice in expected}
    lost = doubled = changed = 0
    lost_ms = 0
    for voice in heard:
        wanted, told = by_script[id(voice.script)], voice.told_
        lost += len(wanted.keys() - told.finals.keys())
        doubled += sum(len(finals) - 1 for finals in told.finals.values())
        changed += sum(finals[-1:] != wanted.get(key, [])[-1:] for key, finals in told.finals.items())
        lost_ms += max(0, voice.acked_ms - (told.audio_ms or 0))
    return {
        "sessions": float(len(heard)),
        "finals": float(sum(len(voice.told_.finals) for voice in heard)),
        "lost_finals": float(lost),
        "doubled_finals": float(doubled),
        "changed_finals": float(changed),
        "lost_acked_audio_s": lost_ms / 1000,
        "session_errors": float(
            sum(bool(voice.told_.errors) or voice.told_.audio_ms is None for voice in (*expected, *heard))
        ),
    }
