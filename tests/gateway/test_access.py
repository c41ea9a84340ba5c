"""Who may do what: keys, tenants, origins, and what is open to all."""

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route, WebSocketRoute
from websockets.exceptions import InvalidStatus
from websockets.typing import Origin, Subprotocol

from streamscribe.control.keys import new_key
from streamscribe.gateway.auth import check_exposure
from streamscribe.settings import GatewaySettings, Settings, SettingsError
from streamscribe.store.tenants import FileTenantStore
from tests.gateway.rig import Gateway, closing, running, told

CHUNK = bytes([7]) + bytes(319)


async def _whose(request: Request) -> Response:
    return JSONResponse({"tenant": request.state.tenant.tenant_id})


ROUTES = [Route("/v1/whose", _whose, methods=["GET", "POST"])]


class Keyed:
    """A gateway with two tenants and a key of each."""

    def __init__(self, file: Path) -> None:
        self.acme = new_key(file, "acme", max_sessions=5)
        self.other = new_key(file, "other")
        self.store = FileTenantStore(file, default_max_sessions=3)


@pytest.fixture
def keyed(tmp_path: Path) -> Keyed:
    return Keyed(tmp_path / "tenants.yaml")


@pytest.fixture
async def gateway(keyed: Keyed) -> AsyncIterator[Gateway]:
    async with running(store=keyed.store, routes=ROUTES) as gateway:
        yield gateway


@pytest.fixture
async def http(gateway: Gateway) -> AsyncIterator[httpx.AsyncClient]:
    async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{gateway.port}", timeout=None) as client:
        yield client


