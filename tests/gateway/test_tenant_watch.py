"""Keys that change under a running gateway."""

import asyncio
import threading
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from streamscribe.control.keys import new_key, revoke_key
from streamscribe.gateway import tenant_watch
from streamscribe.gateway.tenant_watch import watch_tenants
from streamscribe.observe.logs import ATTRIBUTES
from streamscribe.store.keys import split_key
from streamscribe.store.tenants import FileTenantStore


async def test_a_running_gateway_learns_of_new_and_revoked_keys_and_outlives_a_broken_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tenant_watch, "CHECK_EVERY_S", 0.01)
    file = tmp_path / "tenants.yaml"
    old = new_key(file, "acme")
    store = FileTenantStore(file, default_max_sessions=1)
    watch = asyncio.create_task(watch_tenants(store))

    async def until(key: str, known: bool) -> None:
        async with asyncio.timeout(10):
            while (store.authenticate(key) is not None) is not known:
                await asyncio.sleep(0.005)

    new = new_key(file, "acme")
    await until(new, known=True)
    whole = file.read_text()
    file.write_text("tenants: [")
    await asyncio.sleep(0.05)
    assert store.authenticate(new) is not None
    file.write_text(whole)
    revoke_key(file, split_key(old)[0])
    await until(old, known=False)
    watch.cancel()
    await asyncio.wait([watch])


async def test_what_is_wrong_with_a_file_that_cannot_be_used_is_logged_with_its_place_once_for_each_mistake(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(tenant_watch, "CHECK_EVERY_S", 0)
    answers = iter(["at line 3", "at line 3", "at line 4", "", "at line 4"])

    class Source:
        def refresh(self) -> bool:
            answer = next(answers, None)
            if answer is None:
                over.set()
            elif answer:
                raise ValueError(answer)
            return answer is not None

    over = threading.Event()
    with capture_logs() as lines:
        watch = asyncio.create_task(watch_tenants(Source()))
        while not over.is_set():
            await asyncio.sleep(0)
        watch.cancel()
        await asyncio.wait([watch])
    assert all(line.keys() - {"event", "log_level"} <= ATTRIBUTES for line in lines)
    assert [line.get("detail") for line in lines] == ["at line 3", "at line 4", None, "at line 4"]
