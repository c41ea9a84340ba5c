"""What recognition produces, with all times in milliseconds of the session's clock."""

from dataclasses import dataclass
from enum import StrEnum


class ResultType(StrEnum):
    """A partial may change; a final of the same pass never does."""

    PARTIAL = "partial"
    FINAL = "final"


@dataclass(frozen=True, slots=True)
class Word:
    """A word (or a Chinese character) and when it was said; confidence 0 to 1."""

    text: str
    start_ms: int
    end_ms: int
    confidence: float


@dataclass(frozen=True, slots=True)
class Result:
    """One version of one segment's text.

    `version` grows over the whole session, so the largest version a client has seen names all that it has. It is the
    session's (`core.result_log`); what a worker tells has that worker's count, which begins anew with each.
    `pass_` is 1 or 2. `stable_chars` characters at the start of `text` will not change within this pass. `sequence`
    is the last audio sequence that had been processed. `emotion` and `events` (laughter, applause...) come from models
    that hear them. A final that is `degraded` tells what the pass before heard, for want of time.
    """

    type: ResultType
    pass_: int
    segment_id: int
    version: int
    sequence: int
    channel: int
    text: str
    stable_chars: int
    start_ms: int
    end_ms: int
    words: tuple[Word, ...] = ()
    confidence: float = 0.0
    language: str | None = None
    emotion: str | None = None
    events: tuple[str, ...] = ()
    degraded: bool = False

    @property
    def is_final(self) -> bool:
        """Whether this text is final for its pass."""
        return self.type is ResultType.FINAL
