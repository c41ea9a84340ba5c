"""How a process of a cluster is: whether its brokers and its store answer, and who may ask for its metrics."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from time import monotonic
from typing import NoReturn

from streamscribe.bootstrap.tenants import open_tenants
from streamscribe.core.errors import StreamScribeError
from streamscribe.gateway.auth import Authenticator, Doorkeeper, NobodyElse
from streamscribe.gateway.tenant_watch import watch_tenants
from streamscribe.observe.logs import get_logger
from streamscribe.settings import Settings

CHECK_EVERY_S = 1.0

_log = get_logger(__name__)


class Health:
    """Asks each of some things again and again; what does not answer is in `lacking`, and in the log once.

    The log is told where it has not answered twice in a row: while a process starts, its models hold it up for longer
    than a first call, which connects, may take.
    """

    def __init__(
        self, checks: dict[str, Callable[[], Awaitable[object]]], clock: Callable[[], float] = monotonic
    ) -> None:
        self._checks = checks
        self._clock = clock
        self._errors: dict[str, StreamScribeError] = {}
        self._since: dict[str, float] = {}
        self._told: set[str] = set()

    def lacking(self) -> list[str]:
        """The names of what does not answer, or of the part of it that its error names."""
        return [error.field or name for name, error in self._errors.items()]

    def error(self, name: str) -> StreamScribeError | None:
        """Why it does not answer; None where it does."""
        return self._errors.get(name)

    def away_s(self, name: str) -> float:
        """For how long it has not answered; 0 where it does."""
        return self._clock() - self._since[name] if name in self._errors else 0.0

    async def watch(self) -> NoReturn:
        """Until cancelled."""
        while True:
            await self.look()
            await asyncio.sleep(CHECK_EVERY_S)

    async def look(self) -> None:
        """Asks each once."""
        await asyncio.gather(*map(self._check, self._checks))

    async def _check(self, name: str) -> None:
        try:
            await self._checks[name]()
        except StreamScribeError as error:
            if name not in self._errors:
                self._since[name] = self._clock()
            elif name not in self._told:
                self._told.add(name)
                _log.warning("no answer", component=name, code=error.code, detail=error.message)
            self._errors[name] = error
        else:
            self._errors.pop(name, None)
            if name in self._told:
                self._told.remove(name)
                _log.info("answers again", component=name)


class Readiness:
    """The answer of `/readyz` of a process that has models: they, what `health` asks, whether its group has given it
    its share of the work, and whether it is `leaving`."""

    def __init__(self, not_ready: Callable[[], Sequence[str]], health: Health, joined: asyncio.Event) -> None:
        """`not_ready` names models; `joined` is set also for one that is to have nothing: it stands by."""
        self._not_ready = not_ready
        self._health = health
        self._joined = joined
        self.leaving = False

    def waiting_for(self) -> list[str]:
        """What is not ready."""
        models = [f"model {name}" for name in self._not_ready()]
        group = [] if self._joined.is_set() else ["group"]
        return [*models, *self._health.lacking(), *group, *(["drain"] if self.leaving else [])]


async def fail_with(failed: Callable[[], Awaitable[StreamScribeError]]) -> NoReturn:
    """Raises what something has `failed` with, once it has; ends by cancellation else."""
    raise await failed()


@asynccontextmanager
async def metrics_door(settings: Settings) -> AsyncIterator[Doorkeeper]:
    """Who may read the metrics of a process without clients, from other machines: those with a key of the gateway's
    tenants file, all with `gateway.no_auth`, else nobody. Raises SettingsError for a file that cannot be used."""
    gateway, store = settings.gateway, open_tenants(settings)
    if store is None and not gateway.no_auth:
        yield NobodyElse()
        return
    async with asyncio.TaskGroup() as tasks:
        watching = tasks.create_task(watch_tenants(store)) if store else None
        try:
            yield Authenticator(store, gateway, max_sessions=settings.limits.max_tenant_sessions)
        finally:
            if watching is not None:
                watching.cancel()
