"""Health, metrics, the page, and the listener itself."""

import asyncio
import socket
import time
from collections.abc import AsyncIterator

import httpx
import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from streamscribe import __version__
from streamscribe.gateway.listener import Address, Binding, Listener, bound
from streamscribe.settings import GatewaySettings, LimitSettings, SettingsError
from tests.gateway.raw import hang_up
from tests.gateway.rig import Gateway, running, told

CHUNK = bytes([7]) + bytes(319)


@pytest.fixture
async def gateway() -> AsyncIterator[Gateway]:
    async with running() as gateway:
        yield gateway


@pytest.fixture
async def http(gateway: Gateway) -> AsyncIterator[httpx.AsyncClient]:
    async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{gateway.port}", timeout=None) as client:
        yield client


async def test_health_readiness_and_version_are_answered(http: httpx.AsyncClient) -> None:
    assert (await http.get("/healthz")).json() == {"status": "alive"}
    assert (await http.get("/readyz")).json() == {"status": "ready", "waiting_for": []}
    assert (await http.get("/version")).json() == {"version": __version__}


async def test_readiness_names_what_it_waits_for() -> None:
    async with running(ready=False) as gateway, httpx.AsyncClient(timeout=None) as client:
        for port in (gateway.port, gateway.funasr_port):
            answer = await client.get(f"http://127.0.0.1:{port}/readyz")
            assert answer.status_code == 503
            assert answer.json() == {"status": "not_ready", "waiting_for": ["models"]}


async def test_the_page_runs_only_its_own_scripts_and_is_always_revalidated(http: httpx.AsyncClient) -> None:
    page = await http.get("/")
    assert page.headers["content-type"].startswith("text/html")
    for path in ("/", "/assets/js/app.js", "/assets/style.css"):
        answer = await http.get(path)
        assert answer.status_code == 200, path
        assert "default-src 'none'" in answer.headers["content-security-policy"]
        assert "unsafe" not in answer.headers["content-security-policy"]
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert answer.headers["referrer-policy"] == "no-referrer"
        assert answer.headers["cache-control"] == "no-cache"
        again = await http.get(path, headers={"If-None-Match": answer.headers["etag"]})
        assert again.status_code == 304, path


@pytest.mark.parametrize("path", ["/assets/__init__.py", "/assets/../settings.py", "/assets/%2e%2e/settings.py", "/x"])
async def test_what_is_no_page_is_404(http: httpx.AsyncClient, path: str) -> None:
    answer = await http.get(path)
    assert answer.status_code == 404
    assert answer.json()["error"]["code"] == "not_found"


async def _broken(request: Request) -> Response:
    raise ZeroDivisionError


async def test_what_the_router_or_a_route_cannot_do_is_told_in_our_form() -> None:
    async with running(routes=[Route("/broken", _broken)]) as gateway, httpx.AsyncClient(timeout=None) as http:
        base = f"http://127.0.0.1:{gateway.port}"
        wrong = await http.post(base + "/healthz")
        assert (wrong.status_code, wrong.json()["error"]["code"]) == (405, "method_not_allowed")
        assert "GET" in wrong.headers["allow"]
        broken = await http.get(base + "/broken")
        assert (broken.status_code, broken.json()["error"]["code"]) == (500, "internal")


async def test_the_metrics_tell_of_sessions_refusals_and_failures(gateway: Gateway, http: httpx.AsyncClient) -> None:
    async with gateway.connect() as socket, gateway.connect("/ws/asr?mode=sideways"):
        await told(socket, "connected")
        text = (await http.get("/metrics")).text
        assert 'funasr_active_sessions{tenant="default"} 1.0' in text


async def test_health_answers_while_sessions_stream(gateway: Gateway, http: httpx.AsyncClient) -> None:
    stop = asyncio.Event()

    async def stream() -> None:
        async with gateway.connect() as socket:
            while not stop.is_set():
                await socket.send(CHUNK)
                await told(socket, "result")

    async with asyncio.TaskGroup() as group:
        for _ in range(20):
            group.create_task(stream())
        for _ in range(20):
            assert (await http.get("/healthz")).status_code == 200
            assert (await http.get("/readyz")).status_code == 200
        stop.set()


async def test_a_port_in_use_is_a_settings_error_that_names_the_field_and_frees_the_others() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken, bound(Address("127.0.0.1", 0, "gateway.port")) as (free,):
        other = free.getsockname()[1]
        free.close()
        places = [
            Address("127.0.0.1", other, "gateway.port"),
            Address("127.0.0.1", taken.getsockname()[1], "gateway.funasr_port"),
        ]
        with pytest.raises(SettingsError, match="funasr_port"), bound(*places):
            pass
        with bound(places[0]):
            pass


async def test_the_listener_leaves_soon_though_a_client_stays() -> None:
    async with running() as gateway:
        reader, writer = await asyncio.open_connection("127.0.0.1", gateway.port)
        writer.write(b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n")
        await reader.readuntil(b"\r\n\r\n")
        stays = await gateway.connect()
        left = time.monotonic()
    assert time.monotonic() - left < 30
    await hang_up(writer)
    await stays.close()


async def test_a_port_that_is_taken_but_not_listened_on_yet_is_nobody_elses() -> None:
    with bound(Address("127.0.0.1", 0, "gateway.port")) as (taken,):
        port = taken.getsockname()[1]
        with (
            pytest.raises(SettingsError, match="--health-port"),
            bound(Address("127.0.0.1", port, "worker.health_port")),
        ):
            raise AssertionError("the port was free")


async def test_nobody_listens_first_on_a_port_that_is_taken_and_who_had_it_too_is_told() -> None:
    with socket.socket() as other:
        other.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        other.bind(("127.0.0.1", 0))
        with bound(Address("127.0.0.1", other.getsockname()[1], "gateway.port")) as (ours,):
            with pytest.raises(OSError, match="in use"):
                other.listen()
            ours.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            other.listen()
            with pytest.raises(SettingsError, match="cannot listen"):
                async with Listener([Binding(Starlette(), ours)], GatewaySettings(), LimitSettings()):
                    raise AssertionError("it is ready")
