"""A session that ends one worker process after the other in a step for what was settled seconds ago."""

import asyncio

import pytest

from streamscribe.bench.worker_fleet import until_ready
from streamscribe.bus.local.trials import MOST_ENDS
from streamscribe.client.errors import ServerError
from streamscribe.models.fake.recognizer import DEADLY
from tests.service.fleet_kit import PACKET_BYTES, SPEECH, WORKERS, fleet
from tests.service.kit import cut, figure, session

pytestmark = pytest.mark.timeout(150)


async def test_a_session_whose_steps_end_workers_after_seconds_is_quarantined_after_a_few() -> None:
    """It takes longer than the whole replay of what was said."""
    deadly = SPEECH[0][:64_000] + DEADLY * 4 + SPEECH[0][64_000:]
    with fleet("model.fake_cost_ms=3000") as server:
        await until_ready(server, WORKERS)
        async with asyncio.timeout(120):
            with pytest.raises(ExceptionGroup) as failed:
                await session(server.address.websocket, cut(deadly, PACKET_BYTES))
        (error,) = failed.value.exceptions
        assert isinstance(error, ServerError)
        assert error.error.name == "quarantined"
        assert 2 <= await figure(server, "streamscribe_worker_ends_total") <= MOST_ENDS
