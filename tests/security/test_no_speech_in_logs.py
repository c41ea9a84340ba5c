"""Law 10 at a whole server: nothing that was said, asked for or named reaches logs, metrics or errors."""

import asyncio
import json
import signal
from pathlib import Path

import httpx
import pytest
from websockets.asyncio.client import connect
from websockets.exceptions import InvalidStatus
from websockets.typing import Subprotocol

from streamscribe.bench.hearing import SILENCE, read
from streamscribe.bench.recordings import named
from streamscribe.client.local_server import LocalServer
from streamscribe.client.native import NativeClient
from streamscribe.control.keys import new_key
from streamscribe.models.fake.recognizer import POISON
from streamscribe.wire.native_client import StartMessage
from streamscribe.wire.native_server import ResultMessage
from tests.service.conftest import EVERYBODY
from tests.service.kit import END, ending, finals_of, noise_speech, session, told, wav

pytestmark = pytest.mark.timeout(60)

CANARY = "kanarienvogel"
SPEECH = noise_speech(7000, bursts=2)
POISONED = SPEECH[:48_000] + POISON + SPEECH[48_000:]


async def test_a_canary_is_found_nowhere(tmp_path: Path) -> None:
    tenants = tmp_path / f"{CANARY}.yaml"
    key = new_key(tenants, "acme")
    secret = key.split("_", 2)[2]
    bearer = {"Authorization": f"Bearer {key}"}
    bodies: list[str] = []

    with (tmp_path / "stderr").open("w") as log:
        # those who left without an end are waited for until the drain's deadline
        quick = ["--set", "observe.log_level=debug", "--set", "gateway.drain_timeout_s=2"]
        flags = ["--profile", "fake", "--tenants", str(tenants), *quick, *EVERYBODY]
        with LocalServer(flags, log=log) as server:
            url, http_url = server.address.websocket, server.address.http
            texts = [final.text for final in finals_of(await session(url, [SPEECH], key=key))]
            words = {word for text in texts for word in text.split()}
            assert len(words) >= 6

            # a whole session with a hot word, by each way that a key comes in
            page = [Subprotocol("streamscribe"), Subprotocol(f"streamscribe.key.{key}")]
            async with connect(
                f"{url}?hotwords={CANARY}&session_id={CANARY}", subprotocols=page, compression=None
            ) as ws:
                await told(ws, "connected")
                await ws.send(json.dumps({"type": "start", "hotwords": [{"phrase": CANARY}]}))
                await ws.send(SPEECH)
                await ws.send(json.dumps({"type": "update", "hotwords": CANARY}))
                await ws.send(json.dumps({"type": "flush", "marker": CANARY}))
                await ws.send(END)
                assert (await ending(ws))[1] == 1000

            # errors of all kinds, which must not give back what they refuse
            wrong = (
                {"type": CANARY},
                {"type": "start", "language": CANARY},
                {"type": "start", "audio": {"encoding": CANARY}},
                {"type": "start", "hotwords": [{"phrase": CANARY, "weight": CANARY}]},
                {"type": "resume", "session_id": CANARY, "resume_token": CANARY},
            )
            for message in wrong:
                async with connect(f"{url}?token={key}&hotwords={CANARY}", compression=None) as ws:
                    await told(ws, "connected")
                    await ws.send(json.dumps(message))
                    bodies.append(json.dumps(await told(ws, "error")))
            for query in (f"mode={CANARY}", f"language={CANARY}", f"session_id=%00{CANARY}", f"silence_ms={CANARY}"):
                async with connect(f"{url}?{query}", additional_headers=bearer, compression=None) as ws:
                    bodies.append(str(await ending(ws)))
            async with connect(url, additional_headers=bearer, compression=None) as ws:
                await ws.send(POISONED)  # the model raises on it
                await ws.send(END)
                said, code, reason = await ending(ws)
                assert (said[-1]["name"], code) == ("internal", 1011)
                bodies.append(f"{said[-1]} {reason}")
            async with connect(f"{server.address.funasr}/{CANARY}", additional_headers=bearer, compression=None) as ws:
                await ws.send(json.dumps({"mode": "2pass", "wav_name": "a", "hotwords": 7 * [CANARY], "itn": CANARY}))
                await ws.send("{" + CANARY)
                said, _, reason = await ending(ws)
                bodies.append(f"{said[-1]['error']} {reason}")
            with pytest.raises(InvalidStatus) as refused:
                await connect(f"{url}?token={key}x&hotwords={CANARY}")
            bodies.append((refused.value.response.body or b"").decode())

            async with httpx.AsyncClient(base_url=http_url, headers=bearer, timeout=None) as http:

                async def post(name: str, data: bytes, **fields: str) -> httpx.Response:
                    return await http.post("/v1/audio/transcriptions", files={"file": (name, data)}, data=fields)

                good = await post(f"{CANARY}.wav", wav(SPEECH), prompt=CANARY)
                assert set(good.json()["text"].split()) == words
                for answer in (
                    await post(f"{CANARY}.wav", CANARY.encode()),
                    await post(f"{CANARY}.wav", wav(SPEECH), language=CANARY),
                    await post(f"{CANARY}.wav", wav(SPEECH), model=CANARY),
                    await post(f"{CANARY}.wav", wav(SPEECH), response_format=CANARY),
                    await post(f"{CANARY}.wav", wav(POISONED)),
                    await http.get(f"/{CANARY}?{CANARY}={CANARY}"),
                    await http.get(f"/v1/models/{CANARY}"),
                    await http.request("BREW", f"/v1/models?token={key}"),
                ):
                    assert answer.status_code >= 400
                    bodies.append(answer.text)
                metrics = (await http.get("/metrics")).text
            server.process.send_signal(signal.SIGTERM)
            stdout, _ = await asyncio.to_thread(server.process.communicate)

    told_to_operators = (tmp_path / "stderr").read_text() + stdout + metrics
    assert "session opened" in told_to_operators
    for secret_thing in (secret, *words, *texts):
        assert secret_thing not in told_to_operators
        assert not [body for body in bodies if secret_thing in body]
    # the session id that a client chose is its own and may be logged; what else it said may not
    assert CANARY not in told_to_operators.replace(f'"session_id": "{CANARY}"', "")
    assert not [body for body in bodies if CANARY in body]


async def test_law_10_what_two_passes_heard_of_listed_names_is_in_no_log_and_no_metric(tmp_path: Path) -> None:
    clips = named()[:2]
    flags = ["--profile", "tiny", "--set", "observe.log_level=debug", *EVERYBODY]
    with (tmp_path / "stderr").open("w") as log, LocalServer(flags, log=log) as server:
        heard = []
        for clip in clips:
            start = StartMessage(hotwords=[clip.name], words=True)
            async with NativeClient(server.address.websocket, start=start) as client:
                await client.send((await read(clip.said.audio)).tobytes() + SILENCE.tobytes())
                await client.end()
                heard += [message async for message in client if isinstance(message, ResultMessage)]
        async with httpx.AsyncClient(timeout=None) as http:
            metrics = (await http.get(f"{server.address.http}/metrics")).text
    told_to_operators = (tmp_path / "stderr").read_text() + metrics
    assert "session opened" in told_to_operators
    assert {result.pass_ for result in heard if result.is_final} == {1, 2}
    assert all(clip.name in "".join(result.text for result in heard) for clip in clips)
    spoken = {char for result in heard for char in result.text if char > "\u2e80"}
    assert len(spoken) > 8
    assert not [char for char in spoken if char in told_to_operators]
