"""What a worker and a finalizer have in common: a process that tells how it is, and says when it has begun to work."""

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping
from contextlib import ExitStack, asynccontextmanager
from dataclasses import dataclass, field
from socket import socket
from time import monotonic
from typing import Any

from streamscribe.bootstrap.cluster.board import BoardWork, Look, on_board
from streamscribe.bootstrap.cluster.health import Readiness, metrics_door
from streamscribe.bootstrap.cluster.loop_watch import loop_watch
from streamscribe.bootstrap.hangups import hangups
from streamscribe.cache.levels import Levels
from streamscribe.gateway.app import create_health_app
from streamscribe.gateway.auth import Doorkeeper
from streamscribe.gateway.drain import stop_signals
from streamscribe.gateway.listener import Address, Binding, Listener, bound, url_here
from streamscribe.observe.metrics import Metrics
from streamscribe.settings import Settings


@dataclass(frozen=True, slots=True)
class Working:
    """Where a worker or finalizer tells how it is, and how long it took to be ready."""

    url: str
    ready_s: float
    warmup_s: dict[str, float]


Announce = Callable[[Working], None]


@dataclass(slots=True)
class Member:
    """Such a process, as `member` gives it; `stop` and `hung_up` are set by signals."""

    stop: asyncio.Event
    hung_up: asyncio.Event
    metrics: Metrics = field(default_factory=Metrics, init=False)
    _settings: Settings
    _address: Address
    _socket: socket
    _door: Doorkeeper
    _started_at: float
    _announce: Announce
    _watching: ExitStack
    _url: str = field(default="", init=False)

    @asynccontextmanager
    async def tells(
        self, readiness: Readiness, *works: Callable[[], Coroutine[Any, Any, object]]
    ) -> AsyncIterator[None]:
        """As long as this lasts probes and scrapers hear how it is, and `works` go on; what one raises ends it."""
        binding = Binding(create_health_app(self.metrics, readiness, self._door), self._socket)
        async with (
            Listener([binding], self._settings.gateway, self._settings.limits) as listener,
            asyncio.TaskGroup() as tasks,
        ):
            self._url = url_here("http", self._address.host, listener.ports[0])
            running = [tasks.create_task(work()) for work in works]
            yield
            for task in running:
                task.cancel()

    @asynccontextmanager
    async def works(
        self,
        name: str,
        joined: asyncio.Event,
        look: Look,
        levels: Levels,
        warmup_s: Mapping[str, float],
        *others: BoardWork,
    ) -> AsyncIterator[None]:
        """Within `tells`: as long as this lasts it is on the board, as `on_board` says, and once the group has given it
        its share it is announced; before that it can do nothing for anybody.

        From here to the end of `member` it is watched: the imports before may hold the loop for long.
        """
        self._watching.enter_context(loop_watch(self._settings.worker.hang_timeout_s))
        async with on_board(self._settings.store, name, look, levels, *others), asyncio.TaskGroup() as tasks:
            telling = tasks.create_task(self._tell(joined, dict(warmup_s)))
            yield
            telling.cancel()

    async def _tell(self, joined: asyncio.Event, warmup_s: dict[str, float]) -> None:
        await joined.wait()
        self._announce(Working(self._url, monotonic() - self._started_at, warmup_s))


@asynccontextmanager
async def member(
    settings: Settings, address: Address, *, started_at: float, announce: Announce
) -> AsyncIterator[Member]:
    """Takes the address, signals, and who may scrape; ends the process where its loop stands still once it works.

    Raises SettingsError for an address that cannot be had and a tenants file that cannot be used.
    """
    with hangups() as hung_up, bound(address) as sockets, ExitStack() as watching:
        async with stop_signals() as stop, metrics_door(settings) as door:
            yield Member(stop, hung_up, settings, address, sockets[0], door, started_at, announce, watching)
