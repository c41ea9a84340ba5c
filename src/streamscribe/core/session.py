"""One client's session: what may be said when, what the client is told, and when it ends.

Sans I/O: events go in with the time, effects come out, and `next_timer` is the only wish about time. Nothing here
raises for what a client or a worker sent. Stages change only as `session_table` says; events and effects are in
`session_io`; audio on its way up is `uplink`'s, results on their way down are `result_log`'s. docs/protocol.md tells
the same from the client's side. The laws kept here:

1. An ack is sent only for audio that is durable; acks never go back.
2. Chunks are published once and in order.
3. A segment gets one final per pass, and versions grow.
7. Nothing is kept or done that grows with the session's age.
8. A failure ends this session with a typed error and harms no other.
"""

from dataclasses import replace
from typing import assert_never

from streamscribe.core import messages as m
from streamscribe.core import records as r
from streamscribe.core.errors import (
    AudioTooLong,
    BadRequest,
    FinalizationTimeout,
    InternalError,
    SequenceGap,
    SessionNotFound,
    StreamScribeError,
    Timeout,
)
from streamscribe.core.integrity import ensure
from streamscribe.core.options import Hotword, IgnoredHotword, SessionOptions
from streamscribe.core.result_log import ResultLog
from streamscribe.core.results import Result
from streamscribe.core.session_io import (
    NO_TEXTS,
    ConnectionLost,
    ConnectionResumed,
    Delivered,
    Disconnect,
    Durable,
    Effect,
    GoingAway,
    Killed,
    Release,
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
from streamscribe.core.session_table import Stage, Step, next_stage
from streamscribe.core.session_timers import Alarm, SessionTimers
from streamscribe.core.uplink import Uplink

HEARTBEAT_INTERVAL_S = 1.0


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
    ) -> None:
        self._lingers = lingers
        self._identity = identity
        self._limits = limits
        self._stage = Stage.CREATED
        self._uplink = Uplink(identity, limits, options, texts)
        self._results = ResultLog(limits.replay_bytes)
        self._ended = False
        self._told_late_audio = False
        self._closing_error: StreamScribeError | None = None
        self._outcome: r.Finished | r.Failed | None = None
        self._timers = SessionTimers(limits, now)
        self._heartbeat_at = now - HEARTBEAT_INTERVAL_S

    @property
    def stage(self) -> Stage:
        """Where the session stands."""
        return self._stage

    @property
    def options(self) -> SessionOptions:
        """What the client asked for; settled with the first audio."""
        return self._uplink.options

    def open(self, now: float) -> list[Effect]:
        """Greets the client: the first effects of a session."""
        self._timers.heard_at = now
        limits = self._limits
        greeting = m.Connected(
            session_id=self._identity.session_id,
            tenant_id=self._identity.tenant_id,
            trace_id=self._identity.trace_id,
            resume_token=self._identity.resume_token,
            durability=self._identity.durability,
            bounds=m.SessionBounds(
                max_message_bytes=limits.max_message_bytes,
                max_session_s=int(limits.max_session_s),
                idle_timeout_s=limits.idle_timeout_s,
                resume_window_s=limits.resume_window_s,
            ),
        )
        return [Send(greeting), *self._tell_hotwords()]

    def handle(self, event: SessionEvent, now: float) -> list[Effect]:
        """Takes what happened and says what is to be done, in order; nothing any more after the end."""
        if self._stage is Stage.CLOSED:
            return []
        if isinstance(event, SessionMessage):
            if self._stage is Stage.DETACHED:  # the last words of a connection that has been given up
                return []
            self._timers.heard_at = now
            effects = self._hear(event, now)
            if isinstance(event, m.Audio) or Release() in effects:
                return effects
            return effects + self._uplink.control(now)
        if isinstance(event, r.WorkerEvent):
            self._timers.progress_at = now
            return self._learn(event, now)
        return self._obey(event, now)

    # What the client says.

    def _hear(self, message: SessionMessage, now: float) -> list[Effect]:
        match message:
            case m.Audio():
                return self._audio(message, now)
            case m.Start(options=options):
                return self._start(options)
            case m.Flush(marker=marker):
                return self._flush(marker)
            case m.Update():
                return self._update(message)
            case m.Ping():
                return self._tell(m.Pong())
            case m.End():
                return self._end(now)
            case m.Invalid(error=error, fatal=fatal):
                return self._fail(error) if fatal else self._tell(m.ErrorSent(error))
        assert_never(message)

    def _start(self, options: SessionOptions) -> list[Effect]:
        if self._stage is not Stage.CREATED:
            return self._refuse("start must come before the first audio")
        before = self.options
        self._uplink.choose(options)
        named = (options.hotwords, options.ignored_hotwords) != (before.hotwords, before.ignored_hotwords)
        return self._tell_hotwords() if named else []

    def _audio(self, message: m.Audio, now: float) -> list[Effect]:
        if self._ended:
            return self._late_audio(message)
        taken = self._uplink.audio(message, now)
        if isinstance(taken, list):
            if self._stage is Stage.CREATED:
                self._go(Step.BEGIN)
            return taken
        match taken:
            case AudioTooLong():
                return self._end(now, taken)
            case SequenceGap():
                return self._break_off(taken, now)
            case _:
                return self._fail(taken)

    def _late_audio(self, message: m.Audio) -> list[Effect]:
        again = self._uplink.repeat(message)
        if again is not None:  # sent anew after a resume
            return again
        if self._told_late_audio:
            return []
        self._told_late_audio = True
        return self._refuse("audio after the end is ignored")

    def _flush(self, marker: str) -> list[Effect]:
        if self._stage is Stage.CREATED:  # no audio, so all its finals are out
            return self._tell(m.FlushDone(marker))
        if self._ended:
            return self._refuse("flush after the end is ignored")
        return [self._uplink.flush(marker)]

    def _update(self, message: m.Update) -> list[Effect]:
        if self._stage is Stage.CREATED:
            self._uplink.choose(replace(self.options, hotwords=message.hotwords, ignored_hotwords=message.ignored))
            return self._answer_hotwords(message.hotwords, message.ignored)
        if self._ended:
            return self._refuse("update after the end is ignored")
        return [self._uplink.update(message.hotwords), *self._answer_hotwords(message.hotwords, message.ignored)]

    def _tell_hotwords(self) -> list[Effect]:
        """Which hot words of the address or of a `Start` hold, where there were any."""
        hotwords, ignored = self.options.hotwords, self.options.ignored_hotwords
        return self._answer_hotwords(hotwords, ignored) if hotwords or ignored else []

    def _answer_hotwords(self, hotwords: tuple[Hotword, ...], ignored: tuple[IgnoredHotword, ...]) -> list[Effect]:
        return self._tell(m.HotwordsTold(tuple(hotword.phrase for hotword in hotwords), ignored))

    def _end(self, now: float, error: StreamScribeError | None = None) -> list[Effect]:
        """Takes no more audio; `error` is told once the finals of what was accepted are out."""
        if self._ended:
            return []
        if error is None and self._uplink.holding:  # what is missing could only come after the end
            return self._break_off(self._uplink.gap(), now)
        self._closing_error = error
        if self._stage is Stage.CREATED:
            effects = self._last_words(audio_ms=0)
            self._go(Step.END)
            return [*effects, Release()]
        self._ended = True
        self._told_late_audio = error is not None
        self._timers.progress_at = now
        self._go(Step.END)
        return [self._uplink.end()]

    # What the worker tells.

    def _learn(self, event: r.WorkerEvent, now: float) -> list[Effect]:
        match event:
            case r.Recognised(result=result):
                return self._told(result) if self._results.add(result) else []
            case r.RulesHit():
                self._results.expect(event)
                return []
            case r.Progress(processed_ms=processed_ms):
                return self._heartbeat(processed_ms, now)
            case r.SpeechStarted(channel=channel, at_ms=at_ms):
                return self._tell(m.SpeechActivity(started=True, channel=channel, at_ms=at_ms))
            case r.SpeechStopped(channel=channel, at_ms=at_ms):
                return self._tell(m.SpeechActivity(started=False, channel=channel, at_ms=at_ms))
            case r.Flushed(marker=marker):
                return self._tell(m.FlushDone(marker))
            case r.Finished() | r.Failed():
                self._outcome = event
                return self._conclude(event, now)
        assert_never(event)

    def _told(self, result: Result) -> list[Effect]:
        """A result that was taken, behind what the rules found in it."""
        hits = self._results.hits_of(result)
        sent = self._tell(m.ResultSent(self._identity.session_id, self._identity.trace_id, result))
        return sent if hits is None else self._tell(m.RuleHitsSent(hits.segment_id, hits.channel, hits.hits)) + sent

    def _heartbeat(self, processed_ms: int, now: float) -> list[Effect]:
        if now - self._heartbeat_at < HEARTBEAT_INTERVAL_S:
            return []
        self._heartbeat_at = now
        return self._tell(m.Heartbeat(self._uplink.received_ms, processed_ms))

    def _conclude(self, outcome: r.Finished | r.Failed, now: float) -> list[Effect]:
        """The worker is done, well or badly; a client that is away is told when it comes back."""
        if self._stage is Stage.DETACHED:
            self._go(Step.FINISH)
            return []
        if isinstance(outcome, r.Failed):
            return self._fail(outcome.error)
        if not self._ended:
            return self._fail(InternalError())
        self._timers.lost_at = now
        self._go(Step.FINISH)
        effects = self._last_words(outcome.audio_ms)
        return effects if self._lingers else effects + self._delivered()

    # What the shell tells.

    def _obey(self, event: ShellEvent, now: float) -> list[Effect]:
        match event:
            case Durable(index=index):
                self._timers.heard_at = now
                acks = self._uplink.confirm(index)
                return [] if self._stage is Stage.DETACHED else acks
            case Tick():
                return self._tick(now)
            case ConnectionLost():
                return self._lose(now)
            case ConnectionResumed():
                return self._resume(event, now)
            case Delivered():
                return self._delivered()
            case GoingAway(deadline_ms=deadline_ms, retry_after_ms=retry_after_ms):
                return self._tell(m.GoAway(deadline_ms, retry_after_ms))
            case Stopped(error=error) if self._stage is not Stage.DETACHED:
                return self._end(now, error)
            case Stopped(error=error) | Killed(error=error):
                return self._fail(error)
        assert_never(event)

    def _lose(self, now: float) -> list[Effect]:
        if self._stage is Stage.DETACHED:
            return []
        self._timers.lost_at = now
        self._go(Step.LOSE)
        return [Release()] if self._stage is Stage.CLOSED else []

    def _resume(self, event: ConnectionResumed, now: float) -> list[Effect]:
        late = self._stage is Stage.DETACHED and self._timers.window_is_over(now)
        self._go(Step.RESUME_ENDED if self._ended else Step.RESUME)
        self._timers.heard_at = now
        self._uplink.forget_held()  # the client sends it again, from next_sequence on
        missed = self._results.since(event.last_version)
        if late or missed is None or not self._uplink.has_acked(event.last_acked_sequence):
            return self._fail(SessionNotFound())
        resumed = m.Resumed(self._identity.session_id, self._uplink.next_sequence, event.last_version)
        effects: list[Effect] = [Send(resumed), *self._uplink.ack()]
        for result in missed:
            effects += self._told(result)
        return effects if self._outcome is None else effects + self._conclude(self._outcome, now)

    # The ways out.

    def _break_off(self, gap: SequenceGap, now: float) -> list[Effect]:
        """Closes the connection but not the session: after a resume the client sends from what is missing."""
        return [Send(m.ErrorSent(gap)), Disconnect(gap), *self._lose(now)]

    def _last_words(self, audio_ms: int) -> list[Effect]:
        """Everything was sent."""
        error = self._closing_error
        return [Send(m.Closed("end", audio_ms) if error is None else m.ErrorSent(error)), Disconnect(error)]

    def _delivered(self) -> list[Effect]:
        """Everything has arrived."""
        if self._stage is not Stage.DETACHED or self._outcome is None:
            return []
        self._go(Step.DELIVER)
        return [Release()]

    def _fail(self, error: StreamScribeError) -> list[Effect]:
        """Ends the session where it stands."""
        effects: list[Effect] = [] if self._stage is Stage.DETACHED else [Send(m.ErrorSent(error)), Disconnect(error)]
        if self._uplink.begun and self._outcome is None:
            effects.append(self._uplink.abandon())
        self._go(Step.CLOSE)
        return [*effects, Release()]

    def _go(self, step: Step) -> None:
        self._stage = next_stage(self._stage, step)

    def _tell(self, message: m.ServerMessage) -> list[Effect]:
        return [] if self._stage is Stage.DETACHED else [Send(message)]

    def _refuse(self, message: str) -> list[Effect]:
        return self._tell(m.ErrorSent(BadRequest(message)))

    # Time.

    def next_timer(self) -> float | None:
        """The time at which a `Tick` is wanted; None while nothing is waited for."""
        earliest = self._timers.earliest(self._stage, self._uplink)
        return None if earliest is None else earliest[0]

    def _tick(self, now: float) -> list[Effect]:
        earliest = self._timers.earliest(self._stage, self._uplink)
        return self._ring(earliest[1], now) if earliest is not None and earliest[0] <= now else []

    def _ring(self, alarm: Alarm, now: float) -> list[Effect]:
        match alarm:
            case Alarm.NO_AUDIO:
                return self._fail(Timeout(f"no audio came for {self._limits.first_audio_timeout_s:g} s"))
            case Alarm.IDLE:
                return self._fail(Timeout(f"nothing came for {self._limits.idle_timeout_s:g} s"))
            case Alarm.TOO_LONG:
                return self._end(now, self._uplink.too_long())
            case Alarm.GAP:
                return self._break_off(self._uplink.gap(), now)
            case Alarm.NO_FINALS:
                return self._fail(FinalizationTimeout())
            case Alarm.NOBODY:
                return self._fail(SessionNotFound())

    def check_integrity(self) -> None:
        """The equations of the parts; nothing is published in CREATED; ended before FINALIZING, not in STREAMING."""
        self._uplink.check_integrity()
        self._results.check_integrity()
        if self._stage is Stage.CREATED:
            ensure(not self._uplink.begun, "nothing is published in CREATED")
        if self._stage is not Stage.CLOSED:
            ensure(self._ended or self._stage is not Stage.FINALIZING, "ended in FINALIZING")
            ensure(not self._ended or self._stage is not Stage.STREAMING, "not ended in STREAMING")
