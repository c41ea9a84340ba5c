"""One client's session: what may be said when, what the client is told, and when it ends.

Sans I/O: events go in with the time, effects come out, and `next_timer` is the only wish about time. Nothing here
raises for what a client or a worker sent. docs/protocol.md tells the same from the client's side. A session's parts:

| what | where |
|---|---|
| events, effects, identity, limits | `session_io` |
| the stages and what leads from one to the next | `session_table` |
| where the session stands, and the ways in which it ends | `session_life` |
| what the client may say | `session_client` |
| what goes up to the worker: records, acks, pace | `uplink` |
| what comes down from it: messages, and what a resume repeats | `downlink` |
| what does not come in time | `session_timers` |
| who hears what happened: the client's side, the way down, the life | here |

The laws kept by all of them:

1. An ack is sent only for audio that is durable; acks never go back.
2. Chunks are published once and in order.
3. A segment gets one final per pass, and versions grow.
7. Nothing is kept or done that grows with the session's age.
8. A failure ends this session with a typed error and harms no other.
"""

from typing import assert_never

from streamscribe.core import messages as m
from streamscribe.core import records as r
from streamscribe.core.downlink import Downlink
from streamscribe.core.errors import FinalizationTimeout, Timeout
from streamscribe.core.options import SessionOptions
from streamscribe.core.session_client import SessionClient
from streamscribe.core.session_io import (
    NO_TEXTS,
    Abandoned,
    BrokenDown,
    ConnectionLost,
    ConnectionResumed,
    Delivered,
    Durable,
    Effect,
    GoingAway,
    Killed,
    Send,
    SessionEvent,
    SessionIdentity,
    SessionLimits,
    SessionMessage,
    ShellEvent,
    Stopped,
    TenantTexts,
    Tick,
)
from streamscribe.core.session_life import SessionLife
from streamscribe.core.session_mark import SessionMark
from streamscribe.core.session_past import SessionPast
from streamscribe.core.session_table import Stage
from streamscribe.core.session_timers import Alarm, SessionTimers
from streamscribe.core.uplink import Uplink


