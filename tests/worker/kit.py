"""A worker on the in-memory bus with the fake models, and the audio to feed it."""

import asyncio
import gc
import random
import threading
from collections import defaultdict
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from itertools import repeat
from typing import Any

import numpy as np

from streamscribe.bus.memory import MemoryBus
from streamscribe.cache.transcripts import Transcripts
from streamscribe.core.batching import BatchPolicy, Priority
from streamscribe.core.ids import SessionId, TenantId, TraceId
from streamscribe.core.options import Hotword, Mode, SessionOptions
from streamscribe.core.records import (
    AudioChunk,
    AudioEnded,
    Failed,
    Finished,
    Flushed,
    FlushRequested,
    HotwordsUpdated,
    Recognised,
    SessionAbandoned,
    SessionOpened,
    WorkerEvent,
)
from streamscribe.core.result_log import ResultLog
from streamscribe.core.results import Result
from streamscribe.core.rules import NO_POLICY, TextPolicy
from streamscribe.core.tokens import Mark, Token
from streamscribe.models.fake.recognizer import FakeRecognizer
from streamscribe.models.fake.streaming import FakeStreamingRecognizer
from streamscribe.models.fake.voice_activity import FakeVoiceActivityDetector
from streamscribe.models.pool import FirstPass, Models, Punctuation, Recognition
from streamscribe.models.ports import (
    ChunkRequest,
    Heard,
    Hypothesis,
    Punctuator,
    SegmentRecognizer,
    SegmentRequest,
    VadRequest,
)
from streamscribe.models.replica import Replica
from streamscribe.settings import WorkerSettings
from streamscribe.text.pipeline import TextPipeline
from streamscribe.worker.runner import Worker

OFFLINE = SessionOptions(mode=Mode.OFFLINE)
MAX_BACKLOG_S = 5
PACKETS = (7, 160, 960, 9600, 100_000)


def voice(ms: int, seed: int) -> bytes:
    """Loud noise; each seed says something else to the fake recogniser."""
    rng = np.random.default_rng(seed)
    return rng.integers(-8000, 8000, ms * 16, dtype=np.int16).astype("<i2").tobytes()


def silence(ms: int) -> bytes:
    return bytes(ms * 32)


def speech(seed: int, *voices_ms: int, pause_ms: int = 1200) -> bytes:
    """Voices with pauses around them."""
    parts = [silence(pause_ms)]
    for index, ms in enumerate(voices_ms):
        parts += [voice(ms, seed * 1000 + index), silence(pause_ms)]
    return b"".join(parts)


def stereo(left: bytes, right: bytes) -> bytes:
    """Both sides interleaved, the shorter one followed by silence."""
    length = max(len(left), len(right))
    pair = [np.frombuffer(side.ljust(length, b"\0"), "<i2") for side in (left, right)]
    return np.stack(pair, axis=1).tobytes()


def packets(data: bytes, sizes: int | Iterable[int], sample_bytes: int = 2) -> Iterable[bytes]:
    """`data` in packets of so many samples."""
    each = repeat(sizes) if isinstance(sizes, int) else iter(sizes)
    at = 0
    while at < len(data):
        size = next(each) * sample_bytes
        yield data[at : at + size]
        at += size


def replica_of(recognizer: SegmentRecognizer, policy: BatchPolicy | None = None) -> Replica[SegmentRequest, Hypothesis]:
    return Replica("fake", recognizer.recognize, policy=policy or BatchPolicy(wait_ms=1), on_step=lambda report: None)


def fake_models(
    recognizer: SegmentRecognizer | None = None, policy: BatchPolicy | None = None, cost_ms: float = 0
) -> Models:
    vad = FakeVoiceActivityDetector()
    recognizer = recognizer or FakeRecognizer(cost_ms)
    vad_replica: Replica[VadRequest, Heard] = Replica(
        "vad", vad.step, policy=BatchPolicy(max_batch_size=64, wait_ms=1), on_step=lambda report: None
    )
    return Models(vad, vad_replica, Recognition(recognizer, replica_of(recognizer, policy), reads_on=True))


