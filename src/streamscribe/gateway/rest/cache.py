"""`/v1/cache`: what the server keeps so that nothing is computed twice, and how a tenant has its own forgotten."""

import asyncio

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route
from starlette.types import Send

from streamscribe.cache.levels import Levels
from streamscribe.gateway.rest.endpoint import Endpoint, json_response
from streamscribe.ports import Tenant
from streamscribe.wire import rest
from streamscribe.wire.rest_cache import CacheState, Purged

PATH = "/v1/cache"


def cache_routes(levels: Levels, *, many_tenants: bool) -> list[BaseRoute]:
    """The route; to stand before those that take all of `/v1`. It needs `request.state.tenant`.

    With `many_tenants` no figures are told: they are of all tenants together.
    """
    return [Route(PATH, Endpoint("GET, DELETE", _Cache(levels, figures=not many_tenants).handle))]


class _Cache:
    """Asks the levels in a thread, one request at a time: a purge of Redis walks all its keys."""

    def __init__(self, levels: Levels, *, figures: bool) -> None:
        self._levels = levels
        self._figures = figures
        self._turn = asyncio.Lock()

    async def handle(self, request: Request, send: Send) -> Response:
        """GET tells what is kept, DELETE forgets all of the tenant that asks. Raises CacheUnavailable."""
        tenant: Tenant = request.state.tenant
        async with self._turn:
            if request.method == "DELETE":
                purged = await asyncio.to_thread(self._levels.purge, tenant.tenant_id)
                return json_response(rest.encode(Purged(purged)))
            facts = await asyncio.to_thread(self._levels.facts)
        levels = tuple(level.told(figures=self._figures) for level in facts)
        return json_response(rest.encode(CacheState(levels, tenant.zero_retention)))
