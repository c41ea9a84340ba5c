"""One run of the simulation: everything in it follows from its seed. `python -m tests.sim.run SEED` repeats it."""

import asyncio
import hashlib
import random
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any
from unittest.mock import patch

import msgspec

from streamscribe.bus.kafka.finals import answering
from streamscribe.core.ids import SessionId
from streamscribe.core.records import AudioChunk, Record
from streamscribe.models.ports import Origin
from streamscribe.wire.native_server import ConnectedMessage, ResultMessage, ServerWire
from tests.sim import oracle
from tests.sim.client import SimClient
from tests.sim.clock import VirtualLoop, run_virtually
from tests.sim.cluster import ORPHANED_AFTER_S, Cluster
from tests.sim.faults import CLUSTER_KINDS, FINALIZER_KINDS, FINALS_KINDS, KINDS, Fault, plan
from tests.sim.finals import MAX_INSIDE, FinalizerFleet, is_expected
from tests.sim.gateway import GatewayProcess, InOrder
from tests.sim.kafka_site import KafkaSite
from tests.sim.local import Site
from tests.sim.network import Delay, WebSocket
from tests.sim.places import Places
from tests.sim.script import VARIETIES, Say, script
from tests.sim.store import LEASE_TTL_S, SEAT_TTL_S

LIVENESS_S = 60.0
DEADLY_SHARE = 0.06
"""Of the runs of a cluster: in these a client says something at which workers end; in others, finalizers."""
DEADLY_SEGMENTS = 3
"""It is one of a client's first so many."""
DEADLY_SEGMENT_SHARE = 0.06
"""Of the runs without finalizers: in these workers end in the step for one of a client's finals."""
LATE_SHARE = 0.03
"""Of the records of some clusters: their brokers show later ones before them."""
TWICE_SHARE = 0.05
"""Of the requests and batches of some clusters: their records are stored twice, or given again."""
CHECK_EVERY_S = 0.250_137


@dataclass
class Run:
    """What happened."""

    seed: int
    clients: list[SimClient] = field(default_factory=list)
    sites: list[GatewayProcess] = field(default_factory=list)
    faults: list[Fault] = field(default_factory=list)
    cluster: Cluster | None = None
    """Of an odd seed."""
    deadly: tuple[str, int] | None = None
    """Each worker ends at the chunk of this sequence of this client."""
    deadly_segment: tuple[str, int] | None = None
    """At the segment of this number of this client each finalizer ends; where there are none, each worker, in the step
    for the segment's final."""
    happened: Counter[str] = field(default_factory=Counter)
    trace: list[tuple[Any, ...]] = field(default_factory=list)
    virtual_s: float = 0.0

    def note(self, *what: Any) -> None:
        """Adds to the trace."""
        self.trace.append((round(asyncio.get_running_loop().time(), 6), *what))

    def records(self, session_id: SessionId) -> list[Record]:
        """What the bus has of a session."""
        return next((records for site in self.sites if (records := site.records(session_id))), [])

    def quarantined(self) -> set[SessionId]:
        """Sessions that are tried no more."""
        found = {one for site in self.sites for one in site.counts.quarantined}
        return found if self.cluster is None else found | self.cluster.quarantined()

    def is_deadly(self, record: Record) -> bool:
        """Whether a worker ends at it."""
        if self.deadly is None or not isinstance(record, AudioChunk):
            return False
        name, sequence = self.deadly
        return any(
            client.session_id == record.session_id and sequence == record.sequence
            for client in self.clients
            if client.name == name
        )

    def is_deadly_segment(self, origin: Origin) -> bool:
        """Whether who recognises it ends."""
        if self.deadly_segment is None:
            return False
        name, segment_id = self.deadly_segment
        return segment_id == origin.segment_id and any(
            client.session_id == origin.session_id for client in self.clients if client.name == name
        )

    @property
    def met(self) -> Counter[str]:
        """How often each thing was met that goes wrong, whether it was planned or not."""
        found = Counter(self.happened)
        if self.cluster is not None:
            found.update(self.cluster.broker.met + self.cluster.store.met)
        found["reconnect"] = sum(client.disconnects for client in self.clients)
        found["moved to another gateway"] = sum(site.counts.moved_here for site in self.sites)
        found["takeovers"] = sum(site.counts.taken_over for site in self.sites)
        found["fenced"] = sum(site.counts.fenced for site in self.sites)
        if self.cluster is not None:
            found["takeovers"] += self.cluster.taken_over
            found["fenced by the store"] = self.cluster.store.sessions.counts().fenced
        return found

    @property
    def trace_hash(self) -> str:
        """Equal for two runs of one seed."""
        return hashlib.sha256(repr(self.trace).encode()).hexdigest()


