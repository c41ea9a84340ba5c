"""A small cluster on this machine for trying it: all roles as processes, one address before the gateways."""

import asyncio
import signal
from collections.abc import Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from functools import partial
from time import monotonic
from typing import Protocol

import httpx
from pydantic import SecretStr

from streamscribe.bootstrap.cluster import services
from streamscribe.bootstrap.cluster.door import WORKERS
from streamscribe.bootstrap.cluster.front import Front
from streamscribe.bootstrap.cluster.plan import (
    Plan,
    finalizer_words,
    gateway_words,
    kafka_flags,
    surroundings,
    worker_words,
)
from streamscribe.bootstrap.cluster.preflight import check_here, check_there
from streamscribe.bootstrap.cluster.role import Audience, Role, RoleAddress
from streamscribe.bootstrap.cluster.roster import tell_standstill
from streamscribe.bootstrap.cluster.services import Service
from streamscribe.bootstrap.hangups import at_hangup
from streamscribe.bootstrap.kafka import ensure_topics
from streamscribe.core.counted import counted
from streamscribe.core.errors import ModelUnavailable
from streamscribe.gateway.drain import done_before, stop_signals
from streamscribe.gateway.listener import Address, bound
from streamscribe.settings import Settings

LOOK_EVERY_S = 0.25
LOOK_TIMEOUT_S = 2.0
PARTITIONS_EACH = 4
"""Of the audio, for each worker, where the broker is the cluster's own."""
OTHERS_LEAVE_S = 30.0
"""How long roles without clients may take to end."""
MORE_S = 10.0
"""What a gateway may take beyond its drain."""
KNOWN_WORKERS, ACTIVE_SESSIONS = "streamscribe_known_workers", "funasr_active_sessions"
"""Metrics of a gateway."""


@dataclass(frozen=True, slots=True)
class ClusterAddress:
    """Where a cluster that is ready takes clients, who is in it, and what commands beside it need (`surroundings`)."""

    url: str
    funasr_url: str | None
    ready_s: float
    roles: tuple[RoleAddress, ...]
    brokers: str
    environment: dict[str, str]


class Onlooker(Audience, Protocol):
    """Who is told what happens in a cluster."""

    def ready(self, cluster: ClusterAddress) -> None:
        """All roles are ready; told once."""
        ...


async def cluster_up(settings: Settings, plan: Plan, onlooker: Onlooker, *, started_at: float) -> None:
    """Runs it until SIGTERM or SIGINT; then gateways drain, then the others leave, then what was started for them ends.

    Its ports are `gateway.port` and `gateway.funasr_port`, on loopback. What it is not given (`kafka.brokers`,
    `store.redis_url`) it starts. SIGHUP goes to all workers and finalizers; where its terminal is gone, it ends all.

    Raises SettingsError for what it cannot be, and StoreUnavailable and BusUnavailable for what it is given and does
    not answer, all before it starts anything; ModelUnavailable where a role does not start, or had to be killed in the
    end; BusUnavailable where what it started for the roles has ended.
    """
    check_here(settings, plan)
    gateway = settings.gateway
    addresses = [Address(services.HOST, gateway.port, "gateway.port")]
    if gateway.funasr_port >= 0:
        addresses.append(Address(services.HOST, gateway.funasr_port, "gateway.funasr_port"))
    with bound(*addresses) as sockets:
        await check_there(settings, onlooker.step)
        async with stop_signals() as stop, AsyncExitStack() as stack:
            tasks = await stack.enter_async_context(asyncio.TaskGroup())
            cluster = _Cluster(settings, plan, onlooker, tasks)
            stack.enter_context(at_hangup(cluster.reload, without_terminal=stop.set))
            fronts = []
            if await done_before(stop, cluster.start()):
                for sock, ports in zip(sockets, (cluster.ports, cluster.funasr_ports), strict=False):
                    fronts.append(await stack.enter_async_context(Front(sock, ports)))
                onlooker.ready(cluster.address([front.port for front in fronts], monotonic() - started_at))
                await stop.wait()
            for front in fronts:
                front.close()
            await cluster.end()


