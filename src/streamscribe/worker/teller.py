"""Tells a session's results, each with the next version, and measures how late they are."""

from collections.abc import Sequence

from streamscribe.core.audio import to_ms
from streamscribe.core.records import Recognised, SessionOpened
from streamscribe.core.results import Result, Word
from streamscribe.core.transcript import Transcript
from streamscribe.models.ports import Hypothesis
from streamscribe.worker.observer import WorkerObserver
from streamscribe.worker.segment import Emit, Segment


class Teller:
    """Owns a session's transcript; `sequence` is the last audio sequence that was processed.

    A result gets its version when it is told, so that versions come in order. `now_s` is the event loop's clock.
    Latencies are measured of live sessions only: a file has none.
    """

    def __init__(self, opened: SessionOpened, emit: Emit, observer: WorkerObserver, last_pass: int) -> None:
        self.transcript = Transcript(last_pass)
        self.sequence = 0
        self.tenant_id = opened.tenant_id
        self._opened = opened
        self._emit = emit
        self._observer = observer
        self._pass = last_pass

    def partial(self, segment: Segment, text: str, end: int, hypothesis: Hypothesis, now_s: float) -> None:
        """What a draft heard up to sample `end`, unless it says nothing new."""
        result = self.transcript.partial(
            segment.id,
            text,
            to_ms(end),
            sequence=self.sequence,
            confidence=hypothesis.confidence,
            language=hypothesis.language,
        )
        if result is None:
            return
        self._tell(result)
        if self._opened.options.live:
            if segment.told_s is None:
                self._observer.first_partial_sent(now_s - segment.voice_began_s)
            else:
                self._observer.partial_sent(now_s - segment.told_s)
        segment.told_s = now_s

    def final(
        self, segment: Segment, text: str, end: int, words: Sequence[Word], hypothesis: Hypothesis, late_s: float
    ) -> None:
        """The text of a segment whose voice ended `late_s` seconds ago; none where nobody spoke."""
        if not text:
            self._observer.segment_empty(self.tenant_id)
            self._tell(self.transcript.drop(segment.id, sequence=self.sequence))
            return
        result = self.transcript.final(
            segment.id,
            self._pass,
            text,
            to_ms(end),
            words,
            sequence=self.sequence,
            confidence=hypothesis.confidence,
            language=hypothesis.language,
        )
        self._observer.final_sent(self.tenant_id, late_s if self._opened.options.live else None)
        self._tell(result)

    def _tell(self, result: Result | None) -> None:
        if result is not None:
            self._emit(Recognised(self._opened.session_id, result))
