"""The half of a platform that has the models: it works for whatever bus it is given."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from typing import Protocol, TypeVar

from streamscribe.bootstrap.caches import Caches, check_context, open_caches
from streamscribe.bootstrap.desk import sweep
from streamscribe.bootstrap.models import ModelLoader
from streamscribe.bootstrap.reload import Reloading, roles_of
from streamscribe.models.memory import share_heap
from streamscribe.models.pool import Models, Recognition
from streamscribe.models.replica import StepReport
from streamscribe.observe.loop import probe_event_loop
from streamscribe.observe.metrics import Metrics
from streamscribe.ports import WorkerBus
from streamscribe.settings import Settings, SettingsError
from streamscribe.text.pipeline import TextPipeline
from streamscribe.worker.runner import Worker

Fact = TypeVar("Fact")


class LoadObserver(Protocol):
    """Who learns how busy the worker's side is. Called in any thread: quick and thread-safe."""

    def step_done(self, report: StepReport) -> None:
        """A model ran a batch."""
        ...

    def loop_lagged(self, seconds: float) -> None:
        """The event loop ran a timer so late."""
        ...


@dataclass(frozen=True, slots=True)
class WorkerSide:
    """A running worker, and what is asked of it besides sessions."""

    worker: Worker
    models: Models
    caches: Caches
    reloading: Reloading


@asynccontextmanager
async def worker_side(
    settings: Settings,
    bus: WorkerBus,
    metrics: Metrics,
    load: LoadObserver,
    *,
    watch: Callable[[Models], None] = lambda models: None,
    warm_first: bool = False,
    elsewhere: Recognition | None = None,
) -> AsyncIterator[WorkerSide]:
    """Models load before it is given and warm up while it is in use (`models.ready`).

    `watch` is called with the models when they are loaded, and when one was replaced. With `warm_first` no session is
    taken from the bus before they are warm. What recognises whole segments may be `elsewhere`; raises SettingsError
    where it is to be and is not.
    """
    if settings.finalizer.enabled and elsewhere is None:
        raise SettingsError("setting finalizer.enabled: finalizers work for `streamscribe worker`, in a cluster, only")
    check_context(settings)
    share_heap()
    caches = await asyncio.to_thread(open_caches, settings.cache, one_tenant=settings.gateway.tenants_file is None)
    loader = ModelLoader(
        both(metrics.step_done, load.step_done),
        caches=caches,
        registry=metrics.registry,
        on_ejected=metrics.model_ejected,
        elsewhere=elsewhere,
    )
    models = await asyncio.to_thread(loader.models, settings.model)
    watch(models)
    text = TextPipeline()
    worker = Worker(
        bus,
        models,
        text,
        settings.worker,
        metrics,
        caches.open_transcripts(),
        context_ttl_s=settings.cache.context_cache_ttl,
    )
    async with AsyncExitStack() as stack:
        stack.push_async_callback(asyncio.to_thread, caches.levels.close)
        stack.push_async_callback(asyncio.to_thread, models.close)
        tasks = await stack.enter_async_context(asyncio.TaskGroup())
        probe = probe_event_loop(both(metrics.loop_lagged, load.loop_lagged))
        running = [tasks.create_task(work) for work in (_work(worker, models, warm_first), probe, models.watch())]
        running.append(tasks.create_task(sweep(caches.levels)))
        models.start()
        running.append(tasks.create_task(_warm(models, text, metrics)))

        def replaced() -> None:
            models.tell_population()
            watch(models)

        reloading = Reloading(roles_of(models, loader), settings.model, metrics, replaced=replaced)
        try:
            yield WorkerSide(worker, models, caches, reloading)
        finally:
            for task in running:
                task.cancel()


def both(first: Callable[[Fact], None], second: Callable[[Fact], None]) -> Callable[[Fact], None]:
    """Tells a fact to the one, then to the other."""

    def tell(fact: Fact) -> None:
        first(fact)
        second(fact)

    return tell


async def _work(worker: Worker, models: Models, warm_first: bool) -> None:
    if warm_first:
        await asyncio.to_thread(models.wait_ready)
    await worker.run()


async def _warm(models: Models, text: TextPipeline, metrics: Metrics) -> None:
    await asyncio.to_thread(text.warm_up)
    await asyncio.to_thread(models.wait_ready)
    for name, seconds in models.warmup_s.items():
        metrics.warmed_up(name, seconds)
