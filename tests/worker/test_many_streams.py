"""Many streams in one model hear what each hears alone, and leave nothing behind."""

import asyncio
import random

from streamscribe.core.options import Mode, SessionOptions
from tests.worker.kit import HeardStreams, Rig, random_sizes, rig, said, speech, two_pass_models
from tests.worker.passes import ONLINE, TWO_PASS, check_law_3, of_pass


async def test_two_hundred_sessions_of_which_half_leave_hear_what_each_hears_alone() -> None:
    rng = random.Random(1)
    streams = HeardStreams()
    audio = {
        f"s{seed}": speech(seed, *(rng.randrange(400, 2000, 10) for _ in range(rng.randrange(1, 3))), pause_ms=900)
        for seed in range(200)
    }
    async with rig(two_pass_models(streams)) as worker:

        async def client(name: str, seed: int) -> None:
            rng = random.Random(seed)
            await worker.open(name, SessionOptions(mode=rng.choice([Mode.ONLINE, Mode.TWO_PASS])))
            leaves = len(audio[name]) if seed % 2 else rng.randrange(len(audio[name])) // 2 * 2
            sizes = random_sizes(seed, 20_000)
            at = 0
            while at < leaves:
                size = 2 * next(iter(sizes))
                await worker.send(name, audio[name][at : min(at + size, leaves)], 100_000)
                at += size
                for _ in range(rng.randrange(3)):
                    await asyncio.sleep(0)
            if seed % 2:
                await worker.end(name)
                await worker.over(name)
            else:
                await worker.abandon(name)

        await asyncio.gather(*(client(name, seed) for seed, name in enumerate(audio)))
        worker.worker.check_integrity()
        assert worker.worker.sessions == 0
        for name in audio:
            check_law_3(worker.results(name))
        for name in random.Random(2).sample(sorted(audio), 40):
            if int(name[1:]) % 2:
                await alone(worker, name, audio[name])
        await nothing_left(worker, streams)


async def alone(worker: Rig, name: str, audio: bytes) -> None:
    await worker.transcribe(f"alone-{name}", audio, TWO_PASS)
    once = worker.results(f"alone-{name}")
    for pass_ in {result.pass_ for result in worker.finals(name)}:
        together = [result[3:6] for result in said(of_pass(worker.results(name), pass_))]
        assert together == [result[3:6] for result in said(of_pass(once, pass_))]


async def nothing_left(worker: Rig, streams: HeardStreams) -> None:
    """Returns when all that ran for those who left has come back, and nothing holds a stream's state."""
    assert worker.models.first_pass is not None
    while worker.models.first_pass.replica.population or worker.models.first_pass.replica.inflight:
        await asyncio.sleep(0)
    await worker.transcribe("last", speech(999, 700), ONLINE)
    streams.chunks.clear()
    while streams.alive():
        await asyncio.sleep(0)
