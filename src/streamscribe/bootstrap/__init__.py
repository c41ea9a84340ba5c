"""The composition root: the only module that knows every adapter. It joins the parts and owns what runs."""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from functools import partial
from time import monotonic
from typing import Any, TypeVar

from streamscribe.audio.decode import DecodeLimits, DecoderPool
from streamscribe.bootstrap.caches import Caches, check_context, open_caches
from streamscribe.bootstrap.engines import recognizer_id
from streamscribe.bootstrap.models import ModelLoader
from streamscribe.bootstrap.reload import Reloading, reload_at_hangup
from streamscribe.bootstrap.tenants import open_tenants
from streamscribe.bus.memory import MemoryBus
from streamscribe.gateway.app import create_app, create_funasr_app
from streamscribe.gateway.auth import Authenticator, check_exposure
from streamscribe.gateway.collector import settle_collector
from streamscribe.gateway.drain import drain, stop_signals
from streamscribe.gateway.hub import Hub
from streamscribe.gateway.listener import Address, Binding, Listener, bound
from streamscribe.gateway.readiness import Readiness
from streamscribe.gateway.rest import routes
from streamscribe.gateway.rest.cache import cache_routes
from streamscribe.gateway.tenant_watch import watch_tenants
from streamscribe.models.memory import share_heap
from streamscribe.models.pool import Models
from streamscribe.observe.load import EVENT_LOOP, LoadControl
from streamscribe.observe.loop import probe_event_loop
from streamscribe.observe.metrics import Metrics
from streamscribe.settings import GatewaySettings, Settings
from streamscribe.text.pipeline import TextPipeline
from streamscribe.worker.runner import Worker

Fact = TypeVar("Fact")


@dataclass(frozen=True, slots=True)
class Platform:
    """One process' parts, without a listener: sessions of `hub` are recognised by the worker behind it."""

    settings: Settings
    metrics: Metrics
    models: Models
    hub: Hub
    decoders: DecoderPool
    caches: Caches
    reloading: Reloading


@dataclass(frozen=True, slots=True)
class Listening:
    """Where a server listens, and how long it took from its start to its readiness."""

    url: str
    funasr_url: str | None
    ready_s: float
    warmup_s: dict[str, float]


@asynccontextmanager
async def platform(settings: Settings) -> AsyncIterator[Platform]:
    """A running platform; models load before it is given and warm up while it is in use (`models.ready`)."""
    check_context(settings)
    share_heap()
    metrics = Metrics()
    load = LoadControl(settings.limits, metrics.session_shed)
    caches = await asyncio.to_thread(open_caches, settings.cache, one_tenant=settings.gateway.tenants_file is None)
    loader = ModelLoader(
        _both(metrics.step_done, load.step_done),
        caches=caches,
        registry=metrics.registry,
        on_ejected=metrics.model_ejected,
    )
    models = await asyncio.to_thread(loader.models, settings.model)
    load.outage = models.outage
    watch_load = partial(_watch_load, metrics, models, load)
    watch_load()
    text = TextPipeline()
    bus = MemoryBus(settings.limits.max_backlog_s)
    hub = Hub(bus, settings.limits, metrics, load)
    worker = Worker(
        bus,
        models,
        text,
        settings.worker,
        metrics,
        caches.open_transcripts(),
        context_ttl_s=settings.cache.context_cache_ttl,
    )
    decoders = DecoderPool(DecodeLimits.from_settings(settings.limits), max_children=settings.limits.max_files)
    async with AsyncExitStack() as stack:
        stack.push_async_callback(asyncio.to_thread, caches.levels.close)
        stack.push_async_callback(asyncio.to_thread, models.close)
        stack.push_async_callback(decoders.close)
        tasks = await stack.enter_async_context(asyncio.TaskGroup())
        probe = probe_event_loop(_both(metrics.loop_lagged, load.loop_lagged))
        running = [tasks.create_task(work) for work in (worker.run(), probe, models.watch())]
        models.start()
        await decoders.start()
        warming = tasks.create_task(_warm(models, text, metrics))
        try:
            reloading = Reloading(models, loader, settings.model, metrics, replaced=watch_load)
            yield Platform(settings, metrics, models, hub, decoders, caches, reloading)
        finally:
            await hub.close()
            await bus.close()
            for task in (*running, warming):
                task.cancel()


