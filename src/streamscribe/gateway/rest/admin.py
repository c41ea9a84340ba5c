"""`/admin`: what only operators may ask of this process."""

from collections.abc import Callable

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route
from starlette.types import Send

from streamscribe.core.errors import Forbidden
from streamscribe.gateway.hub import Hub
from streamscribe.gateway.rest.endpoint import Endpoint
from streamscribe.ports import Tenant
from streamscribe.settings import GatewaySettings
from streamscribe.wire import rest
from streamscribe.wire.rest_admin import Drained

DRAIN_PATH = "/admin/drain"
OF_THE_FILE = "give the key of a tenant that has `operator: true` in the tenants file"
ON_THIS_MACHINE = "ask on the machine itself and through no proxy, or start the server with a tenants file"
"""Who is one, with a tenants file and without."""


def admin_routes(hub: Hub, gateway: GatewaySettings, stop: Callable[[], None]) -> list[BaseRoute]:
    """The routes, which need `request.state.tenant`. `stop` begins what SIGTERM begins, and may be called again."""
    return [Route(DRAIN_PATH, Endpoint("POST", _Drain(hub, gateway, stop).handle))]


class _Drain:
    def __init__(self, hub: Hub, gateway: GatewaySettings, stop: Callable[[], None]) -> None:
        self._hub = hub
        self._who = OF_THE_FILE if gateway.tenants_file is not None else ON_THIS_MACHINE
        self._deadline_ms = round((gateway.drain_grace_s + gateway.drain_timeout_s) * 1000)
        self._stop = stop

    async def handle(self, request: Request, send: Send) -> Response:
        """POST: not ready from now on; clients are told to go, and the process ends as after SIGTERM.

        Asked again it changes nothing. Raises Forbidden for whoever is no operator.
        """
        tenant: Tenant = request.state.tenant
        if not tenant.operator:
            raise Forbidden(f"only operators may do that: {self._who}")
        sessions = self._hub.sessions()
        self._hub.draining = True
        self._stop()
        movable = sum(live.movable for live in sessions)
        body = rest.encode(Drained(len(sessions), movable, self._deadline_ms))
        return Response(body, status_code=202, media_type="application/json")
