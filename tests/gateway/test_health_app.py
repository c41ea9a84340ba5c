"""The port of a process that serves no clients: probes are open, metrics name tenants and are not."""

from pathlib import Path

import httpx
import pytest

from streamscribe.bootstrap.cluster.health import metrics_door
from streamscribe.control.keys import new_key
from streamscribe.gateway.app import create_health_app
from streamscribe.observe.metrics import Metrics
from streamscribe.settings import Settings, load

HERE, ELSEWHERE = "127.0.0.1", "10.0.0.5"


class Ready:
    def waiting_for(self) -> list[str]:
        return []


async def statuses(settings: Settings, peer: str, key: str = "") -> dict[str, int]:
    async with metrics_door(settings) as door:
        app = create_health_app(Metrics(), Ready(), door)
        transport = httpx.ASGITransport(app, client=(peer, 1))
        headers = {"Authorization": f"Bearer {key}"} if key else {}
        async with httpx.AsyncClient(transport=transport, base_url="http://worker", headers=headers) as http:
            return {
                path: (await http.get(path)).status_code for path in ("/healthz", "/readyz", "/version", "/metrics")
            }


PROBES = {"/healthz": 200, "/readyz": 200, "/version": 200}


@pytest.mark.parametrize(("peer", "metrics"), [(HERE, 200), (ELSEWHERE, 403)])
async def test_without_keys_metrics_are_told_on_this_machine_only_and_probes_to_all(peer: str, metrics: int) -> None:
    assert await statuses(Settings(), peer) == {**PROBES, "/metrics": metrics}


async def test_with_the_tenants_file_of_the_gateways_a_key_opens_the_metrics(tmp_path: Path) -> None:
    key = new_key(tmp_path / "tenants.yaml", "monitor")
    settings = load(None, {"gateway.tenants_file": tmp_path / "tenants.yaml"})
    assert await statuses(settings, ELSEWHERE, key) == {**PROBES, "/metrics": 200}
    assert await statuses(settings, ELSEWHERE, "ss_x_y") == {**PROBES, "/metrics": 401}
    assert await statuses(settings, HERE) == {**PROBES, "/metrics": 200}


async def test_who_serves_without_keys_tells_its_metrics_without_keys() -> None:
    assert await statuses(load(None, {"gateway.no_auth": True}), ELSEWHERE) == {**PROBES, "/metrics": 200}


@pytest.mark.parametrize(("peer", "status"), [(HERE, 404), (ELSEWHERE, 403)])
async def test_who_would_drain_it_as_a_gateway_is_told_how_it_is_drained(peer: str, status: int) -> None:
    async with metrics_door(Settings()) as door:
        transport = httpx.ASGITransport(create_health_app(Metrics(), Ready(), door), client=(peer, 1))
        async with httpx.AsyncClient(transport=transport, base_url="http://worker") as http:
            drained, other = await http.post("/admin/drain"), await http.get("/v1/models")
    assert (drained.status_code, other.status_code) == (status, status)
    assert ("SIGTERM" in drained.text) == (peer == HERE)
    assert "SIGTERM" not in other.text
