"""Sessions of two passes, and what their results must keep to."""

import asyncio
from collections.abc import Sequence

from streamscribe.core.options import Mode, SessionOptions
from streamscribe.core.results import Result
from streamscribe.core.rules import NO_POLICY, TextPolicy
from tests.worker.kit import Rig

TWO_PASS = SessionOptions(mode=Mode.TWO_PASS)
ONLINE = SessionOptions(mode=Mode.ONLINE)


async def play(worker: Rig, name: str, audio: bytes, options: SessionOptions, policy: TextPolicy = NO_POLICY) -> None:
    """A session of a live client: the next packet is sent when the chunks of the last one are answered and told."""
    first_pass = worker.models.first_pass
    assert first_pass is not None
    first = first_pass.current
    await worker.open(name, options, policy)
    for at in range(0, len(audio), 3200):
        await worker.send(name, audio[at : at + 3200])
        await worker.heard(name)
        for _ in range(3):
            await asyncio.sleep(0)
            while first.replica.inflight:
                await asyncio.sleep(0)
    await worker.end(name)
    await worker.over(name)


def of_pass(results: Sequence[Result], pass_: int) -> list[Result]:
    return [result for result in results if result.is_final and result.pass_ == pass_]


def check_law_3(results: Sequence[Result]) -> None:
    """Versions grow; finals of a pass in segment order; a second never before its first; no partial after a final."""
    versions = [result.version for result in results]
    assert versions == sorted(set(versions))
    passes: dict[int, int] = {}
    for result in results:
        if result.is_final:
            assert result.pass_ > passes.get(result.segment_id, 0)
            passes[result.segment_id] = result.pass_
        else:
            assert result.segment_id not in passes
