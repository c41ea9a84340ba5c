"""The composition root: the only module that knows every adapter. It joins the parts and owns what runs."""

import asyncio
import os
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from time import monotonic

import numpy as np

from streamscribe.audio.decode import DecodeLimits, DecoderPool
from streamscribe.bus.memory import MemoryBus
from streamscribe.core.audio import SAMPLE_RATE
from streamscribe.core.batching import BatchPolicy
from streamscribe.core.errors import BadRequest
from streamscribe.gateway.app import create_app, create_funasr_app
from streamscribe.gateway.auth import Authenticator, check_exposure
from streamscribe.gateway.collector import settle_collector
from streamscribe.gateway.drain import drain, stop_signals
from streamscribe.gateway.hub import Hub
from streamscribe.gateway.listener import Binding, Listener
from streamscribe.gateway.readiness import Readiness
from streamscribe.gateway.rest import routes
from streamscribe.gateway.tenant_watch import watch_tenants
from streamscribe.models.pool import Models
from streamscribe.models.ports import (
    Samples,
    SegmentRecognizer,
    SegmentRequest,
    VadOptions,
    VadRequest,
    VoiceActivityDetector,
)
from streamscribe.models.replica import Replica, StepReport
from streamscribe.observe.logs import get_logger
from streamscribe.observe.loop import probe_event_loop
from streamscribe.observe.metrics import Metrics
from streamscribe.settings import ModelSettings, Settings
from streamscribe.store.tenants import FileTenantStore
from streamscribe.text.pipeline import TextPipeline
from streamscribe.worker.runner import Worker

VAD_WAIT_MS = 1.0
"""A VAD step takes well under a millisecond: to wait longer for company would cost more than it saves."""

_log = get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Platform:
    """One process' parts, without a listener: sessions of `hub` are recognised by the worker behind it."""

    settings: Settings
    metrics: Metrics
    models: Models
    hub: Hub
    decoders: DecoderPool


@dataclass(frozen=True, slots=True)
class Listening:
    """Where a server listens, and how long it took from its start to its readiness."""

    url: str
    funasr_url: str | None
    ready_s: float
    warmup_s: dict[str, float]


def load_models(settings: ModelSettings, on_step: Callable[[StepReport], None] = lambda report: None) -> Models:
    """Loads the profile's engines and gives each its thread; `start` and `wait_ready` come next. Blocks.

    Raises ModelUnavailable where a model is not installed or its files have changed.
    """
    vad, recognizer = _engines(settings)
    recognizer_policy = BatchPolicy(
        max_batch_size=settings.max_batch_size, wait_ms=settings.batch_wait_ms, max_waiting_s=settings.max_waiting_s
    )
    vad_policy = BatchPolicy(max_batch_size=64, wait_ms=VAD_WAIT_MS, max_waiting_s=settings.max_waiting_s)
    noise = warm_up_audio()

    def warm_vad() -> None:
        vad.step([VadRequest(vad.open(VadOptions()), noise[: vad.block_samples], last=True)])

    def warm_recognizer() -> None:  # measured: after a draft, the first final is as quick as the third
        recognizer.recognize([SegmentRequest(noise, draft=True)])

    def failed(name: str, error: BaseException) -> None:
        if not isinstance(error, BadRequest):  # which is its client's affair, and told there
            _log.error("a model step failed", model=name, exc_info=error)

    return Models(
        vad=vad,
        vad_replica=Replica("vad", vad.step, policy=vad_policy, on_step=on_step, on_error=failed, warm_up=[warm_vad]),
        recognizer=recognizer,
        recognizer_replica=Replica(
            "recognizer",
            recognizer.recognize,
            policy=recognizer_policy,
            on_step=on_step,
            on_error=failed,
            warm_up=[warm_recognizer],
        ),
    )


def warm_up_audio() -> Samples:
    """A second of noise: no engine decodes silence, and what the warm-up does not run, the first client waits for."""
    return np.random.default_rng(0).normal(0, 0.1, SAMPLE_RATE).astype(np.float32)


