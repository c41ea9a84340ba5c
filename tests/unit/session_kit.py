"""What the tests of a session share: small limits, a session under way, and short names for its effects."""

from dataclasses import replace
from typing import Any, TypeVar

from streamscribe.core.ids import SessionId, TenantId, TraceId
from streamscribe.core.messages import Audio
from streamscribe.core.options import SessionOptions
from streamscribe.core.records import Recognised
from streamscribe.core.results import Result, ResultType, Word
from streamscribe.core.session import Session
from streamscribe.core.session_io import (
    NO_TEXTS,
    Durable,
    Effect,
    Publish,
    Send,
    SessionEvent,
    SessionIdentity,
    SessionLimits,
    TenantTexts,
)

SESSION = SessionId("session-1")
IDENTITY = SessionIdentity(SESSION, TenantId("tenant-1"), TraceId("trace-1"), "token", "process")
LIMITS = SessionLimits(
    max_session_s=100.0,
    first_audio_timeout_s=20.0,
    idle_timeout_s=30.0,
    finalize_timeout_s=60.0,
    resume_window_s=15.0,
    max_rate=2.0,
    burst_s=10.0,
    max_burst_s=40.0,
    max_chunks_per_s=2000.0,
    reorder_window=4,
    gap_timeout_s=2.0,
    replay_bytes=4096,
    max_message_bytes=2**20,
)
SEQUENCED = SessionOptions(sequenced=True)
FILE = SessionOptions(live=False)
SECOND = b"\0" * 32_000
"""A second of audio in the default format."""

T = TypeVar("T")


class Driver:
    """Drives one session as a shell would, but by hand; checks its equations after each event."""

    def __init__(
        self,
        options: SessionOptions = FILE,
        *,
        lingers: bool = False,
        texts: TenantTexts = NO_TEXTS,
        **limits: Any,
    ) -> None:
        self.now = 0.0
        self.session = Session(IDENTITY, replace(LIMITS, **limits), options, now=0.0, lingers=lingers, texts=texts)
        self.greeting = self.session.open(0.0)

    def __call__(self, event: SessionEvent, *, at: float | None = None) -> list[Effect]:
        self.now = self.now if at is None else at
        effects = self.session.handle(event, self.now)
        self.session.check_integrity()
        return effects

    def stream(self, chunks: int = 1, *, durable: bool = True) -> "Driver":
        """Sends small chunks, numbered if the session is sequenced, and confirms them."""
        sequenced = self.session.options.sequenced
        for sequence in range(chunks):
            effects = self(Audio(b"\0" * 320, sequence if sequenced else None))
            if durable:
                self(Durable(records(effects)[-1].index))
        return self


def sent(effects: list[Effect]) -> list[Any]:
    """The messages among the effects."""
    return [effect.message for effect in effects if isinstance(effect, Send)]


def records(effects: list[Effect]) -> list[Any]:
    """The records among the effects."""
    return [effect.record for effect in effects if isinstance(effect, Publish)]


def only(values: list[T]) -> T:
    """The one value."""
    (value,) = values
    return value


def result(
    version: int, *, segment: int = 0, final: bool = False, pass_: int = 1, text: str = "one", **more: Any
) -> Result:
    """A result as a worker would make it: the next of a segment is of more audio."""
    return Result(
        type=ResultType.FINAL if final else ResultType.PARTIAL,
        pass_=pass_,
        segment_id=segment,
        version=version,
        sequence=0,
        channel=more.pop("channel", 0),
        text=text,
        stable_chars=0,
        start_ms=0,
        end_ms=more.pop("end_ms", 1000 * version),
        **more,
    )


def recognised(version: int, **more: Any) -> Recognised:
    """A worker's event with such a result."""
    return Recognised(SESSION, result(version, **more))


def word(text: str, start_ms: int, end_ms: int) -> Word:
    """A word with full confidence."""
    return Word(text, start_ms, end_ms, 1.0)
