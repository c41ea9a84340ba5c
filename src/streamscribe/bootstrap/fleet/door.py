"""Which worker process hears whom: each has a door of its own, and a session enters by the first that is open."""

from collections.abc import Callable
from functools import partial
from time import monotonic

from streamscribe.core.errors import ModelUnavailable, StreamScribeError
from streamscribe.core.fleet import Fleet
from streamscribe.core.ids import SessionId, TenantId
from streamscribe.core.integrity import ensure
from streamscribe.core.options import SessionOptions
from streamscribe.core.records import SessionOpened
from streamscribe.observe.load import OUTAGE, LoadControl
from streamscribe.settings import LimitSettings
from streamscribe.wire.worker_control import Status

RETRY_S = 5.0
"""When a client may come back while no worker is ready."""


class FleetDoor:
    """Admission by the load of each worker (`gateway.door.Admission`), and the place of each session.

    A session that is let in is counted at its worker from then on; when that has left, at the one that takes it over.
    For one event loop.
    """

    def __init__(
        self, limits: LimitSettings, shed: Callable[[str], None], clock: Callable[[], float] = monotonic
    ) -> None:
        self._limits = limits
        self._shed = shed
        self._clock = clock
        self._fleet = Fleet()
        self._controls: dict[int, LoadControl] = {}
        self._reasons: list[str] = []

    @property
    def members(self) -> tuple[int, ...]:
        """Workers that may be given sessions."""
        return tuple(self._controls)

    def control(self, member: int) -> LoadControl | None:
        """The load of one that is here."""
        return self._controls.get(member)

    def join(self, member: int) -> None:
        """A worker is ready."""
        self._fleet.join(member)
        self._controls[member] = LoadControl(self._limits, self._reasons.append, self._clock)

    def leave(self, member: int) -> None:
        """A worker is gone."""
        self._fleet.leave(member)
        self._controls.pop(member, None)

    def heard(self, member: int, status: Status) -> None:
        """What a worker told of its steps and its event loop."""
        control = self._controls.get(member)
        if control is None:
            return
        control.outage = partial(_outage, status)
        for step in status.steps:
            control.step_done(step)
        for lag_s in status.lags_s:
            control.loop_lagged(lag_s)

    def loop_lagged(self, seconds: float) -> None:
        """The gateway's own event loop ran a timer so late: whoever is let in anywhere would be late."""
        for control in self._controls.values():
            control.loop_lagged(seconds)

    def admit(
        self,
        options: SessionOptions,
        session_id: SessionId,
        tenant: TenantId,
        *,
        yields: bool = False,
        resumes: bool = False,
    ) -> StreamScribeError | None:
        """Lets a session in where a worker would, the least loaded first; else why that one does not."""
        refusal: StreamScribeError | None = None
        self._reasons.clear()
        for member in self._fleet.by_load:
            refused = self._controls[member].admit(options, yields=yields, resumes=resumes)
            if refused is None:
                self._fleet.seat(session_id, options.audio.channels, member)
                return None
            refusal = refusal or refused
        if refusal is None:
            self._shed(OUTAGE)
            return ModelUnavailable("no worker process is ready", retry_after_s=RETRY_S)
        self._shed(self._reasons[0])
        return refusal

    def release(self, options: SessionOptions, session_id: SessionId) -> None:
        """A session that was let in is over."""
        member = self._fleet.forget(session_id)
        if member is not None:
            self._controls[member].release(options)

    def place(self, opened: SessionOpened) -> int | None:
        """Who is to have the session now; None while nobody can."""
        session_id = opened.session_id
        before = self._fleet.member_of(session_id)
        member = self._fleet.reseat(session_id)
        if before is None and member is not None:
            self._controls[member].take(opened.options)
        return member

    def check_integrity(self) -> None:
        """The fleet's books; who is a member has a door."""
        self._fleet.check_integrity()
        ensure(sorted(self._fleet.by_load) == sorted(self._controls), "each member has a door")


def _outage(status: Status) -> StreamScribeError | None:
    return ModelUnavailable(retry_after_s=RETRY_S) if status.outage else None