class _Cluster:
    """The processes, in the order in which they start: services, then the roles together."""

    def __init__(self, settings: Settings, plan: Plan, onlooker: Onlooker, tasks: asyncio.TaskGroup) -> None:
        self._settings = settings
        self._plan = plan
        self._onlooker = onlooker
        self._tasks = tasks
        self._services: list[Service] = []
        self._gateways: dict[Role, asyncio.Task[int]] = {}
        self._others: dict[Role, asyncio.Task[int]] = {}
        self._fit: list[RoleAddress] = []
        self._known = False
        """Whether all gateways have heard of all workers."""
        self._looking: list[asyncio.Task[None]] = []

    def ports(self) -> list[int]:
        """Those of gateways that are ready; while no worker is there, of those that can say so."""
        return [_port(role.url) for role in self._fit]

    def funasr_ports(self) -> list[int]:
        """Their second ports."""
        return [_port(role.funasr_url) for role in self._fit if role.funasr_url]

    def address(self, fronts: Sequence[int], ready_s: float) -> ClusterAddress:
        """Who is in it."""
        urls = [f"{scheme}://{services.HOST}:{port}" for scheme, port in zip(("http", "ws"), fronts, strict=False)]
        roles = tuple(role.address for role in (*self._gateways, *self._others) if role.address is not None)
        around = surroundings(self._settings, self._plan)
        funasr_url = urls[1] if len(urls) > 1 else None
        return ClusterAddress(urls[0], funasr_url, ready_s, roles, self._settings.kafka.brokers, around)

    def reload(self) -> None:
        """Lets all workers and finalizers read their settings again; who is not there yet will read them anyway."""
        for role in self._others:
            role.hang_up()

    async def start(self) -> None:
        """Returns when all are ready. What fails ends the tasks' group."""
        plan = self._plan
        await self._start_services()
        roles = {"gateway": plan.gateways, "worker": plan.workers, "finalizer": plan.finalizers}
        counts = ", ".join(counted(count, name) for name, count in roles.items() if count)
        self._onlooker.step(f"starting {counts}")
        for number in range(plan.workers):
            self._keep(self._others, f"worker-{number}", *worker_words(self._settings, plan))
        for number in range(plan.finalizers):
            self._keep(self._others, f"finalizer-{number}", *finalizer_words(self._settings, plan))
        for number in range(plan.gateways):
            self._keep(self._gateways, f"gateway-{number}", *gateway_words(self._settings, plan))
        standstill = tell_standstill(self._settings, partial(self._onlooker.said, "cluster"))
        self._looking = [self._tasks.create_task(work) for work in (self._look(), standstill)]
        for role in (*self._gateways, *self._others):
            await role.ready.wait()
        while not self._known:  # noqa: ASYNC110 - nobody tells it
            await asyncio.sleep(LOOK_EVERY_S)

    async def end(self) -> None:
        """Lets all end in order; raises ModelUnavailable where a role did not in time, or not with 0."""
        gateway = self._settings.gateway
        drain_s = gateway.drain_grace_s + gateway.drain_timeout_s
        telling = self._tasks.create_task(self._tell_drain(drain_s)) if self._gateways else None
        late = await _ended(self._gateways, drain_s + MORE_S)
        if telling is not None:
            telling.cancel()
        for task in self._looking:
            task.cancel()
        if self._others:
            self._onlooker.step(f"letting workers{' and finalizers' if self._plan.finalizers else ''} leave")
        late += await _ended(self._others, OTHERS_LEAVE_S)
        if self._services:
            self._onlooker.step(f"ending {' and '.join(service.name for service in self._services)}")
        for service in self._services:
            service.stop()
        if late:
            raise ModelUnavailable(f"did not end in time, or not with 0: {', '.join(late)}")

    async def _start_services(self) -> None:
        """Those that the settings do not name; then they do."""
        settings, kafka = self._settings, self._settings.kafka
        if not kafka.brokers:
            port = services.free_port()
            await self._serve("the broker", services.broker_command(port), port)
            plan, brokers = self._plan, f"{services.HOST}:{port}"
            own = {
                "brokers": brokers,
                "replication": 1,
                "audio_partitions": PARTITIONS_EACH * plan.workers,
                "result_partitions": 2 * plan.gateways,  # who starts again waits for none that died
                "finalize_partitions": max(1, plan.finalizers),
            }
            kafka = kafka.model_copy(update=own)
            self._onlooker.step("making the topics")
            await asyncio.to_thread(ensure_topics, settings.model_copy(update={"kafka": kafka}))
        store = settings.store
        if store.redis_url is None:
            port = services.free_port()
            await self._serve("Redis", services.redis_command(port), port)
            store = store.model_copy(update={"redis_url": SecretStr(f"redis://{services.HOST}:{port}/0")})
        self._settings = settings.model_copy(update={"kafka": kafka, "store": store})

    async def _serve(self, name: str, command: Sequence[str], port: int) -> None:
        self._onlooker.step(f"starting {name}")
        service = await Service.start(name, command, port)
        self._services.append(service)
        self._tasks.create_task(service.run())
        await service.listens()

    def _keep(self, roles: "dict[Role, asyncio.Task[int]]", name: str, *words: str) -> None:
        redis_url = self._settings.store.redis_url
        environment = {
            "REDIS_URL": redis_url.get_secret_value() if redis_url else ""
        }  # which no list of processes shows
        flags = kafka_flags(self._settings.kafka)
        role = Role(name, (*words, *flags), environment, self._onlooker)
        roles[role] = self._tasks.create_task(role.keep())

    async def _tell_drain(self, drain_s: float) -> None:
        """Who presses Ctrl-C sees what is waited for, how long it may take, and how to wait no longer."""
        loop = asyncio.get_running_loop()
        until = loop.time() + drain_s
        self._onlooker.step("draining the gateways")
        told = 0.0
        async with httpx.AsyncClient(timeout=LOOK_TIMEOUT_S) as http:
            while True:
                known = [role.address for role in self._gateways if role.address is not None]
                count = sum(await asyncio.gather(*(_metric(http, role, ACTIVE_SESSIONS) for role in known)))
                if count and count != told:
                    self._onlooker.step(
                        f"waiting for {counted(int(count), 'open session')}, {max(0.0, until - loop.time()):.0f} s at "
                        "most; another Ctrl-C ends all at once"
                    )
                told = count
                await asyncio.sleep(LOOK_EVERY_S)

    async def _look(self) -> None:
        """Asks gateways whether they are ready, again and again, as a balancer does."""
        async with httpx.AsyncClient(timeout=LOOK_TIMEOUT_S) as http:
            while True:
                known = [role.address for role in self._gateways if role.address is not None]
                lacks = dict(zip(known, await asyncio.gather(*(_lacking(http, role) for role in known)), strict=True))
                ready = [role for role, lacking in lacks.items() if lacking == []]
                self._fit = ready or [role for role, lacking in lacks.items() if lacking == [WORKERS]]
                if not self._known and len(self._fit) == self._plan.gateways:
                    knowing = [await _metric(http, role, KNOWN_WORKERS) for role in self._fit]
                    self._known = min(knowing) >= self._plan.workers
                await asyncio.sleep(LOOK_EVERY_S)