class HeardStreams(FakeStreamingRecognizer):
    """The fake, which keeps what it was asked and, while the gate is shut, stands still in the step it is in."""

    def __init__(self, tail_padding_ms: int = 0) -> None:
        super().__init__()
        self.tail_padding_ms = tail_padding_ms
        self.opened: list[int] = []
        self.chunks: list[ChunkRequest] = []
        self.gate = threading.Event()
        self.gate.set()
        self._entered = threading.Semaphore(0)

    def open(self, chunk_ms: int) -> Any:
        self.opened.append(chunk_ms)
        return super().open(chunk_ms)

    def step(self, batch: Sequence[ChunkRequest]) -> list[tuple[Token, ...]]:
        self._entered.release()
        self.gate.wait()
        assert len({id(request.state) for request in batch}) == len(batch)
        assert len({self.group(request) for request in batch}) == 1
        for request in batch:
            wanted = request.state.chunk_frames
            assert len(request.frames) <= wanted if request.last else len(request.frames) == wanted
        tokens = super().step(batch)
        self.chunks += batch
        return tokens

    @property
    def ends(self) -> int:
        """Streams that were ended."""
        return sum(request.last for request in self.chunks)

    def alive(self) -> int:
        """States that something still holds."""
        kind = type(super().open(300))
        gc.collect()
        return sum(issubclass(type(thing), kind) for thing in gc.get_objects())

    async def entered(self) -> None:
        """Returns when one more step has begun."""
        await asyncio.to_thread(self._entered.acquire)


def two_pass_models(
    streams: HeardStreams | None = None,
    recognizer: SegmentRecognizer | None = None,
    *,
    policy: BatchPolicy | None = None,
    punctuator: Punctuator | None = None,
) -> Models:
    """The fakes with a first pass."""
    streams = streams or HeardStreams()
    replica: Replica[ChunkRequest, tuple[Token, ...]] = Replica(
        "first_pass",
        streams.step,
        policy=policy or BatchPolicy(max_batch_size=64, wait_ms=1),
        on_step=lambda report: None,
    )
    punctuation = None
    if punctuator is not None:
        marks: Replica[str, tuple[Mark, ...]] = Replica(
            "punctuation", punctuator.punctuate, policy=BatchPolicy(), on_step=lambda report: None
        )
        punctuation = Punctuation(punctuator, marks)
    rest = fake_models(recognizer)
    return Models(rest.vad, rest.vad_replica, rest.recognition.current, FirstPass(streams, replica), punctuation)


class HeardRecognizer(FakeRecognizer):
    """The fake, which keeps its batches and, while the gate is shut, stands still in the step it is in."""

    def __init__(self) -> None:
        super().__init__()
        self.batches: list[list[SegmentRequest]] = []
        self.gate = threading.Event()
        self.gate.set()
        self._entered = threading.Semaphore(0)

    def recognize(self, batch: Sequence[SegmentRequest]) -> list[Hypothesis]:
        self.batches.append(list(batch))
        self._entered.release()
        self.gate.wait()
        return super().recognize(batch)

    @property
    def requests(self) -> list[SegmentRequest]:
        return [request for batch in self.batches for request in batch]

    async def entered(self) -> None:
        """Returns when one more step has begun."""
        await asyncio.to_thread(self._entered.acquire)


@dataclass
class Recorder:
    """A worker's observer that keeps what it is told."""

    facts: list[tuple[str, tuple[object, ...]]] = field(default_factory=list)

    def __getattr__(self, name: str) -> Callable[..., None]:
        return lambda *arguments: self.facts.append((name, arguments))

    def of(self, name: str) -> list[tuple[object, ...]]:
        return [arguments for fact, arguments in self.facts if fact == name]


class _WatchedBus(MemoryBus):
    """Tells when something was settled."""

    def __init__(self, max_backlog_s: float, changed: asyncio.Event) -> None:
        super().__init__(max_backlog_s)
        self.max_backlog_s = max_backlog_s
        self._changed = changed

    def settle(self, session_id: SessionId, size_bytes: int) -> None:
        super().settle(session_id, size_bytes)
        self._changed.set()


