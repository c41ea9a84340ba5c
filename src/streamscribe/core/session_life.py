"""Where a session stands, and each of the ways in which it ends.

The only place that changes a stage, and only as `session_table` says. What takes the last place in a session's effects
is decided here: the last words, the error, the release.
"""

from streamscribe.core import messages as m
from streamscribe.core import records as r
from streamscribe.core.errors import InternalError, SequenceGap, StreamScribeError
from streamscribe.core.integrity import ensure
from streamscribe.core.session_io import Disconnect, Effect, Release, Send
from streamscribe.core.session_table import Stage, Step, next_stage
from streamscribe.core.session_timers import SessionTimers
from streamscribe.core.uplink import Uplink


class SessionLife:
    """A session from CREATED to CLOSED. `ended` says that no more audio is taken, whatever the stage is then.

    One that `lingers` is kept after its last words, or the error that ended it, for a client that may have lost them:
    until `deliver`, or for the resume window.
    """

    def __init__(self, uplink: Uplink, timers: SessionTimers, *, lingers: bool) -> None:
        self.stage = Stage.CREATED
        self.ended = False
        self._uplink = uplink
        self._timers = timers
        self._lingers = lingers
        self._closing_error: StreamScribeError | None = None
        self._outcome: r.Finished | r.Failed | None = None
        self._failure: StreamScribeError | None = None

    @property
    def cut_short(self) -> bool:
        """Whether it was not the client who ended it."""
        return self._closing_error is not None

    @property
    def done(self) -> bool:
        """Whether its worker is, well or badly; or it failed, or all is over."""
        return self._outcome is not None or self._failure is not None or self.stage is Stage.CLOSED

    @property
    def broken(self) -> bool:
        """Whether it failed here, and is only kept for its client to be told."""
        return self._failure is not None

    @property
    def _why(self) -> StreamScribeError | None:
        """Why it has failed so far, or was cut short."""
        outcome = self._outcome.error if isinstance(self._outcome, r.Failed) else None
        return self._failure or outcome or self._closing_error

    def go_on(self, now: float, *, ended: bool, outcome: r.Finished | r.Failed | None) -> None:
        """Begins where another gateway lost its client: detached."""
        self.begin()
        if ended:
            self.ended = True
            self._timers.progress_at = now
            self._go(Step.END)
        self.lose(now)
        self._outcome = outcome

    def tell(self, *messages: m.ServerMessage) -> list[Effect]:
        """Sends the messages, where somebody is there to hear them."""
        return [] if self.stage is Stage.DETACHED else [Send(message) for message in messages]

    def begin(self) -> None:
        """Audio was taken, perhaps not the first."""
        if self.stage is Stage.CREATED:
            self._go(Step.BEGIN)

    def end(self, now: float, error: StreamScribeError | None = None) -> list[Effect]:
        """Takes no more audio; `error` is told once the finals of what was accepted are out."""
        if self.ended:
            return []
        if error is None and self._uplink.holding:  # what is missing could only come after the end
            return self.break_off(self._uplink.gap(), now)
        self._closing_error = error
        if self.stage is Stage.CREATED:
            self._go(Step.END)
            return [*self._last_words(audio_ms=0), Release(error)]
        self.ended = True
        self._timers.progress_at = now
        self._go(Step.END)
        return [self._uplink.end()]

    def lose(self, now: float) -> list[Effect]:
        """The connection is gone."""
        if self.stage is Stage.DETACHED:
            return []
        self._timers.lose(self.stage, self._uplink, now)
        self._go(Step.LOSE)
        return [Release()] if self.stage is Stage.CLOSED else []

    def come_back(self, now: float) -> None:
        """A connection is there again."""
        self._timers.come_back(self.stage, self._uplink, now)
        self._go(Step.RESUME_ENDED if self.ended else Step.RESUME)

    def break_off(self, gap: SequenceGap, now: float) -> list[Effect]:
        """Closes the connection but not the session: after a resume the client sends from what is missing."""
        if self.stage is Stage.CREATED:  # there is nothing to resume
            return self.fail(gap)
        return [Send(m.ErrorSent(gap)), Disconnect(gap), *self.lose(now)]

    def finish(self, outcome: r.Finished | r.Failed, now: float) -> list[Effect]:
        """The worker is done, well or badly; a client that is away is told when it comes back."""
        if self._failure is not None:
            return []
        self._outcome = outcome
        if self.stage is Stage.DETACHED:
            self._go(Step.FINISH)
            return []
        return self.conclude(now)

    def conclude(self, now: float) -> list[Effect]:
        """Tells a client that is there how it ended, if it has."""
        if self._failure is not None:
            return self.break_down(self._failure, now)
        if self._outcome is None:
            return []
        if isinstance(self._outcome, r.Failed):
            return self.break_down(self._outcome.error, now)
        if not self.ended:
            return self.break_down(InternalError(), now)
        self._timers.lost_at = now
        self._go(Step.FINISH)
        effects = self._last_words(self._outcome.audio_ms)
        return effects if self._lingers else effects + self.deliver()

    def deliver(self) -> list[Effect]:
        """Everything has arrived."""
        if self.stage is not Stage.DETACHED or not self.done:
            return []
        self._go(Step.DELIVER)
        return [Release(self._why)]

    def fail(self, error: StreamScribeError) -> list[Effect]:
        """Ends the session where it stands, for good."""
        if self._done_and_away:
            return self.leave()
        effects = self._last_error(error)
        self._go(Step.CLOSE)
        return [*effects, Release(error)]

    def leave(self) -> list[Effect]:
        """Ends the session for good where nobody will hear of it."""
        effects = self._abandon()
        self._go(Step.CLOSE)
        return [*effects, Release(self._why)]

    def break_down(self, error: StreamScribeError, now: float) -> list[Effect]:
        """The session fails; a client that is away, or whose connection only seems open, is told when it comes back."""
        if self._done_and_away:
            return []
        if not self._lingers or self.stage is Stage.CREATED:
            return self.fail(error)
        effects = self._last_error(error)
        self._failure = error
        return [*effects, *self.lose(now)]

    @property
    def _done_and_away(self) -> bool:
        return self.stage is Stage.DETACHED and self.done

    def _last_error(self, error: StreamScribeError) -> list[Effect]:
        told: list[Effect] = [] if self.stage is Stage.DETACHED else [Send(m.ErrorSent(error)), Disconnect(error)]
        return told + self._abandon()

    def _abandon(self) -> list[Effect]:
        return [self._uplink.abandon()] if self._uplink.begun and not self.done else []

    def _last_words(self, audio_ms: int) -> list[Effect]:
        """Everything was sent."""
        error = self._closing_error
        return [Send(m.Closed("end", audio_ms) if error is None else m.ErrorSent(error)), Disconnect(error)]

    def _go(self, step: Step) -> None:
        self.stage = next_stage(self.stage, step)

    def check_integrity(self) -> None:
        """Nothing is published in CREATED; ended before FINALIZING, not in STREAMING."""
        if self.stage is Stage.CREATED:
            ensure(not self._uplink.begun, "nothing is published in CREATED")
        if self.stage is not Stage.CLOSED:
            ensure(self.ended or self.stage is not Stage.FINALIZING, "ended in FINALIZING")
            ensure(not self.ended or self.stage is not Stage.STREAMING, "not ended in STREAMING")