async def _ended(roles: "dict[Role, asyncio.Task[int]]", timeout_s: float) -> list[str]:
    """Stops roles together; the names of those that did not end in time, or with 0."""
    if not roles:
        return []
    for role in roles:
        role.stop()
    await asyncio.wait(roles.values(), timeout=timeout_s)
    late = []
    for role, task in roles.items():
        if not task.done():
            role.signal(signal.SIGKILL)
        if await task not in (0, -signal.SIGTERM):  # one that was starting has no handler yet
            late.append(role.name)
    return late


async def _lacking(http: httpx.AsyncClient, role: RoleAddress) -> list[str] | None:
    """What it waits for; None where it does not answer."""
    try:
        told: list[str] | None = (await http.get(f"{role.url}/readyz")).json().get("waiting_for")
    except httpx.HTTPError:
        return None
    return told


async def _metric(http: httpx.AsyncClient, role: RoleAddress, name: str) -> float:
    """The sum over its labels; 0 where it does not answer."""
    try:
        text = (await http.get(f"{role.url}/metrics")).text
    except httpx.HTTPError:
        return 0.0
    told = [line for line in text.splitlines() if line.startswith((f"{name} ", f"{name}{{"))]
    return sum(float(line.rpartition(" ")[2]) for line in told)


def _port(url: str) -> int:
    return int(url.rpartition(":")[2])