def simulate(seed: int) -> Run:
    """Runs a seed and holds it against the laws; raises AssertionError where one is broken.

    Even seeds have the local bus, odd ones the Kafka bus, every fourth of these with finalizers.
    """
    run = Run(seed)
    random.seed(seed)  # what the platform itself draws: when clients of a drain come back

    async def main() -> None:
        await _Stage(run).play()

    try:
        with patch.object(answering, "MAX_INSIDE", MAX_INSIDE), patch.object(asyncio.TaskGroup, "__init__", _in_order):
            _, loop = run_virtually(main)
        _nothing_left(loop)
        for client in run.clients:
            oracle.check(run, client)
        oracle.quarantines(run)
        oracle.quota(run)
        oracle.law_2(run)
        oracle.attempts_are_over(run)
    except BaseException as error:
        error.add_note(f"seed {seed}: repeat it with  .venv/bin/python -m tests.sim.run {seed}")
        raise
    return run


def _in_order(self: Any, begin: Callable[[Any], None] = asyncio.TaskGroup.__init__) -> None:
    """A group of tasks cancels them in the order of their begin, in each run."""
    begin(self)
    self._tasks = InOrder()


def _nothing_left(loop: VirtualLoop) -> None:
    failures = [failure for failure in loop.failures if not is_expected(failure)]
    assert not failures, f"the loop was told of {failures}"
    assert not loop.left, f"tasks are left: {loop.left}"
    assert not loop.timers(), f"timers are left: {loop.timers()}"