def _both(first: Callable[[Fact], None], second: Callable[[Fact], None]) -> Callable[[Fact], None]:
    def tell(fact: Fact) -> None:
        first(fact)
        second(fact)

    return tell


def _watch_load(metrics: Metrics, models: Models, load: LoadControl) -> None:
    for replica in models.replicas:
        metrics.model_watched(
            replica.name,
            inflight=partial(models.inflight, replica.name),
            utilisation=partial(load.utilisation, replica.name),
        )
    for where in (*(replica.name for replica in models.replicas), EVENT_LOOP):
        metrics.lag_watched(where, partial(load.lag_p95_s, where))


async def _warm(models: Models, text: TextPipeline, metrics: Metrics) -> None:
    await asyncio.to_thread(text.warm_up)
    await asyncio.to_thread(models.wait_ready)
    for name, seconds in models.warmup_s.items():
        metrics.warmed_up(name, seconds)


async def serve(
    settings: Settings, *, started_at: float, announce: Callable[[Listening], None], reread: Callable[[], Settings]
) -> None:
    """Serves until SIGTERM or SIGINT, then drains. `announce` is called once, when the models are warm, unless the stop
    comes before.

    At SIGHUP the models are brought to the settings that `reread` gives; all others hold until a restart.

    Raises SettingsError for a port that cannot be bound or an exposure nobody asked for, ModelUnavailable for models.
    """
    check_exposure(settings)
    gateway, limits = settings.gateway, settings.limits
    store = open_tenants(settings)
    auth = Authenticator(store, gateway, max_sessions=limits.max_tenant_sessions)
    with bound(*_addresses(gateway)) as sockets:
        async with stop_signals() as stop, platform(settings) as parts:
            readiness = Readiness(parts.hub, lambda: [f"model {name}" for name in parts.models.not_ready()])
            rest = cache_routes(parts.caches.levels, many_tenants=store is not None)
            rest += routes(parts.hub, parts.decoders, limits=limits, model=recognizer_id(settings.model))
            main = create_app(
                parts.hub,
                auth,
                gateway=gateway,
                limits=limits,
                metrics=parts.metrics,
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
                watching.append(tasks.create_task(reload_at_hangup(parts.reloading, reread)))
                waiting = tasks.create_task(stop.wait())
                if await _warm_before(waiting, parts.models):
                    settle_collector()
                    announce(_listening(gateway, listener.ports, monotonic() - started_at, parts.models.warmup_s))
                    await waiting
                for task in watching:
                    task.cancel()
                await drain(parts.hub, gateway)


async def _warm_before(stop: "asyncio.Task[Any]", models: Models) -> bool:
    """Whether the models became warm before the stop came; they warm on until they are closed."""
    warming = asyncio.ensure_future(asyncio.to_thread(models.wait_ready))
    await asyncio.wait((stop, warming), return_when=asyncio.FIRST_COMPLETED)
    if not warming.done():
        warming.cancel()
        return False
    await warming
    return True


def _listening(gateway: GatewaySettings, ports: Sequence[int], ready_s: float, warmup_s: dict[str, float]) -> Listening:
    host = f"[{gateway.host}]" if ":" in gateway.host else gateway.host
    return Listening(
        url=f"http://{host}:{ports[0]}",
        funasr_url=f"ws://{host}:{ports[1]}" if len(ports) > 1 else None,
        ready_s=ready_s,
        warmup_s=warmup_s,
    )


def _addresses(gateway: GatewaySettings) -> list[Address]:
    addresses = [Address(gateway.host, gateway.port, "gateway.port")]
    if gateway.funasr_port >= 0:
        addresses.append(Address(gateway.host, gateway.funasr_port, "gateway.funasr_port"))
    return addresses
