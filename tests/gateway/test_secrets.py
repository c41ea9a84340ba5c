"""What is spoken, typed or shown as a key stays out of every log line, metric and error body (law 10)."""

import io
import json
import logging
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
import structlog
from websockets.exceptions import InvalidStatus

from streamscribe.control.keys import new_key
from streamscribe.observe.logs import configure
from streamscribe.settings import ObserveSettings
from streamscribe.store.tenants import FileTenantStore
from tests.gateway.rig import closing, running, told

CANARY = "canary7f3a"


@pytest.fixture
def log() -> Iterator[io.StringIO]:
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    stream = io.StringIO()
    configure(ObserveSettings(log_level="debug"), stream)
    yield stream
    structlog.reset_defaults()
    root.handlers[:] = handlers
    root.setLevel(level)
    logging.getLogger("streamscribe").setLevel(logging.NOTSET)


async def test_law_10_no_canary_in_logs_metrics_or_error_bodies(log: io.StringIO, tmp_path: Path) -> None:
    key = new_key(tmp_path / "tenants.yaml", "acme")
    store = FileTenantStore(tmp_path / "tenants.yaml", default_max_sessions=5)
    bodies: list[str] = []
    async with running(store=store) as gateway, httpx.AsyncClient(timeout=None) as http:
        base = f"http://127.0.0.1:{gateway.port}"
        async with gateway.connect(f"/ws/asr?token={key}&hotwords={CANARY}") as socket:
            await socket.send(CANARY.encode())
            await told(socket, "result")
            await socket.send(json.dumps({"type": CANARY}))
            bodies.append(json.dumps(await told(socket, "error")))
        async with gateway.connect(f"/ws/asr?token={key}&mode={CANARY}") as socket:
            bodies.append(json.dumps(await told(socket, "error")))
            await closing(socket)
        async with gateway.connect(f"/?token={key}") as socket:
            await socket.send(json.dumps({"mode": "2pass", "wav_name": CANARY, "hotwords": f'{{"{CANARY}": 20}}'}))
            await socket.send(CANARY.encode())
            await socket.recv()
            await socket.send(json.dumps({"mode": ["x"], "wav_format": CANARY * 9}))
            await closing(socket)
        with pytest.raises(InvalidStatus):
            async with gateway.connect(f"/ws/asr?token={key}x{CANARY}"):
                pass
        paths = (f"/{CANARY}", f"/healthz?q={CANARY}", f"/v1/x?token={CANARY}")
        bodies += [(await http.get(base + path)).text for path in paths]
        bodies.append((await http.get(base + "/metrics", headers={"Authorization": f"Bearer {key}"})).text)
    text = log.getvalue()
    assert "session opened" in text
    for secret in (CANARY, key, key.split("_", 2)[2]):
        assert secret not in text
        assert not any(secret in body for body in bodies)