def bearer(key: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {key}"}


async def refused(gateway: Gateway, path: str = "/ws/asr", **options: Any) -> int:
    """The HTTP status of a refused handshake."""
    with pytest.raises(InvalidStatus) as status:
        async with gateway.connect(path, **options):
            pass
    return status.value.response.status_code


async def test_every_route_but_the_public_ones_needs_a_key(gateway: Gateway, http: httpx.AsyncClient) -> None:
    public = {"/", "/healthz", "/readyz", "/version", "/metrics"}  # /metrics: the peer of this test is loopback
    paths = {route.path for route in gateway.app.routes if isinstance(route, Route)}
    assert public < paths
    for path in paths - public | {"/v1/nothing", "/nothing"}:
        for method in ("GET", "POST", "PUT", "DELETE", "OPTIONS"):
            answer = await http.request(method, path)
            assert answer.status_code == 401, (method, path)
            assert answer.json()["error"]["code"] == "unauthenticated"
            assert answer.headers["www-authenticate"] == "Bearer"
    for path in public:
        assert (await http.get(path)).status_code == 200, path
    for route in gateway.app.routes:
        if isinstance(route, WebSocketRoute):
            assert await refused(gateway, route.path) == 401


async def test_a_key_opens_as_header_subprotocol_or_parameter(gateway: Gateway, keyed: Keyed) -> None:
    page = [Subprotocol("streamscribe"), Subprotocol(f"streamscribe.key.{keyed.acme}")]
    ways: list[tuple[str, dict[str, Any]]] = [
        ("/ws/asr", {"additional_headers": bearer(keyed.acme)}),
        ("/ws/asr", {"additional_headers": {"Authorization": f"Bearer; {keyed.acme}"}}),
        ("/ws/asr", {"subprotocols": page}),
        (f"/ws/asr?token={keyed.acme}", {}),
        (f"/ws/asr?token={keyed.acme}&tenant_id=acme", {}),
    ]
    for path, options in ways:
        async with gateway.connect(path, **options) as socket:
            assert (await told(socket, "connected"))["user_id"] == "acme"
            assert socket.subprotocol in (None, "streamscribe")


async def test_the_tenant_of_a_request_is_that_of_its_key(http: httpx.AsyncClient, keyed: Keyed) -> None:
    assert (await http.get("/v1/whose", headers=bearer(keyed.other))).json() == {"tenant": "other"}
    answer = await http.get("/v1/whose?tenant_id=acme", headers=bearer(keyed.other))
    assert (answer.status_code, answer.json()["error"]["code"]) == (403, "forbidden")


@pytest.mark.parametrize("change", ["x", "ss_", "ss_0_x", "Bearer", "secret", "id", "extra"])
async def test_what_is_not_a_whole_valid_key_is_401(http: httpx.AsyncClient, keyed: Keyed, change: str) -> None:
    prefix, key_id, secret = keyed.acme.split("_", 2)
    wrong = {
        "secret": f"{prefix}_{key_id}_{keyed.other.split('_', 2)[2]}",
        "id": f"{prefix}_{keyed.other.split('_', 2)[1]}_{secret}",
        "extra": keyed.acme + "x",
    }.get(change, change)
    assert (await http.get("/v1/whose", headers=bearer(wrong))).status_code == 401


async def test_a_session_of_another_tenant_looks_like_one_that_is_unknown(gateway: Gateway, keyed: Keyed) -> None:
    """Law 9."""
    path = "/ws/asr?session_id=call-1"
    async with gateway.connect(path, additional_headers=bearer(keyed.acme)) as mine:
        connected = await told(mine, "connected")
        async with gateway.connect(path, additional_headers=bearer(keyed.other)) as theirs:
            assert (await told(theirs, "connected"))["session_id"] == "call-1"
            await theirs.send(bytes([9]) + bytes(319))
            assert (await told(theirs, "result"))["text"] == "9"
            await mine.send(CHUNK)
            assert (await told(mine, "result"))["text"] == "7"
            assert len({opened.session_id for opened in gateway.worker.opened()}) == 2
        answers = []
        for session_id in (connected["session_id"], "never-heard-of"):
            resume = {"type": "resume", "session_id": session_id, "resume_token": connected["resume_token"]}
            resume |= {"last_version": 0, "last_acked_sequence": None}
            async with gateway.connect(additional_headers=bearer(keyed.other)) as thief:
                await told(thief, "connected")
                await thief.send(json.dumps(resume))
                answers.append((await told(thief, "error"), await closing(thief)))
        assert answers[0] == answers[1]


async def test_a_tenants_quota_is_its_own(gateway: Gateway, keyed: Keyed) -> None:
    async with (
        gateway.connect(additional_headers=bearer(keyed.other)),
        gateway.connect(additional_headers=bearer(keyed.other)),
        gateway.connect(additional_headers=bearer(keyed.other)),
        gateway.connect(additional_headers=bearer(keyed.other)) as fourth,
        gateway.connect(additional_headers=bearer(keyed.acme)) as first_of_acme,
    ):
        assert (await closing(fourth))[0] == 4429
        await told(first_of_acme, "connected")


async def test_metrics_are_open_to_this_machine_but_not_through_a_proxy(http: httpx.AsyncClient, keyed: Keyed) -> None:
    assert (await http.get("/metrics")).status_code == 200
    for header in ("X-Forwarded-For", "Forwarded"):
        assert (await http.get("/metrics", headers={header: "192.0.2.1"})).status_code == 401
        through = await http.get("/metrics", headers={header: "192.0.2.1", **bearer(keyed.acme)})
        assert through.status_code == 200


async def test_the_public_routes_say_nothing_about_paths_or_versions_of_others(http: httpx.AsyncClient) -> None:
    for path in ("/", "/healthz", "/nothing"):
        assert "server" not in (await http.get(path)).headers


@pytest.mark.parametrize(
    ("origin", "host", "allowed"),
    [
        (None, None, True),
        ("http://127.0.0.1:{port}", None, True),
        ("http://127.0.0.1:1337", None, True),
        ("https://evil.example", None, False),
        ("null", None, False),
        ("http://[bad", None, False),
        ("http://rebound.example", "rebound.example", False),
        ("http://localhost:8000", "localhost:8000", True),
    ],
)
async def test_without_keys_on_loopback_only_pages_of_this_machine_may_use_the_server(
    origin: str | None, host: str | None, allowed: bool
) -> None:
    async with running(routes=ROUTES) as gateway:
        headers = {"Host": host} if host else {}
        if origin:
            headers["Origin"] = origin.format(port=gateway.port)
        async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{gateway.port}", timeout=None) as client:
            assert (await client.post("/v1/whose", headers=headers)).status_code == (200 if allowed else 403)
        if host is None and allowed:
            async with gateway.connect(origin=Origin(headers["Origin"]) if origin else None) as socket:
                await told(socket, "connected")
        elif host is None:
            assert await refused(gateway, origin=Origin(headers["Origin"])) == 403


async def test_with_no_auth_a_page_may_come_from_the_host_that_it_talks_to() -> None:
    async with (
        running(gateway=GatewaySettings(no_auth=True), routes=ROUTES) as gateway,
        httpx.AsyncClient(timeout=None) as client,
    ):
        url = f"http://127.0.0.1:{gateway.port}/v1/whose"
        same = {"Host": "asr.example:8000", "Origin": "http://asr.example:8000"}
        assert (await client.post(url, headers=same)).status_code == 200
        foreign = {"Host": "asr.example:8000", "Origin": "http://evil.example"}
        assert (await client.post(url, headers=foreign)).status_code == 403


@pytest.mark.parametrize(
    ("host", "tenants_file", "no_auth", "starts"),
    [
        ("127.0.0.1", None, False, True),
        ("localhost", None, False, True),
        ("::1", None, False, True),
        ("0.0.0.0", None, False, False),
        ("192.0.2.7", None, False, False),
        ("asr.example", None, False, False),
        ("0.0.0.0", None, True, True),
        ("0.0.0.0", Path("tenants.yaml"), False, True),
        ("127.0.0.1", Path("tenants.yaml"), True, False),
    ],
)
def test_strangers_are_served_without_keys_only_on_demand(
    host: str, tenants_file: Path | None, no_auth: bool, starts: bool
) -> None:
    settings = Settings(gateway=GatewaySettings(host=host, tenants_file=tenants_file, no_auth=no_auth))
    if starts:
        check_exposure(settings)
    else:
        with pytest.raises(SettingsError, match="no_auth"):
            check_exposure(settings)
