"""A server that stands still for longer than it waits for anybody: its sessions go on when it does."""

import asyncio
import signal
from collections.abc import Iterator

import pytest

from streamscribe.client.local_server import LocalServer, RunningServer
from streamscribe.client.native import NativeClient
from streamscribe.core.options import Mode
from streamscribe.wire.native_client import StartMessage
from streamscribe.wire.native_server import ServerWire
from tests.service.conftest import EVERYBODY
from tests.service.kit import cut, figure, finals_of, noise_speech, session

pytestmark = pytest.mark.timeout(120)

PATIENCE_S = 2.0
LIMITS = ("idle_timeout_s", "resume_window_s", "finalize_timeout_s")
PACKETS = list(cut(noise_speech(1000), 6400))


@pytest.fixture(scope="module")
def impatient_server() -> Iterator[RunningServer]:
    """A server that waits for nobody for long."""
    limits = [word for name in LIMITS for word in ("--set", f"limits.{name}={PATIENCE_S}")]
    with LocalServer(["--profile", "fake", *limits, *EVERYBODY]) as running:
        yield running


@pytest.mark.parametrize("moment", ["while it speaks", "while it is away", "and says all at once"])
async def test_a_session_goes_on_at_a_server_that_was_frozen_and_its_text_is_whole(
    impatient_server: RunningServer, moment: str
) -> None:
    url, start = impatient_server.address.websocket, StartMessage(mode=Mode.OFFLINE)
    expected = finals_of(await session(url, PACKETS, mode=Mode.OFFLINE))
    assert len(expected) == 3
    heard: list[ServerWire] = []
    async with NativeClient(url, start=start) as client:
        for packet in PACKETS[:10]:
            await client.send(packet)
        while not await figure(impatient_server, "funasr_active_streams"):
            await asyncio.sleep(0.02)
        if moment == "while it is away":
            client.drop_connection()
            await asyncio.sleep(0.2)
        impatient_server.process.send_signal(signal.SIGSTOP)
        frozen = asyncio.get_running_loop().time()
        speaking = asyncio.create_task(_speak(client, moment))
        await asyncio.sleep(PATIENCE_S + 1.5 - (asyncio.get_running_loop().time() - frozen))
        impatient_server.process.send_signal(signal.SIGCONT)
        heard = [message async for message in client]
        await speaking
    assert finals_of(heard) == expected


async def _speak(client: NativeClient, moment: str) -> None:
    for packet in PACKETS[10:]:
        await client.send(packet)
        await asyncio.sleep(0 if moment == "and says all at once" else 0.05)
    await client.end()
