"""Many sessions in one process hear what each hears alone, though half of them leave, and nothing is left behind."""

import asyncio
import gc
import random
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field

import numpy as np
import pytest

from streamscribe.bench.listening import Ear
from streamscribe.bench.recordings import recordings
from streamscribe.bootstrap.models import load_models
from streamscribe.bus.memory import MemoryBus
from streamscribe.core.ids import TenantId
from streamscribe.core.messages import Audio, End
from streamscribe.core.options import Mode, SessionOptions
from streamscribe.core.results import Result
from streamscribe.gateway.door import OpenDoor
from streamscribe.gateway.hub import Hub
from streamscribe.models.pool import Models
from streamscribe.models.ports import VadOptions
from streamscribe.observe.metrics import Metrics
from streamscribe.ports import Tenant
from streamscribe.settings import LimitSettings, ModelSettings, WorkerSettings
from streamscribe.worker.runner import Worker
from tests.worker.kit import MAX_BACKLOG_S, TEXT, HeardStreams, random_sizes, silence, speech, two_pass_models
from tests.worker.passes import TWO_PASS, check_law_3, of_pass

pytestmark = pytest.mark.timeout(300)

UNPACED = LimitSettings(max_rate=1000, burst_s=600, max_burst_s=3600, max_chunks_per_s=100_000)
TENANT = Tenant(TenantId("t"), UNPACED.max_sessions)


@dataclass
class Platform:
    """Gateway sessions, a bus, a worker and models; no socket."""

    hub: Hub
    worker: Worker
    bus: MemoryBus
    models: Models
    heard: dict[str, list[Result]] = field(default_factory=dict)

    async def session(
        self, name: str, audio: bytes, options: SessionOptions, *, leaves: int | None = None, seed: int = 0
    ) -> None:
        """Speaks to the end, or so many bytes and goes; packets and pauses are of the seed."""
        ear, rng, sizes = Ear(), random.Random(seed), iter(random_sizes(seed, 20_000))
        live = self.hub.open(TENANT, options, ear)
        at, until = 0, len(audio) if leaves is None else leaves
        while at < until:
            packet = audio[at : min(at + 2 * next(sizes), until)]
            await live.receive(Audio(packet))
            at += len(packet)
            for _ in range(rng.randrange(3)):
                await asyncio.sleep(0)
        if leaves is None:
            await live.receive(End())
            await ear.over.wait()
            assert ear.error is None
        else:
            live.abandon()
        self.heard[name] = [sent.result for sent in ear.results]

    async def nothing_is_left(self) -> None:
        """Returns when no part holds anything of a session: the ledgers are empty, and no model's state is alive."""
        await self.hub.wait_empty()
        while self.worker.sessions or any(one.population or one.inflight for one in self.models.replicas):
            await asyncio.sleep(0.001)
        for ledger in (self.hub, self.worker, self.bus):
            ledger.check_integrity()
        assert len(self.hub) == 0
        assert self.models.first_pass is not None
        recognizer = self.models.first_pass.current.recognizer
        if isinstance(recognizer, HeardStreams):
            recognizer.chunks.clear()
        kinds = (type(recognizer.open(recognizer.chunk_choices_ms[0])), type(self.models.vad.open(VadOptions())))
        # By type: a dead proxy, as PyTorch leaves them, raises where it is asked for its class.
        while any(issubclass(type(thing), kinds) for thing in gc.get_objects()):
            gc.collect()
            await asyncio.sleep(0.01)


@asynccontextmanager
async def platform(models: Models) -> AsyncIterator[Platform]:
    models.start()
    await asyncio.to_thread(models.wait_ready)
    bus = MemoryBus(MAX_BACKLOG_S)
    metrics = Metrics()
    hub = Hub(bus, UNPACED, metrics, OpenDoor())
    worker = Worker(bus, models, TEXT, WorkerSettings(), metrics)
    running = asyncio.ensure_future(worker.run())
    try:
        yield Platform(hub, worker, bus, models)
    finally:
        await hub.close()
        running.cancel()
        with suppress(asyncio.CancelledError):
            await running
        await bus.close()
        models.close()


def noise(rng: random.Random, seed: int) -> bytes:
    return speech(seed, *(rng.randrange(400, 2000, 10) for _ in range(rng.randrange(1, 3))), pause_ms=900)


def utterances(rng: random.Random, seed: int) -> bytes:
    """One or two recordings that the small models understand, not from their first samples on."""
    chosen = [recordings()[seed % 20], *rng.sample(recordings("paused"), rng.randrange(2))]
    return silence(100 + seed) + b"".join(one.samples.astype(np.int16).tobytes() + silence(900) for one in chosen)


@pytest.mark.parametrize(
    ("models", "count", "voice"),
    [
        pytest.param(two_pass_models, 200, noise, id="fake"),
        pytest.param(lambda: load_models(ModelSettings(profile="tiny")), 200, utterances, id="tiny"),
    ],
)
async def test_many_sessions_of_which_half_leave_hear_what_each_hears_alone(
    models: Callable[[], Models], count: int, voice: Callable[[random.Random, int], bytes]
) -> None:
    rng = random.Random(1)
    audio = {f"s{seed}": voice(rng, seed) for seed in range(count)}
    stay = list(audio)[1::2]
    async with platform(await asyncio.to_thread(models)) as together:
        async with asyncio.TaskGroup() as tasks:
            for seed, (name, pcm) in enumerate(audio.items()):
                options = SessionOptions(mode=rng.choice([Mode.ONLINE, Mode.TWO_PASS]))
                leaves = None if name in stay else rng.randrange(len(pcm)) // 2 * 2
                tasks.create_task(together.session(name, pcm, options, leaves=leaves, seed=seed))
        await together.nothing_is_left()
        for results in together.heard.values():
            check_law_3(results)
        for name in stay:
            await together.session(f"alone-{name}", audio[name], TWO_PASS)
            assert_same(together.heard[name], together.heard[f"alone-{name}"])
        await together.nothing_is_left()


def assert_same(results: Sequence[Result], alone: Sequence[Result]) -> None:
    """The finals of each pass that both have."""
    passes = {result.pass_ for result in results if result.is_final}
    assert passes
    for pass_ in passes:
        heard, once = (
            [(one.segment_id, one.text, one.start_ms, one.end_ms) for one in of_pass(which, pass_)]
            for which in (results, alone)
        )
        assert heard == once