class Rig:
    """Speaks for the gateway: numbers the records, collects the events."""

    def __init__(
        self, bus: _WatchedBus, worker: Worker, models: Models, observer: Recorder, changed: asyncio.Event
    ) -> None:
        self.bus = bus
        self.worker = worker
        self.models = models
        self.observer = observer
        self.events: dict[str, list[WorkerEvent]] = defaultdict(list)
        self._next: dict[str, int] = defaultdict(int)
        self._backlog_bytes: dict[str, int] = {}
        self._changed = changed
        bus.attach_gateway(self._collect)

    def _collect(self, event: WorkerEvent) -> None:
        self.events[event.session_id].append(event)
        self._changed.set()

    def index(self, name: str) -> int:
        self._next[name] += 1
        return self._next[name] - 1

    async def open(
        self,
        name: str,
        options: SessionOptions | None = None,
        policy: TextPolicy = NO_POLICY,
        *,
        tenant: str = "default",
    ) -> None:
        options = options or SessionOptions()
        self._backlog_bytes[name] = int(self.bus.max_backlog_s * options.audio.bytes_per_second)
        opened = SessionOpened(SessionId(name), self.index(name), TenantId(tenant), TraceId("t"), options, policy)
        await self.bus.publish(opened)

    async def send(self, name: str, data: bytes, sizes: int | Iterable[int] = 1600) -> None:
        for packet in packets(data, sizes):
            index = self.index(name)
            await self.bus.publish(AudioChunk(SessionId(name), index, index - 1, packet))

    async def flush(self, name: str, marker: str) -> None:
        await self.bus.publish(FlushRequested(SessionId(name), self.index(name), marker))

    async def update(self, name: str, *phrases: str) -> None:
        hotwords = tuple(Hotword(phrase) for phrase in phrases)
        await self.bus.publish(HotwordsUpdated(SessionId(name), self.index(name), hotwords))

    async def end(self, name: str) -> None:
        await self.bus.publish(AudioEnded(SessionId(name), self.index(name)))

    async def abandon(self, name: str) -> None:
        await self.bus.publish(SessionAbandoned(SessionId(name), self.index(name)))

    async def until(self, name: str, is_it: Callable[[WorkerEvent], bool]) -> WorkerEvent:
        """The first event of a session that is meant."""
        while True:
            for event in self.events[name]:
                if is_it(event):
                    return event
            self._changed.clear()
            await self._changed.wait()

    async def heard(self, name: str) -> None:
        """Returns when the worker has processed all that was sent."""
        while not self.bus.room(SessionId(name), self._backlog_bytes[name]):
            self._changed.clear()
            await self._changed.wait()

    async def recognised(self) -> None:
        """Returns when all that was asked of the recogniser until now, drafts too, is answered and told."""
        await asyncio.sleep(0)
        nothing = SegmentRequest(np.zeros(0, np.float32))
        await self.models.recognition.current.stage.submit(nothing, priority=Priority.LOW, audio_s=0)
        await asyncio.sleep(0)

    async def over(self, name: str) -> WorkerEvent:
        return await self.until(name, lambda event: isinstance(event, Finished | Failed))

    async def flushed(self, name: str, marker: str) -> WorkerEvent:
        return await self.until(name, lambda event: isinstance(event, Flushed) and event.marker == marker)

    async def transcribe(
        self, name: str, data: bytes, options: SessionOptions | None = None, sizes: int | Iterable[int] = 1600
    ) -> list[Result]:
        """The finals of a whole session."""
        await self.open(name, options)
        await self.send(name, data, sizes)
        await self.end(name)
        last = await self.over(name)
        assert isinstance(last, Finished), last
        return self.finals(name)

    def results(self, name: str) -> list[Result]:
        """As a client is told them."""
        log = ResultLog(2**30)
        told = [log.add(event.result) for event in self.events[name] if isinstance(event, Recognised)]
        return [result for result in told if result is not None]

    def finals(self, name: str) -> list[Result]:
        return [result for result in self.results(name) if result.is_final]

    def partials(self, name: str) -> list[Result]:
        return [result for result in self.results(name) if not result.is_final]


@asynccontextmanager
async def rig(
    models: Models | None = None,
    *,
    max_backlog_s: float = MAX_BACKLOG_S,
    settings: WorkerSettings | None = None,
    transcripts: Transcripts | None = None,
    context_ttl_s: float = 0.0,
) -> AsyncIterator[Rig]:
    """A worker at work; at the end it is stopped, and every ledger must hold."""
    models = models or fake_models()
    models.start()
    changed = asyncio.Event()
    bus = _WatchedBus(max_backlog_s, changed)
    observer = Recorder()
    worker = Worker(bus, models, TEXT, settings or WorkerSettings(), observer, transcripts, context_ttl_s=context_ttl_s)
    running = asyncio.ensure_future(worker.run())
    try:
        yield Rig(bus, worker, models, observer, changed)
        bus.check_integrity()
    finally:
        running.cancel()
        with suppress(asyncio.CancelledError):
            await running
        await bus.close()
        models.close()


def random_sizes(seed: int, most: int = 8000) -> Iterable[int]:
    rng = random.Random(seed)
    while True:
        yield rng.randrange(1, most)


def said(results: Sequence[Result]) -> list[tuple[object, ...]]:
    """What must not depend on packet sizes, batch mates or timing."""
    return [
        (r.segment_id, r.channel, r.pass_, r.text, r.start_ms, r.end_ms, r.words, r.confidence, r.language)
        for r in results
    ]


TEXT = TextPipeline()