class Session:
    """A session from its greeting to its release; `options` hold unless a `Start` brings others.

    One that `lingers` is kept after its last words for a client that may have lost them: until `Delivered`, or for
    the resume window.
    """

    def __init__(
        self,
        identity: SessionIdentity,
        limits: SessionLimits,
        options: SessionOptions,
        *,
        now: float,
        lingers: bool = False,
        texts: TenantTexts = NO_TEXTS,
        past: SessionPast | None = None,
    ) -> None:
        """With a `past`, another gateway had the session: it begins detached, and waits for its client's resume."""
        self._identity = identity
        self._limits = limits
        self._uplink = Uplink(identity, limits, options, texts, None if past is None else past.uplink)
        self._downlink = Downlink(identity, limits) if past is None else past.downlink
        self._timers = SessionTimers(limits, now)
        self._life = SessionLife(self._uplink, self._timers, lingers=lingers)
        self._client = SessionClient(self._life, self._uplink)
        if past is not None:
            self._life.go_on(now, ended=past.uplink.ended, outcome=past.outcome)

    @property
    def stage(self) -> Stage:
        """Where the session stands."""
        return self._life.stage

    @property
    def options(self) -> SessionOptions:
        """What the client asked for; settled with the first audio."""
        return self._uplink.options

    @property
    def received_ms(self) -> int:
        """Audio that came from the client."""
        return self._uplink.received_ms

    @property
    def processed_ms(self) -> int:
        """Audio that the worker has heard, as it last told."""
        return self._downlink.processed_ms

    @property
    def broken(self) -> bool:
        """Whether it failed here, and is only kept for its client to be told."""
        return self._life.broken

    def mark(self) -> SessionMark | None:
        """Where it stands in its log; None where that cannot be said without texts, or it is done."""
        if self._life.done:
            return None
        uplink, downlink = self._uplink.mark(ended=self._life.ended), self._downlink.mark()
        return None if uplink is None or downlink is None else SessionMark(uplink, downlink)

    def open(self, now: float) -> list[Effect]:
        """Greets the client: the first effects of a session."""
        self._timers.heard_at = now
        return [Send(self._downlink.greeting()), *self._client.tell_hotwords()]

    def handle(self, event: SessionEvent, now: float) -> list[Effect]:
        """Takes what happened and says what is to be done, in order; nothing any more after the end."""
        if self.stage is Stage.CLOSED:
            return []
        if isinstance(event, SessionMessage):
            return self._hear(event, now)
        if isinstance(event, r.WorkerEvent):
            return self._learn(event, now)
        return self._obey(event, now)

    def _hear(self, message: SessionMessage, now: float) -> list[Effect]:
        if self.stage is Stage.DETACHED:  # the last words of a connection that has been given up
            return []
        self._timers.heard_at = now
        effects = self._client.hear(message, now)
        if isinstance(message, m.Audio) or self._life.done:
            return effects
        return effects + self._uplink.control(now)

    def _learn(self, event: r.WorkerEvent, now: float) -> list[Effect]:
        self._timers.progress_at = now
        if isinstance(event, r.Finished | r.Failed):
            return self._life.finish(event, now)
        return self._life.tell(*self._downlink.take(event, self._uplink.received_ms))

    def _obey(self, event: ShellEvent, now: float) -> list[Effect]:
        match event:
            case Durable(index=index):
                self._timers.heard_at = now
                acks = self._uplink.confirm(index)
                return [] if self.stage is Stage.DETACHED else acks
            case Tick():
                return self._tick(now)
            case ConnectionLost():
                return self._life.lose(now)
            case ConnectionResumed():
                return self._resume(event, now)
            case Delivered():
                return self._life.deliver()
            case GoingAway(deadline_ms=deadline_ms, retry_after_ms=retry_after_ms):
                return self._life.tell(m.GoAway(deadline_ms, retry_after_ms))
            case Stopped(error=error) if self.stage is not Stage.DETACHED:
                return self._life.end(now, error)
            case Stopped(error=error) | Killed(error=error):
                return self._life.fail(error)
            case BrokenDown(error=error):
                return self._life.break_down(error, now)
            case Abandoned():
                return self._life.leave()
        assert_never(event)

    def accepts(self, event: ConnectionResumed) -> bool:
        """Whether it could go on with this client: not with one that names a version or an ack that was never sent, or
        lacks results that are no longer held. Handling what is not accepted changes nothing."""
        return self._missed_by(event) is not None

    def _missed_by(self, event: ConnectionResumed) -> list[m.ServerMessage] | None:
        acked = self._uplink.has_acked(event.last_acked_sequence)
        return self._downlink.missed_since(event.last_version) if acked else None

    def _resume(self, event: ConnectionResumed, now: float) -> list[Effect]:
        missed = self._missed_by(event)
        if missed is None:
            return []
        self._life.come_back(now)
        self._uplink.forget_held()  # the client sends it again, from next_sequence on
        resumed = m.Resumed(self._identity.session_id, self._uplink.next_sequence, event.last_version)
        return [Send(resumed), *self._uplink.ack(), *self._life.tell(*missed), *self._life.conclude(now)]

    def next_timer(self) -> float | None:
        """The time at which a `Tick` is wanted; None while nothing is waited for."""
        earliest = self._timers.earliest(self.stage, self._uplink)
        return None if earliest is None else earliest[0]

    def _tick(self, now: float) -> list[Effect]:
        alarm = self._timers.due(self.stage, self._uplink, now)
        return [] if alarm is None else self._ring(alarm, now)

    def _ring(self, alarm: Alarm, now: float) -> list[Effect]:
        match alarm:
            case Alarm.NO_AUDIO:
                return self._life.fail(Timeout(f"no audio came for {self._limits.first_audio_timeout_s:g} s"))
            case Alarm.IDLE:
                return self._life.break_down(Timeout(f"nothing came for {self._limits.idle_timeout_s:g} s"), now)
            case Alarm.TOO_LONG:
                return self._life.end(now, self._uplink.too_long())
            case Alarm.GAP:
                return self._life.break_off(self._uplink.gap(), now)
            case Alarm.NO_FINALS:
                return self._life.break_down(FinalizationTimeout(), now)
            case Alarm.NOBODY:
                return self._life.leave()

    def check_integrity(self) -> None:
        """The equations of the parts."""
        self._uplink.check_integrity()
        self._downlink.check_integrity()
        self._life.check_integrity()
