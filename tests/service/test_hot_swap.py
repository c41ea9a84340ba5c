"""Models are replaced in a whole server while people speak: nothing is lost, and nobody notices."""

import asyncio
import shutil
import signal
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import yaml

from streamscribe.bench.recordings import recordings
from streamscribe.client.local_server import LocalServer, RunningServer
from streamscribe.client.native import NativeClient
from streamscribe.wire.native_client import StartMessage
from streamscribe.wire.native_server import ResultMessage, ServerWire
from tests.models.tiny import BUNDLED
from tests.service.conftest import EVERYBODY
from tests.service.kit import RATE, cut, figure, spoken

pytestmark = pytest.mark.timeout(180)

STREAMS = 20
PACKET_S = 0.1
ROLES = {"recognizer": "tiny-paraformer", "first-pass": "tiny-paraformer-streaming"}


class Swapped:
    """A server of the tiny models whose folders are the test's."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.config = folder / "streamscribe.yaml"
        self.server: RunningServer | None = None
        self.version = 0
        self.name({})

    def name(self, folders: dict[str, Path]) -> None:
        told = {model_id: str(path) for model_id, path in folders.items()}
        self.config.write_text(yaml.safe_dump({"model": {"profile": "tiny", "folders": told}}))

    def copies(self) -> dict[str, Path]:
        """Another version of both passes: the same files and one more."""
        self.version += 1
        told = {}
        for model_id in ROLES.values():
            told[model_id] = self.folder / f"{model_id}-{self.version}"
            shutil.copytree(BUNDLED / model_id, told[model_id])
            (told[model_id] / "version").write_text(str(self.version))
        return told

    @property
    def running(self) -> RunningServer:
        assert self.server is not None
        return self.server

    async def hang_up(self) -> None:
        self.running.process.send_signal(signal.SIGHUP)

    async def until(self, swaps: float, result: str = "done") -> None:
        while await counted(self.running, result) < swaps:
            await asyncio.sleep(0.1)


async def counted(server: RunningServer, result: str) -> float:
    """Swaps that ended so, of all roles."""
    return sum([await figure(server, f'streamscribe_model_swaps_total{{result="{result}",role="{r}"}}') for r in ROLES])


@pytest.fixture
def swapped(tmp_path: Path) -> Iterator[Swapped]:
    told = Swapped(tmp_path)
    with LocalServer(["--config", str(told.config), *EVERYBODY]) as running:
        told.server = running
        yield told


@pytest.fixture(scope="module")
def speech() -> tuple[list[str], bytes]:
    """Sentences with rests between them, and what is said in each."""
    silence = np.zeros(RATE, np.int16)
    told = [one for one in recordings("paused") if not set(one.text) & set("零一二三四五六七八九")][:4]
    joined = [piece for one in told for piece in (one.samples, silence)]
    return [text for one in told for text in one.text.split()], np.concatenate([silence, *joined]).tobytes()


async def speak(server: RunningServer, pcm: bytes, said: asyncio.Event) -> list[ServerWire]:
    """A client that speaks again and again, in real time, until `said` is set; all that it hears."""
    async with NativeClient(server.address.websocket, start=StartMessage()) as client, asyncio.TaskGroup() as tasks:

        async def talk() -> None:
            while True:
                for packet in cut(pcm, int(PACKET_S * RATE) * 2):
                    await client.send(packet)
                    await asyncio.sleep(PACKET_S)
                if said.is_set():
                    break
            await client.end()

        tasks.create_task(talk())
        return [message async for message in client]


def check(messages: list[ServerWire], sentences: list[str]) -> None:
    """Each sentence has one final of each pass, with its words."""
    finals = [m for m in messages if isinstance(m, ResultMessage) and m.is_final]
    assert set(Counter((m.segment_id, m.pass_) for m in finals).values()) == {1}
    for pass_ in (1, 2):
        heard = [spoken(m.text) for m in finals if m.pass_ == pass_]
        assert len(heard) % len(sentences) == 0
        assert heard == [[sentence] for sentence in sentences] * (len(heard) // len(sentences))


async def test_both_passes_are_replaced_twice_under_twenty_streams(
    swapped: Swapped, speech: tuple[list[str], bytes]
) -> None:
    sentences, pcm = speech
    said = asyncio.Event()
    before = swapped.running.memory_bytes()
    talks = [asyncio.create_task(speak(swapped.running, pcm, said)) for _ in range(STREAMS)]
    for turn in (1, 2):
        await asyncio.sleep(2)
        swapped.name(swapped.copies())
        await swapped.hang_up()
        await swapped.until(2 * turn)
    said.set()
    for talk in talks:
        check(await talk, sentences)
    assert swapped.running.memory_bytes("VmHWM") < 2 * before


async def test_a_damaged_model_is_not_taken_and_the_one_that_serves_goes_on(
    swapped: Swapped, speech: tuple[list[str], bytes]
) -> None:
    sentences, pcm = speech
    folders = swapped.copies()
    for folder in folders.values():
        for graph in folder.glob("*.onnx"):
            graph.write_bytes(graph.read_bytes()[:-1000])
    swapped.name(folders)
    await swapped.hang_up()
    await swapped.until(2, "damaged")
    said = asyncio.Event()
    said.set()
    check(await speak(swapped.running, pcm, said), sentences)
