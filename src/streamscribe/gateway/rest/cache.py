"""`/v1/cache`: what the server keeps so that nothing is computed twice, and how a tenant has its own forgotten."""

from typing import Protocol

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route
from starlette.types import Send

from streamscribe.core.ids import TenantId
from streamscribe.gateway.rest.endpoint import Endpoint, json_response
from streamscribe.ports import Tenant
from streamscribe.wire import rest
from streamscribe.wire.rest_cache import CacheState, Level, Purged

PATH = "/v1/cache"


class CacheDesk(Protocol):
    """Where the gateway asks about what is kept, in this process or in others. Raises CacheUnavailable."""

    async def levels(self, *, figures: bool) -> tuple[Level, ...]:
        """What is kept; without `figures` the names only."""
        ...

    async def purge(self, tenant: TenantId) -> Purged:
        """Forgets all of a tenant; how many things each level had."""
        ...


def cache_routes(desk: CacheDesk, *, many_tenants: bool) -> list[BaseRoute]:
    """The route; to stand before those that take all of `/v1`. It needs `request.state.tenant`.

    With `many_tenants` no figures are told: they are of all tenants together.
    """
    return [Route(PATH, Endpoint("GET, DELETE", _Cache(desk, figures=not many_tenants).handle))]


class _Cache:
    def __init__(self, desk: CacheDesk, *, figures: bool) -> None:
        self._desk = desk
        self._figures = figures

    async def handle(self, request: Request, send: Send) -> Response:
        """GET tells what is kept, DELETE forgets all of the tenant that asks. Raises CacheUnavailable."""
        tenant: Tenant = request.state.tenant
        if request.method == "DELETE":
            return json_response(rest.encode(await self._desk.purge(tenant.tenant_id)))
        levels = await self._desk.levels(figures=self._figures)
        return json_response(rest.encode(CacheState(levels, tenant.zero_retention)))