class _Stage:
    def __init__(self, run: Run) -> None:
        self.run = run
        self.rng = random.Random(run.seed)
        self.loop = asyncio.get_running_loop()
        self._places: Places

    async def play(self) -> None:
        """Clients speak while faults come; then all must end in time."""
        run, rng = self.run, self.rng
        workers = rng.choice((1, 2, 2, 3))
        gateways = rng.choice((1, 1, 2))
        if run.seed % 2:
            with_finalizers = run.seed % 8 == 5
            run.cluster = cluster = Cluster(
                rng, workers, run.is_deadly, run.is_deadly_segment, finalizers=with_finalizers
            )
            cluster.broker.late_share = LATE_SHARE if run.seed % 8 == 7 or run.seed % 32 == 5 else 0.0
            cluster.broker.twice_share = TWICE_SHARE if run.seed % 16 in (9, 15) or run.seed % 32 == 21 else 0.0
            run.sites += [await KafkaSite.start(cluster) for _ in range(rng.choice((1, 2, 2, 3)))]
        else:
            run.sites += [Site(f"gateway-{number}", rng, workers, run.is_deadly_segment) for number in range(gateways)]
        self._places = Places(run, rng)
        began_s = self.loop.time()
        for number in range(rng.randrange(1, 5)):
            self._enrol(number)
        if run.cluster is not None:
            run.cluster.max_sessions = max(1, len(run.clients) - (run.seed % 16 == 7))
        self._draw_deadly()
        tasks = [self.loop.create_task(self._client(client)) for client in run.clients]
        checking = self.loop.create_task(self._check())
        kinds = KINDS if run.cluster is None else CLUSTER_KINDS if self._fleet is None else FINALS_KINDS
        run.faults = plan(rng, [client.name for client in run.clients], len(run.sites), workers, kinds)
        faulting = self.loop.create_task(self._faults())
        try:
            await faulting
            longest_s = max(client.script.ends_s for client in run.clients)
            at = max(self.loop.time(), began_s + longest_s)
            done, pending = await asyncio.wait(tasks, timeout=at - self.loop.time() + LIVENESS_S)
            assert not pending, f"not live: {[client.name for client in run.clients if not client.over]}"
            for task in done:
                task.result()
            for site in run.sites:
                async with asyncio.timeout(LIVENESS_S):
                    await site.hub.wait_empty()
            if run.cluster is not None:  # sessions without gateways end too
                run.cluster.store.unsure = 0.0
                assert await run.cluster.is_idle(ORPHANED_AFTER_S + LIVENESS_S), "workers keep sessions that nobody has"
        finally:
            for task in (*tasks, checking, faulting):
                task.cancel()
            await asyncio.wait((*tasks, checking, faulting))
            await self._places.close()
            for site in run.sites:
                await site.close()
            if run.cluster is not None:
                await run.cluster.close()
        if not checking.cancelled():
            checking.result()
        await self._settle()
        run.virtual_s = self.loop.time() - began_s

    def _draw_deadly(self) -> None:
        run, rng = self.run, self.rng
        if run.cluster is not None and rng.random() < DEADLY_SHARE:
            victim = rng.choice(run.clients)
            chunks = sum(isinstance(action, Say) for action in victim.script.actions)
            run.deadly = victim.name, rng.randrange(chunks)
        share = 2 * DEADLY_SHARE
        if self._fleet is None:
            rng, share = random.Random(f"{run.seed} deadly segment"), DEADLY_SEGMENT_SHARE
        if rng.random() < share:
            run.deadly_segment = rng.choice(run.clients).name, rng.randrange(DEADLY_SEGMENTS)

    @property
    def _fleet(self) -> FinalizerFleet | None:
        return None if self.run.cluster is None else self.run.cluster.finalizers

    async def _settle(self) -> None:
        """What is still under way between processes that are gone arrives nowhere."""
        await asyncio.sleep(5.0)

    def _enrol(self, number: int) -> None:
        rng = random.Random(f"{self.run.seed} client {number}")
        name = f"client-{number}"
        self.run.clients.append(SimClient(name, script(rng.randrange(VARIETIES)), self._connect, rng, self._told))
        self._places.enrol(name)

    async def _client(self, client: SimClient) -> None:
        await asyncio.sleep(self.rng.uniform(0, 3))
        await client.run()
        self.run.note("over", client.name)

    def _connect(self, name: str) -> WebSocket:
        socket = WebSocket(Delay(self.rng, 0.02, slow=0.02, slow_s=0.5))
        self.loop.call_later(self.rng.uniform(0, 0.05), self._places.door(name).serve, socket, name)
        return socket

    def _told(self, name: str, message: ServerWire) -> None:
        self.run.note(name, *_told(message))

    async def _check(self) -> None:
        while True:
            for site in self.run.sites:
                site.check_integrity()
            if self.run.cluster is not None:
                self.run.cluster.check_integrity()
            await asyncio.sleep(CHECK_EVERY_S)
            await self._rest()

    async def _rest(self) -> None:
        """Returns when what was let go has unwound, which takes some turns, or stands still."""
        for _ in range(200):
            await asyncio.sleep(0)
            if not any(task.cancelling() for task in asyncio.all_tasks()):
                return

    async def _faults(self) -> None:
        began_s = self.loop.time()
        later: set[asyncio.Task[None]] = set()
        for fault in self.run.faults:
            await asyncio.sleep(began_s + fault.at_s - self.loop.time())
            self.run.note("fault", fault)
            later.add(self.loop.create_task(self._do(fault)))
        if later:
            await asyncio.wait(later)
        for task in later:
            task.result()

    async def _do(self, fault: Fault) -> None:
        if await self._happens(fault):
            self.run.happened[fault.kind] += 1

    async def _happens(self, fault: Fault) -> bool:
        """Returns when the fault is over; False where there was nothing that it could befall."""
        if self._fleet is not None and fault.kind in FINALIZER_KINDS:
            return await self._fleet.suffers(fault)
        site = self._places.now[fault.site]
        process = site.processes.get(fault.worker)
        match fault.kind:
            case "crash" if process is not None:
                process.cause = "exit" if fault.suspect else "memory"
                await process.end()
            case "freeze" if process is not None:
                if fault.for_s > LEASE_TTL_S and process.worker.sessions:
                    self.run.happened["freeze past the lease"] += 1
                await process.node.stand_still(fault.for_s)
            case "move" if process is not None and process.joined:
                process.cause = "moved"
            case "stall" if not (home := self._places.home(fault.client)).closed:
                await self._places.stall(home, min(6 * fault.for_s, 2 * SEAT_TTL_S), given_up=fault.suspect)
            case "jump":
                self.loop.jump(fault.for_s)
            case "outage":
                site.outage(self.loop.time() + fault.for_s)
                for one in list(site.processes.values()):
                    one.cause = "memory"
                    await one.end()
            case "store" | "broker" | "empty" if self.run.cluster is not None:
                site.lose(fault.kind, self.loop.time() + fault.for_s)
            case "disconnect" | "vanish":
                client = next(one for one in self.run.clients if one.name == fault.client)
                return client.lose_connection(
                    for_s=fault.for_s, noticed_after_s=fault.noticed_s, for_good=fault.kind == "vanish"
                )
            case "drain" if not (site.closed or site.drained):
                await site.drain()
                if self.run.cluster is not None:
                    await site.close()
                await self._places.replace(site)
            case "die" if not site.closed:
                await site.die()
                await asyncio.sleep(fault.for_s)
                await self._places.replace(site)
            case "bus" if not site.closed:
                await site.lose_bus()
                await self._places.replace(site)
            case _:
                return False
        return True


def _told(message: ServerWire) -> tuple[Any, ...]:
    """What of a message follows from the seed: ids and tokens are drawn from the system's secrets."""
    if isinstance(message, ConnectedMessage):
        return ("connected",)
    if isinstance(message, ResultMessage):
        return ("result", message.version, message.segment_id, message.pass_, message.is_final, message.text)
    return tuple(value for value in msgspec.structs.astuple(message) if not isinstance(value, list))


if __name__ == "__main__":
    from tests.sim.long import main

    main()
