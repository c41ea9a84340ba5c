"""`POST /admin/drain`: who may ask for it, and what it begins."""

import asyncio
from pathlib import Path

import httpx
from starlette.routing import BaseRoute

from streamscribe.control.keys import new_key
from streamscribe.gateway.rest.admin import admin_routes
from streamscribe.settings import GatewaySettings
from streamscribe.store.tenants import FileTenantStore
from tests.gateway.rig import running, told


class Stop:
    """Counts how often it is asked for."""

    def __init__(self) -> None:
        self.asked = 0

    def __call__(self) -> None:
        self.asked += 1


def operators(folder: Path) -> tuple[FileTenantStore, str, str]:
    """A store, the key of an operator and that of a customer."""
    file = folder / "tenants.yaml"
    ops, acme = new_key(file, "ops", operator=True), new_key(file, "acme")
    return FileTenantStore(file, default_max_sessions=3), ops, acme


async def asked(port: int, key: str | None = None, **headers: str) -> httpx.Response:
    bearer = {"Authorization": f"Bearer {key}"} if key else {}
    async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}", timeout=None) as http:
        return await http.post("/admin/drain", headers=bearer | headers)


async def test_an_operator_asks_for_a_drain_which_begins_at_once_and_once(tmp_path: Path) -> None:
    store, ops, acme = operators(tmp_path)
    stop, routes = Stop(), list[BaseRoute]()
    settings = GatewaySettings(drain_timeout_s=7, drain_grace_s=1, tenants_file=tmp_path / "tenants.yaml")
    async with running(store=store, gateway=settings, routes=routes) as gateway:
        gateway.app.router.routes[:0] = admin_routes(gateway.hub, settings, stop)
        assert (await asked(gateway.port)).status_code == 401
        refused = await asked(gateway.port, acme)
        assert (refused.status_code, refused.json()["error"]["code"]) == (403, "forbidden")
        assert "the tenants file" in refused.json()["error"]["message"]
        assert (stop.asked, gateway.hub.draining) == (0, False)
        async with gateway.connect(additional_headers={"Authorization": f"Bearer {acme}"}) as socket:
            await told(socket, "connected")
            for _ in range(2):
                answer = await asked(gateway.port, ops)
                assert answer.status_code == 202
                assert answer.json() == {
                    "sessions": 1, "movable": 0, "deadline_ms": 8000, "object": "gateway.drain",
                }  # fmt: skip
        assert gateway.hub.draining
        assert stop.asked == 2
        await asyncio.sleep(0)


async def test_an_operators_key_is_not_taken_from_an_address_which_others_may_read(tmp_path: Path) -> None:
    store, ops, _ = operators(tmp_path)
    stop, settings = Stop(), GatewaySettings(tenants_file=tmp_path / "tenants.yaml")
    async with running(store=store, gateway=settings) as gateway:
        gateway.app.router.routes[:0] = admin_routes(gateway.hub, settings, stop)
        async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{gateway.port}", timeout=None) as http:
            refused = await http.post(f"/admin/drain?token={ops}")
        assert (refused.status_code, refused.json()["error"]["code"]) == (401, "unauthenticated")
        assert "Authorization: Bearer KEY" in refused.json()["error"]["message"]
        assert (stop.asked, gateway.hub.draining) == (0, False)


async def test_without_keys_only_this_machine_may_ask_and_no_proxy_on_it() -> None:
    settings, stop = GatewaySettings(), Stop()
    async with running(gateway=settings) as gateway:
        gateway.app.router.routes[:0] = admin_routes(gateway.hub, settings, stop)
        refused = await asked(gateway.port, **{"X-Forwarded-For": "192.0.2.1"})
        assert refused.status_code == 403
        assert "on the machine itself" in refused.json()["error"]["message"]
        assert (await asked(gateway.port, Origin="http://evil.example")).status_code == 403
        assert stop.asked == 0
        assert (await asked(gateway.port)).status_code == 202
        assert stop.asked == 1
