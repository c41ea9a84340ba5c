"""A hot word that is no word, in a recording from outside the project, where that is at hand."""

import pytest

from streamscribe.bench.hearing import read
from streamscribe.client.local_server import RunningServer
from streamscribe.client.native import NativeClient
from streamscribe.wire.native_client import StartMessage
from streamscribe.wire.native_server import ResultMessage
from tests.service.conftest import shared_audio

pytestmark = [pytest.mark.models, pytest.mark.timeout(120)]

if shared_audio() is not None:

    @pytest.mark.parametrize(("hotwords", "written"), [(["ComfyUI"], 2), ([], 0)])
    async def test_a_made_up_name_is_written_as_the_session_lists_it(
        hotwords: list[str], written: int, server: RunningServer
    ) -> None:
        folder = shared_audio()
        assert folder is not None
        pcm = (await read(folder / "en-hotword.mp3")).tobytes()
        async with NativeClient(server.address.websocket, start=StartMessage(hotwords=hotwords)) as client:
            await client.send(pcm)
            await client.end()
            finals = [m.text async for m in client if isinstance(m, ResultMessage) and m.is_final]
        assert " ".join(finals).count("ComfyUI") == written