def _engines(settings: ModelSettings) -> tuple[VoiceActivityDetector, SegmentRecognizer]:
    """The engines of a profile; each is imported only where it is used, for it brings its libraries along."""
    if settings.profile == "fake":
        from streamscribe.models.fake.recognizer import FakeRecognizer
        from streamscribe.models.fake.voice_activity import FakeVoiceActivityDetector

        return FakeVoiceActivityDetector(), FakeRecognizer(cost_ms=settings.fake_cost_ms)

    from streamscribe.models.encoder_decoder import EncoderDecoderRecognizer
    from streamscribe.models.fsmn_vad.detector import FsmnVad
    from streamscribe.models.registry import open_verified
    from streamscribe.models.whisper.model import WhisperModel

    directory = settings.dir.expanduser()
    threads = settings.threads or os.cpu_count() or 1
    files = open_verified("whisper-base", directory)
    whisper = WhisperModel(files, threads=threads, compute_type=settings.compute_type)
    return FsmnVad(open_verified("fsmn-vad", directory)), EncoderDecoderRecognizer(whisper)


@asynccontextmanager
async def platform(settings: Settings) -> AsyncIterator[Platform]:
    """A running platform; models load before it is given and warm up while it is in use (`models.ready`)."""
    metrics = Metrics()
    models = await asyncio.to_thread(load_models, settings.model, metrics.step_done)
    text = TextPipeline()
    bus = MemoryBus(settings.limits.max_backlog_s)
    hub = Hub(bus, settings.limits, metrics)
    worker = Worker(bus, models, text, settings.worker, metrics)
    decoders = DecoderPool(DecodeLimits.from_settings(settings.limits), max_children=settings.limits.max_files)
    async with AsyncExitStack() as stack:
        stack.push_async_callback(asyncio.to_thread, models.close)
        stack.push_async_callback(decoders.close)
        tasks = await stack.enter_async_context(asyncio.TaskGroup())
        running = [tasks.create_task(worker.run()), tasks.create_task(probe_event_loop(metrics.loop_lagged))]
        models.start()
        await decoders.start()
        warming = tasks.create_task(_warm(models, text, metrics))
        try:
            yield Platform(settings, metrics, models, hub, decoders)
        finally:
            await hub.close()
            await bus.close()
            for task in (*running, warming):
                task.cancel()


async def _warm(models: Models, text: TextPipeline, metrics: Metrics) -> None:
    await asyncio.to_thread(text.warm_up)
    await asyncio.to_thread(models.wait_ready)
    for name, seconds in models.warmup_s.items():
        metrics.warmed_up(name, seconds)


async def serve(settings: Settings, *, started_at: float, announce: Callable[[Listening], None]) -> None:
    """Serves until SIGTERM or SIGINT, then drains. `announce` is called once, when the models are warm.

    Raises SettingsError for a port that cannot be bound or an exposure nobody asked for, ModelUnavailable for models.
    """
    check_exposure(settings)
    gateway, limits = settings.gateway, settings.limits
    store = (
        FileTenantStore(gateway.tenants_file, default_max_sessions=limits.max_tenant_sessions)
        if (gateway.tenants_file)
        else None
    )
    auth = Authenticator(store, gateway, max_sessions=limits.max_tenant_sessions)
    async with stop_signals() as stop, platform(settings) as parts:
        readiness = Readiness({"models": lambda: parts.models.ready})
        rest = routes(parts.hub, parts.decoders, limits=limits, profile=settings.model.profile)
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
        bindings = [Binding(main, gateway.host, gateway.port, "gateway.port")]
        if gateway.funasr_port >= 0:
            funasr = create_funasr_app(
                parts.hub, auth, gateway=gateway, limits=limits, readiness=readiness, decode=parts.decoders.decode
            )
            bindings.append(Binding(funasr, gateway.host, gateway.funasr_port, "gateway.funasr_port"))
        async with Listener(bindings, gateway, limits) as listener, asyncio.TaskGroup() as tasks:
            watching = [tasks.create_task(watch_tenants(store))] if store else []
            waiting = tasks.create_task(stop.wait())
            await asyncio.to_thread(parts.models.wait_ready)
            settle_collector()
            host = f"[{gateway.host}]" if ":" in gateway.host else gateway.host
            announce(
                Listening(
                    url=f"http://{host}:{listener.ports[0]}",
                    funasr_url=f"ws://{host}:{listener.ports[1]}" if len(listener.ports) > 1 else None,
                    ready_s=monotonic() - started_at,
                    warmup_s=parts.models.warmup_s,
                )
            )
            await waiting
            for task in watching:
                task.cancel()
            await drain(parts.hub, readiness, gateway)
