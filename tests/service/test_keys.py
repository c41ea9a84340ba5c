"""A server that strangers can reach: keys in every way that they come, quotas, and no start without either."""

import asyncio
import json
import subprocess
import sys
from contextlib import AsyncExitStack
from typing import Any

import httpx
import pytest
from websockets.asyncio.client import connect
from websockets.exceptions import InvalidStatus
from websockets.typing import Subprotocol

from streamscribe.client.errors import ServerError
from streamscribe.client.native import NativeClient
from streamscribe.control.keys import new_key, revoke_key
from tests.service.conftest import Keyed
from tests.service.kit import END, cut, ending, finals_of, noise_speech, session, told, wav

pytestmark = pytest.mark.timeout(60)

SPEECH = noise_speech(6000, bursts=1)
ROUTES = [
    ("GET", "/v1/models"),
    ("GET", "/v1/models/whisper-1"),
    ("POST", "/v1/audio/transcriptions"),
    ("POST", "/v1/audio/translations"),
    ("GET", "/v1/nothing"),
    ("GET", "/nothing"),
    ("GET", "/ws/asr"),
]
PUBLIC = ["/", "/healthz", "/readyz", "/version", "/assets/js/app.js"]


def bearer(key: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {key}"}


def websockets_of(keyed: Keyed) -> list[str]:
    http = keyed.server.address.http.replace("http", "ws", 1)
    return [f"{http}/ws/asr", f"{http}/", f"{keyed.server.address.funasr}/", f"{keyed.server.address.funasr}/any"]


@pytest.mark.parametrize("headers", [{}, bearer("ss_000000000000_x"), {"Authorization": "Basic YTpi"}])
async def test_without_a_valid_key_everything_but_the_public_is_401(headers: dict[str, str], keyed: Keyed) -> None:
    async with httpx.AsyncClient(base_url=keyed.server.address.http, headers=headers, timeout=None) as http:
        for method, path in ROUTES:
            answer = await http.request(method, path)
            assert (answer.status_code, answer.json()["error"]["code"]) == (401, "unauthenticated"), path
        for path in PUBLIC:
            assert (await http.get(path)).status_code == 200, path
    for url in websockets_of(keyed):
        with pytest.raises(InvalidStatus) as refused:
            await connect(url, additional_headers=headers)
        assert refused.value.response.status_code == 401


async def test_a_key_works_as_header_parameter_and_subprotocol(keyed: Keyed) -> None:
    page = [Subprotocol("streamscribe"), Subprotocol(f"streamscribe.key.{keyed.acme}")]
    ways: list[tuple[str, dict[str, Any]]] = [
        ("", {"additional_headers": bearer(keyed.acme)}),
        (f"?token={keyed.acme}", {}),
        ("", {"subprotocols": page}),
    ]
    for query, options in ways:
        async with connect(f"{keyed.server.address.websocket}{query}", compression=None, **options) as socket:
            assert (await told(socket, "connected"))["user_id"] == "acme"
            await socket.send(SPEECH)
            await socket.send(END)
            said, code, _ = await ending(socket)
            assert code == 1000
            assert [message["text"] for message in said if message.get("is_final")]
    for url in websockets_of(keyed)[1:]:
        async with connect(url, compression=None, additional_headers={"Authorization": f"Bearer; {keyed.acme}"}) as old:
            await old.send(json.dumps({"mode": "offline", "is_speaking": True, "wav_name": "a"}))
            await old.send(SPEECH)
            await old.send('{"is_speaking": false}')
            assert json.loads(await old.recv())["text"]


async def test_the_rest_api_takes_the_key_as_the_sdk_sends_it(keyed: Keyed) -> None:
    async with httpx.AsyncClient(base_url=keyed.server.address.http, headers=bearer(keyed.acme), timeout=None) as http:
        answer = await http.post("/v1/audio/transcriptions", files={"file": ("a.wav", wav(SPEECH))})
        assert answer.json()["text"]


async def test_a_revoked_key_is_refused_within_seconds_and_a_new_one_let_in(keyed: Keyed) -> None:
    key = new_key(keyed.tenants_file, "passing")
    async with httpx.AsyncClient(base_url=keyed.server.address.http, headers=bearer(key), timeout=None) as http:

        async def until(status: int) -> None:
            async with asyncio.timeout(15):
                while (await http.get("/v1/models")).status_code != status:
                    await asyncio.sleep(0.1)

        await until(200)
        async with connect(
            keyed.server.address.websocket, additional_headers=bearer(key), compression=None
        ) as open_one:
            await told(open_one, "connected")
            revoke_key(keyed.tenants_file, key.split("_")[1])
            await until(401)
            await open_one.send(END)  # what is open goes on
            assert (await ending(open_one))[1] == 1000
    assert finals_of(await session(keyed.server.address.websocket, cut(SPEECH, 6400), key=keyed.other))


async def test_the_session_over_the_quota_is_refused_as_429_and_frees_come_back(keyed: Keyed) -> None:
    url, headers = keyed.server.address.websocket, bearer(keyed.acme)
    async with AsyncExitStack() as held:
        for _ in range(3):
            socket = await held.enter_async_context(connect(url, additional_headers=headers, compression=None))
            await told(socket, "connected")
        async with connect(url, additional_headers=headers, compression=None) as fourth:
            said, code, reason = await ending(fourth)
        assert len(said) == 1
        assert said[0].items() >= {"code": 429, "message": "tenant session quota exceeded"}.items()
        assert (said[0]["name"], said[0]["retry"]) == ("quota_exceeded", "after")
        assert (code, reason) == (4429, "tenant session quota exceeded")
        with pytest.raises(ServerError, match="quota"):
            async with NativeClient(url, key=keyed.acme):
                pass
        async with httpx.AsyncClient(base_url=keyed.server.address.http, headers=headers, timeout=None) as http:
            answer = await http.post("/v1/audio/transcriptions", files={"file": ("a.wav", wav(SPEECH))})
        assert (answer.status_code, answer.json()["error"]["code"]) == (429, "quota_exceeded")
        assert int(answer.headers["Retry-After"]) > 0
        async with connect(f"{keyed.server.address.funasr}/", additional_headers=headers, compression=None) as funasr:
            said, code, _ = await ending(funasr)
        assert said[-1]["error"]["code"] == "quota_exceeded"
        assert code == 4429
        assert finals_of(await session(url, cut(SPEECH, 6400), key=keyed.other))
    assert finals_of(await session(url, cut(SPEECH, 6400), key=keyed.acme))


def test_a_server_that_listens_on_all_addresses_gives_a_url_that_a_client_can_open(keyed: Keyed) -> None:
    assert keyed.server.address.http.startswith("http://127.0.0.1:")


@pytest.mark.parametrize(
    ("flags", "told_of"),
    [
        (["--host", "0.0.0.0"], "gateway.host"),
        (["--host", "::"], "gateway.host"),
        (["--host", "0.0.0.0", "--tenants", "missing.yaml"], "missing.yaml"),
        (["--no-auth", "--tenants", "missing.yaml"], "gateway.no_auth"),
    ],
)
def test_a_server_for_strangers_without_keys_does_not_start(flags: list[str], told_of: str) -> None:
    command = [sys.executable, "-m", "streamscribe.cli", "serve", "--profile", "fake", "--port", "0", *flags]
    done = subprocess.run([*command, "--funasr-port", "0"], capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (2, "")
    assert len(done.stderr.splitlines()) == 1
    assert told_of in done.stderr
