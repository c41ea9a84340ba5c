"""The server: a gateway's listener before whatever recognises, from its ports to its drain."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AbstractContextManager, ExitStack, nullcontext
from dataclasses import dataclass
from enum import StrEnum
from time import monotonic

from streamscribe.bootstrap.cluster.gateway import cluster_gateway
from streamscribe.bootstrap.cluster.loop_watch import loop_watch
from streamscribe.bootstrap.engines import recognizer_id
from streamscribe.bootstrap.fleet.platform import fleet_platform
from streamscribe.bootstrap.hangups import hangups
from streamscribe.bootstrap.parts import Parts
from streamscribe.bootstrap.platform import platform
from streamscribe.bootstrap.reload import reload_at_hangup
from streamscribe.bootstrap.tenants import open_tenants
from streamscribe.gateway.app import create_app, create_funasr_app
from streamscribe.gateway.auth import Authenticator, check_exposure
from streamscribe.gateway.collector import settle_collector
from streamscribe.gateway.drain import done_before, drain, stop_signals
from streamscribe.gateway.listener import Address, Binding, Listener, bound, is_everywhere, url_here
from streamscribe.gateway.readiness import Readiness
from streamscribe.gateway.rest import routes
from streamscribe.gateway.rest.admin import admin_routes
from streamscribe.gateway.rest.cache import cache_routes
from streamscribe.gateway.tenant_watch import watch_tenants
from streamscribe.settings import GatewaySettings, Settings


@dataclass(frozen=True, slots=True)
class Listening:
    """Where a server listens, and how long it took from its start to its readiness.

    The URLs are for this machine; with `everywhere` it listens on all of its addresses.
    """

    url: str
    funasr_url: str | None
    everywhere: bool
    ready_s: float
    warmup_s: Mapping[str, float]


class Role(StrEnum):
    """What is behind a listener: `server` recognises itself (or in processes of its own), `gateway` has workers
    elsewhere."""

    SERVER = "server"
    GATEWAY = "gateway"


async def serve(
    settings: Settings,
    *,
    started_at: float,
    announce: Callable[[Listening], None],
    reread: Callable[[], Settings],
    role: Role = Role.SERVER,
) -> None:
    """Serves until SIGTERM, SIGINT or `POST /admin/drain`, then drains. `announce` is called once, when the models are
    warm, unless the stop comes before.

    At SIGHUP the models are brought to the settings that `reread` gives; all others hold until a restart.

    Raises SettingsError for a port that cannot be bound or an exposure nobody asked for, ModelUnavailable for models.
    """
    check_exposure(settings)
    gateway, limits = settings.gateway, settings.limits
    store = open_tenants(settings)
    auth = Authenticator(store, gateway, max_sessions=limits.max_tenant_sessions)
    with hangups() as hung_up, bound(*_addresses(gateway)) as sockets, ExitStack() as stack:
        async with stop_signals() as stop, _parts(settings, role) as parts:
            stack.enter_context(_watched(settings, role))  # now: the imports before may hold the loop for long
            readiness = Readiness(parts.hub, parts.waiting_for)
            rest = [] if parts.desk is None else cache_routes(parts.desk, many_tenants=store is not None)
            rest += admin_routes(parts.hub, gateway, stop.set)
            rest += routes(parts.hub, parts.decoders, limits=limits, model=recognizer_id(settings.model))
            main = create_app(
                parts.hub,
                auth,
                gateway=gateway,
                limits=limits,
                metrics=parts.exposition,
                readiness=readiness,
                decode=parts.decoders.decode,
                routes=rest,
            )
            funasr = create_funasr_app(
                parts.hub, auth, gateway=gateway, limits=limits, readiness=readiness, decode=parts.decoders.decode
            )
            bindings = list(map(Binding, (main, funasr), sockets))
            async with Listener(bindings, gateway, limits) as listener, asyncio.TaskGroup() as tasks:
                watching = [tasks.create_task(watch_tenants(store))] if store else []
                if parts.reloads is not None:
                    watching.append(tasks.create_task(reload_at_hangup(hung_up, parts.reloads, reread)))
                if await done_before(stop, parts.wait_ready()):
                    settle_collector()
                    announce(_listening(gateway, listener.ports, monotonic() - started_at, parts.warmup_s))
                    await stop.wait()
                for task in watching:
                    task.cancel()
                await drain(parts.hub, gateway)


def _parts(settings: Settings, role: Role) -> AbstractAsyncContextManager[Parts]:
    if role is Role.GATEWAY:
        return cluster_gateway(settings)
    return fleet_platform(settings) if settings.worker.processes else platform(settings)


def _watched(settings: Settings, role: Role) -> AbstractContextManager[None]:
    """A gateway whose loop stands still ends, for others have its sessions then; a server's have nowhere to go."""
    return loop_watch(settings.worker.hang_timeout_s) if role is Role.GATEWAY else nullcontext()


def _listening(
    gateway: GatewaySettings, ports: Sequence[int], ready_s: float, warmup_s: Mapping[str, float]
) -> Listening:
    return Listening(
        url=url_here("http", gateway.host, ports[0]),
        funasr_url=url_here("ws", gateway.host, ports[1]) if len(ports) > 1 else None,
        everywhere=is_everywhere(gateway.host),
        ready_s=ready_s,
        warmup_s=dict(warmup_s),
    )


def _addresses(gateway: GatewaySettings) -> list[Address]:
    addresses = [Address(gateway.host, gateway.port, "gateway.port")]
    if gateway.funasr_port >= 0:
        addresses.append(Address(gateway.host, gateway.funasr_port, "gateway.funasr_port"))
    return addresses
