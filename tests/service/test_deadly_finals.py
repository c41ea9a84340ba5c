"""A session of which a whole segment ends the worker that recognises it, once all of its records were processed."""

import asyncio
from pathlib import Path

import pytest

from streamscribe.client.errors import ServerError
from streamscribe.models.fake.recognizer import DEADLY
from tests.service.cluster_kit import cluster
from tests.service.kit import cut, session
from tests.service.test_cluster import SPEECH, settled

pytestmark = pytest.mark.timeout(420)

FEW_ENDS = 40
"""Four, where two on trial meet at one record; drafts come by the clock, at other records each time: 4 to 23 seen."""


async def test_a_session_whose_final_ends_workers_is_quarantined_after_a_few(tmp_path: Path) -> None:
    deadly = SPEECH[0][:64_000] + DEADLY * 4 + SPEECH[0][64_000:]
    with cluster(tmp_path) as running:
        gateway = running.gateway()
        worker = await asyncio.to_thread(running.worker)
        await asyncio.to_thread(settled, [worker])
        speaking = asyncio.create_task(session(gateway.websocket, cut(deadly, 3200)))
        ends = 0
        while not speaking.done():
            if worker.process.poll() is not None:
                ends += 1
                worker = await asyncio.to_thread(running.worker)
            await asyncio.sleep(0.1)
        with pytest.raises(ExceptionGroup) as failed:
            await speaking
        (error,) = failed.value.exceptions
        assert isinstance(error, ServerError)
        assert error.error.name == "quarantined"
        assert 2 <= ends <= FEW_ENDS
