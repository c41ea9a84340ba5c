"""FunASR's clients at a whole server: each shows the text that was spoken, on both ports and in every mode."""

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest
import soundfile

from streamscribe.client.local_server import RunningServer
from tests.audio.files import make
from tests.fakes import funasr_clients as clients
from tests.fakes import funasr_third_party as third_party
from tests.fakes.funasr_client import Client, Recording
from tests.fakes.funasr_socket import converse
from tests.service.kit import RATE, cut, finals_of, noise_speech, session, spoken, wav

pytestmark = pytest.mark.timeout(120)

MODELS: dict[str, Callable[[Recording], Client]] = {
    "html5 2pass": lambda spoken: clients.Html5("2pass", spoken),
    "html5 online": lambda spoken: clients.Html5("online", spoken),
    "html5 offline": lambda spoken: clients.Html5("offline", spoken),
    "html5 file": lambda spoken: clients.Html5("2pass", spoken, file=True),
    "python 2pass": lambda spoken: clients.PythonClient("2pass", spoken, asks_ack=False),
    "python online, with an ack": lambda spoken: clients.PythonClient("online", spoken, asks_ack=True),
    "python offline, with an ack": lambda spoken: clients.PythonClient("offline", spoken, asks_ack=True),
    "funasr_api": clients.FunasrApi,
    "c++ offline": lambda spoken: clients.CppOffline([spoken]),
    "java 2pass": lambda spoken: clients.Java("2pass", spoken),
    "java offline": lambda spoken: clients.Java("offline", spoken),
    "c# online": clients.CsharpOnline,
    "c# online, a file": lambda spoken: clients.CsharpOnline(spoken, file=True),
    "go": clients.Go,
    "android": clients.Android,
    "xiaozhi": third_party.Xiaozhi,
    "funasr-client": lambda spoken: third_party.FunasrClientPypi("2pass", spoken),
}


def recording(pcm: bytes, rate: int = RATE) -> Recording:
    """The samples, and the WAV file of them."""
    return Recording(pcm, wav(pcm, rate), rate=rate)


def recorded(path: Path) -> Recording:
    samples, rate = soundfile.read(path)
    return recording((samples * 32767).astype("<i2").tobytes(), rate)


def urls(server: RunningServer) -> list[str]:
    assert server.address.funasr is not None
    return [f"{server.address.funasr}/", f"{server.address.http.replace('http', 'ws', 1)}/"]


SPOKEN = recording(noise_speech(3000, bursts=2))


@pytest.fixture(scope="module")
def expected(fake_server: RunningServer) -> str:
    """What a native client is told of the same audio."""
    heard = asyncio.run(session(fake_server.address.websocket, cut(SPOKEN.pcm, 32_000)))
    return " ".join(final.text for final in finals_of(heard))


@pytest.mark.parametrize("name", MODELS)
async def test_each_client_shows_the_whole_text_once(name: str, fake_server: RunningServer, expected: str) -> None:
    for url in urls(fake_server):
        client = MODELS[name](SPOKEN)
        await converse(client, url)
        if "online" in name and "c#" not in name:  # whose increments stay as they were, before capitals
            assert client.shown.lower() == expected.lower()
        else:
            assert client.shown == expected
        assert [m["is_final"] for m in client.answers if not m.get("is_end")].count(True) == 1


async def test_the_client_that_shows_only_the_last_message_ends_with_the_last_sentence(
    fake_server: RunningServer, expected: str
) -> None:
    client = clients.FunasrClientApi(SPOKEN)
    await converse(client, urls(fake_server)[0])
    assert client.shown
    assert expected.endswith(client.shown.strip())


async def test_the_cpp_client_is_told_all_before_it_closes(fake_server: RunningServer, expected: str) -> None:
    for mode in ("2pass", "online", "offline"):
        client = clients.Cpp2Pass(mode, SPOKEN)
        await converse(client, urls(fake_server)[0])
        kind = {"2pass": "2pass-offline", "online": "2pass-online", "offline": "offline"}[mode]
        text = "".join(m["text"] for m in client.answers if m["mode"] == kind)
        assert (text.lower() if mode == "online" else text) == (expected.lower() if mode == "online" else expected)


async def test_many_files_on_one_connection_get_an_answer_each(fake_server: RunningServer, expected: str) -> None:
    others = [recording(noise_speech(3001 + number, bursts=1)) for number in range(3)]
    client = clients.CppOffline([SPOKEN, *others, SPOKEN])
    await converse(client, urls(fake_server)[0])
    assert client.replies[0] == client.replies[-1] == expected
    assert len(set(client.replies)) == 4


@pytest.mark.parametrize("kind", ["mp3", "m4a"])
async def test_a_file_that_is_not_pcm_is_decoded(kind: str, fake_server: RunningServer, tmp_path: Path) -> None:
    file = Recording(b"", make(tmp_path, kind).read_bytes(), kind)
    for client in (clients.Html5("2pass", file, file=True), clients.PythonClient("offline", file, asks_ack=True)):
        await converse(client, urls(fake_server)[0])
        assert client.shown


@pytest.mark.models
async def test_chinese_is_right_for_the_strictest_client(server: RunningServer, recordings: dict[str, Path]) -> None:
    client = clients.CsharpOffline(recorded(recordings["zh/nihao_shijie.wav"]))
    await converse(client, urls(server)[0])
    assert spoken(client.shown) == spoken(recordings["zh/nihao_shijie.txt"].read_text())


@pytest.mark.models
@pytest.mark.parametrize("mode", ["2pass", "online", "offline"])
async def test_english_is_right_in_every_mode(mode: str, server: RunningServer, recordings: dict[str, Path]) -> None:
    client = clients.Html5(mode, recorded(recordings["en/quick_brown_fox.wav"]))
    await converse(client, urls(server)[1])
    assert spoken(client.shown) == spoken(recordings["en/quick_brown_fox.txt"].read_text())
