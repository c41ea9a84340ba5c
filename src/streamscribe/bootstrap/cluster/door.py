"""Whom a gateway of a cluster lets in: whose audio can be carried, and whom a worker would take."""

from collections.abc import Callable, Mapping
from functools import partial
from itertools import islice
from secrets import token_hex
from time import monotonic

from streamscribe.bootstrap.cluster.health import Health
from streamscribe.core.admission import LoadAdmission
from streamscribe.core.batching import OVERLOAD_RETRY_S
from streamscribe.core.cluster_load import ClusterLoad, WorkerGauge, WorkerLoad
from streamscribe.core.errors import ModelUnavailable, Overloaded, StreamScribeError
from streamscribe.core.ids import SessionId, TenantId
from streamscribe.core.options import SessionOptions
from streamscribe.observe.load import OUTAGE, LoadControl
from streamscribe.settings import LimitSettings

BUS, STORE, WORKERS = "bus", "store", "workers"
ADMITTED_AWAY_S = 5.0
"""So long, at most, newcomers are let in while the store does not answer: no worker can have them until it does. A
moment's outage is over by then; of a longer one they are told at once."""
NO_WORKER_RETRY_S = 5.0
FINALS = "finals"
"""Why a session is refused whose tenant's segments wait too long for finalizers."""
CHOICES = 8
"""Ids among which a new session's is chosen: of many gateways with the same view not all choose the same worker."""
DRAWS = 64
"""So many ids are drawn, at most, for `CHOICES` of partitions that have an owner."""


class WorkersDoor:
    """Admission by what workers tell of their load. A session's worker is that of its partition, so that its id says
    whose it will be.

    While nothing is `known` of any, as at a store that does not answer, it lets all in. For one event loop.
    """

    def __init__(
        self,
        limits: LimitSettings,
        gateway: int,
        partition_of: Callable[[SessionId], int],
        shed: Callable[[str], None],
        clock: Callable[[], float] = monotonic,
    ) -> None:
        """`gateway`: the number of results' partition, under which workers tell this gateway's voices."""
        self._limits = limits
        self._partition_of = partition_of
        self._shed = shed
        self._clock = clock
        self._books = ClusterLoad(gateway)
        self._doors: dict[str, LoadAdmission] = {}
        self.known = False

    @property
    def count(self) -> int:
        """How many tell their load."""
        return len(self._doors)

    @property
    def nobody_serves(self) -> bool:
        """Whether it is known that no worker takes sessions, or that none has had a partition for long."""
        ill = all((load := self._books.load(one)) is None or load.outage for one in self._doors)
        return self.known and (ill or self._books.all_unowned_too_long(self._clock()))

    def heard(self, loads: Mapping[str, WorkerLoad] | None) -> None:
        """All that workers tell now; None where that cannot be known."""
        self.known = loads is not None
        self._books.heard(loads or {}, self._clock())
        limits = self._limits
        self._doors = {
            worker: self._doors.get(worker)
            or LoadAdmission(
                WorkerGauge(self._books, worker),
                limits.max_utilisation,
                limits.max_lag_ms / 1000,
                limits.max_newcomers,
                limits.priority_reserve,
            )
            for worker in self._books.workers
        }

    def new_id(self, tenant: TenantId) -> SessionId:
        """An id of the bus for a session of a tenant that is to begin: of a worker that has less to do than others."""
        ids = (SessionId(token_hex(16)) for _ in range(DRAWS))
        owned = islice((one for one in ids if self._owner(one) is not None), CHOICES)
        return min(owned, key=lambda one: self._rank(self._owner(one), tenant, 1), default=SessionId(token_hex(16)))

    def admit(
        self,
        options: SessionOptions,
        session_id: SessionId,
        tenant: TenantId,
        *,
        yields: bool = False,
        resumes: bool = False,
    ) -> StreamScribeError | None:
        """Counts a session, or says why not and counts nothing. One that resumes is only counted."""
        partition, voices, now = self._partition_of(session_id), options.audio.channels, self._clock()
        if self.known and not resumes and (refusal := self._refusal(partition, options, tenant, now, yields=yields)):
            return refusal
        self._books.seat(session_id, partition, voices if options.live else 0, now)
        return None

    def release(self, session_id: SessionId) -> None:
        """The session is over."""
        self._books.forget(session_id, self._clock())

    def check_integrity(self) -> None:
        """The equation of its books."""
        self._books.check_integrity()

    def _refusal(
        self, partition: int, options: SessionOptions, tenant: TenantId, now: float, *, yields: bool
    ) -> StreamScribeError | None:
        voices = options.audio.channels
        worker = self._books.owner(partition)
        if worker is None and not self._books.unowned_too_long(partition, now):
            # its partition moves; who will have it is not known
            worker = min(self._books.workers, key=partial(self._rank, tenant=tenant, voices=voices), default=None)
        load = self._books.load(worker) if worker is not None else None
        if worker is None or load is None or load.outage:
            self._shed(OUTAGE)
            return ModelUnavailable("no worker is ready", retry_after_s=NO_WORKER_RETRY_S)
        if not options.live:
            return None
        shed = FINALS if tenant in load.late else self._doors[worker].admit(voices, now, yields=yields)
        if shed is None:
            return None
        self._shed(shed)
        return Overloaded(retry_after_s=OVERLOAD_RETRY_S)

    def _owner(self, session: SessionId) -> str | None:
        return self._books.owner(self._partition_of(session))

    def _rank(self, worker: str | None, tenant: TenantId, voices: int) -> tuple[bool, bool, float, int]:
        """Who ranks lowest gets whoever comes: one that serves and is in time before one that has less to do."""
        load = self._books.load(worker) if worker is not None else None
        if worker is None or load is None:
            return (True, True, 0.0, 0)
        return (load.outage, tenant in load.late, *self._books.pressure(worker, voices))


class ClusterDoor:
    """Lets nobody in whose audio could not be carried, or who would be late in this process; the rest is the workers'
    affair."""

    def __init__(
        self,
        load: LoadControl,
        workers: WorkersDoor,
        health: Health,
        shed: Callable[[str], None],
        *,
        without_store: bool,
    ) -> None:
        """`without_store`: while the store does not answer sessions are let in by this gateway's own quotas, for
        `ADMITTED_AWAY_S`."""
        self._load = load
        self._workers = workers
        self._health = health
        self._shed = shed
        self._without_store_s = ADMITTED_AWAY_S if without_store else 0.0

    def admit(
        self,
        options: SessionOptions,
        session_id: SessionId,
        tenant: TenantId,
        *,
        yields: bool = False,
        resumes: bool = False,
    ) -> StreamScribeError | None:
        """Counts a session, or says why not."""
        if (error := self._outage(resumes=resumes)) is not None:
            self._shed(OUTAGE)
            return type(error)(retry_after_s=error.retry_after_s)
        if refusal := self._load.admit(options, session_id, tenant, yields=yields, resumes=resumes):
            return refusal
        if refusal := self._workers.admit(options, session_id, tenant, yields=yields, resumes=resumes):
            self._load.release(options, session_id)
            return refusal
        return None

    def _outage(self, *, resumes: bool) -> StreamScribeError | None:
        error = self._health.error(BUS)
        if error is not None or resumes:  # who resumes was found in the store just now
            return error
        return self._health.error(STORE) if self._health.away_s(STORE) >= self._without_store_s else None

    def release(self, options: SessionOptions, session_id: SessionId) -> None:
        """The session is over."""
        self._load.release(options, session_id)
        self._workers.release(session_id)
