"""Every FunASR client model over a real socket: each gets an end that it understands."""

from collections.abc import Callable

import pytest

from tests.conformance.test_funasr_clients import RECORDING
from tests.fakes import funasr_clients as clients
from tests.fakes import funasr_third_party as third_party
from tests.fakes.funasr_client import Client
from tests.fakes.funasr_socket import converse
from tests.gateway.rig import running

MODELS: dict[str, Callable[[], Client]] = {
    "html5 microphone": lambda: clients.Html5("2pass", RECORDING),
    "html5 file": lambda: clients.Html5("2pass", RECORDING, file=True),
    "python": lambda: clients.PythonClient("2pass", RECORDING, asks_ack=False),
    "python with an ack": lambda: clients.PythonClient("online", RECORDING, asks_ack=True),
    "client api": lambda: clients.FunasrClientApi(RECORDING),
    "funasr_api": lambda: clients.FunasrApi(RECORDING),
    "c++ 2pass": lambda: clients.Cpp2Pass("2pass", RECORDING),
    "c++ offline": lambda: clients.CppOffline([RECORDING] * 3),
    "java": lambda: clients.Java("offline", RECORDING),
    "c# online": lambda: clients.CsharpOnline(RECORDING),
    "c# online file": lambda: clients.CsharpOnline(RECORDING, file=True),
    "c# offline": lambda: clients.CsharpOffline(RECORDING),
    "go": lambda: clients.Go(RECORDING),
    "android": lambda: clients.Android(RECORDING),
    "xiaozhi": lambda: third_party.Xiaozhi(RECORDING),
    "funasr-client": lambda: third_party.FunasrClientPypi("2pass", RECORDING),
}


@pytest.mark.parametrize("name", MODELS)
async def test_each_client_ends_with_text(name: str) -> None:
    client = MODELS[name]()
    async with running() as gateway:
        await converse(client, f"ws://127.0.0.1:{gateway.funasr_port}/")
    assert any(message["text"] for message in client.answers)
