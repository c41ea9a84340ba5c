"""`/v1/cache`: what is told of what is kept, to whom, and that a tenant forgets its own only."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

import httpx
import numpy as np
import pytest

from streamscribe.bootstrap.desk import LevelsDesk
from streamscribe.cache.features import Features
from streamscribe.cache.levels import BlobLevel, EmbeddingLevel, Levels
from streamscribe.cache.memory import MemoryBlobs
from streamscribe.cache.resting import RestingBlobs
from streamscribe.cache.stage_output import StageOutputCache
from streamscribe.core.cachekey import CacheKey, Owner
from streamscribe.core.errors import CacheUnavailable
from streamscribe.core.ids import TenantId
from streamscribe.gateway.auth import DEFAULT_TENANT
from streamscribe.gateway.rest.cache import cache_routes
from streamscribe.ports import Tenant, Usage
from tests.cache.kit import ACME, KEYS, OTHER, memory
from tests.gateway.rig import running

ROWS = np.ones((4, 8), np.float32)


class _Tenants:
    """A key is its tenant's name."""

    def authenticate(self, key: str) -> Tenant | None:
        return Tenant(TenantId(key), 10, zero_retention=key == "quiet") if key in (ACME, OTHER, "quiet") else None


class _Broken(MemoryBlobs):
    def purge(self, owner: Owner | None = None) -> int:
        raise CacheUnavailable


@dataclass
class Served:
    http: httpx.AsyncClient
    embeddings: StageOutputCache
    features: Features

    def fill(self, tenant: TenantId) -> None:
        self.embeddings.put(tenant, KEYS.derive(tenant, "embedding"), ROWS)
        self.features.put(tenant, KEYS.derive(tenant, "features"), ROWS)
        assert self.features.get(KEYS.derive(tenant, "features")) is not None

    def has(self, tenant: TenantId) -> tuple[bool, bool]:
        kept: tuple[CacheKey, CacheKey] = (KEYS.derive(tenant, "embedding"), KEYS.derive(tenant, "features"))
        return self.embeddings.get(kept[0]) is not None, self.features.get(kept[1]) is not None


@asynccontextmanager
async def served(*, tenants: bool, blobs: MemoryBlobs | None = None) -> AsyncIterator[Served]:
    embeddings = StageOutputCache(max_entries=10, max_bytes=2**20, tenant_share=1)
    blobs = blobs or memory()
    store = RestingBlobs(blobs, lambda turn: None)
    features = Features(store, KEYS, ttl_s=100)
    level = BlobLevel("features", store, {"memory": blobs}, KEYS, ttl_s=100, rest=store.rest)
    # the one that may be broken comes first: the others are purged all the same
    routes = cache_routes(LevelsDesk(Levels([level, EmbeddingLevel(embeddings)])), many_tenants=tenants)
    async with (
        running(store=_Tenants() if tenants else None, routes=routes) as gateway,
        httpx.AsyncClient(base_url=f"http://127.0.0.1:{gateway.port}", timeout=None) as http,
    ):
        yield Served(http, embeddings, features)


def bearer(key: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {key}"}


async def test_a_server_of_one_tenant_tells_all_figures() -> None:
    async with served(tenants=False) as server:
        server.fill(DEFAULT_TENANT)
        told = (await server.http.get("/v1/cache")).json()
        features, embeddings = told["levels"]
        assert told["zero_retention"] is False
        assert embeddings["tiers"] == [
            {"tier": "memory", "available": True, "entries": 1, "bytes": ROWS.nbytes, "damaged": 0, "failures": 0}
        ]
        assert "ttl_s" not in embeddings
        assert (features["ttl_s"], features["hits"], features["misses"]) == (100, 1, 0)


async def test_a_server_of_many_tenants_tells_a_tenant_no_figures_of_the_others() -> None:
    async with served(tenants=True) as server:
        server.fill(OTHER)
        told = (await server.http.get("/v1/cache", headers=bearer(ACME))).json()
        assert told["levels"] == [
            {"level": "features", "tiers": [{"tier": "memory"}], "ttl_s": 100.0},
            {"level": "embeddings", "tiers": [{"tier": "memory"}]},
        ]
        assert (await server.http.get("/v1/cache", headers=bearer("quiet"))).json()["zero_retention"] is True


class _Unseen(MemoryBlobs):
    """Must not be looked at."""

    def usage(self) -> Usage:
        raise AssertionError


async def test_law_9_what_is_kept_of_others_is_not_even_looked_at_for_a_tenant() -> None:
    async with served(tenants=True, blobs=_Unseen(max_bytes=2**20)) as server:
        server.fill(OTHER)
        answer = await server.http.get("/v1/cache", headers=bearer(ACME))
        assert answer.json()["levels"][0] == {"level": "features", "tiers": [{"tier": "memory"}], "ttl_s": 100.0}


async def test_a_tenant_forgets_its_own_and_nobody_elses() -> None:
    async with served(tenants=True) as server:
        server.fill(ACME)
        server.fill(OTHER)
        answer = await server.http.delete("/v1/cache", headers=bearer(ACME))
        assert answer.json() == {"purged": {"features": 1, "embeddings": 1}, "object": "cache.purged"}
        assert server.has(ACME) == (False, False)
        assert server.has(OTHER) == (True, True)


@pytest.mark.parametrize("method", ["GET", "DELETE"])
async def test_nobody_is_told_or_forgets_anything_without_a_key(method: str) -> None:
    async with served(tenants=True) as server:
        server.fill(ACME)
        assert (await server.http.request(method, "/v1/cache")).status_code == 401
        assert server.has(ACME) == (True, True)


async def test_a_page_of_another_origin_may_not_purge() -> None:
    async with served(tenants=False) as server:
        server.fill(DEFAULT_TENANT)
        answer = await server.http.delete("/v1/cache", headers={"Origin": "http://evil.example"})
        assert answer.status_code == 403
        assert server.has(DEFAULT_TENANT) == (True, True)


async def test_what_cannot_be_purged_is_an_error_after_the_rest_is_gone() -> None:
    async with served(tenants=False, blobs=_Broken(max_bytes=2**20)) as server:
        server.fill(DEFAULT_TENANT)
        answer = await server.http.delete("/v1/cache")
        assert (answer.status_code, answer.json()["error"]["code"]) == (503, "cache_unavailable")
        assert server.has(DEFAULT_TENANT) == (False, True)


async def test_other_methods_are_refused() -> None:
    async with served(tenants=False) as server:
        answer = await server.http.put("/v1/cache")
        assert (answer.status_code, answer.headers["allow"]) == (405, "GET, DELETE")
