"""Tells a session's results, each with the next version, and measures how late they are."""

import asyncio
from collections.abc import Callable

from streamscribe.core.audio import to_ms
from streamscribe.core.records import Recognised, RulesHit, SessionOpened
from streamscribe.core.results import Result, Word
from streamscribe.core.transcript import Transcript
from streamscribe.models.ports import Hypothesis
from streamscribe.worker.observer import WorkerObserver
from streamscribe.worker.segment import Emit, Final, Segment


class Teller:
    """Tells of a session's transcript; `sequence` is the last audio sequence that was processed.

    A result gets its version when it is told, so that versions come in order. `concluded` hears the channel of each
    segment whose last final was told, or for which there is none to tell. `_s` are seconds of the event loop's clock.
    Latencies are measured of live sessions only: a file has none.
    """

    def __init__(
        self,
        opened: SessionOpened,
        transcript: Transcript,
        sequence: int,
        emit: Emit,
        observer: WorkerObserver,
        concluded: Callable[[int], None],
    ) -> None:
        self._last_pass = opened.options.mode.last_pass
        self.transcript = transcript
        self.sequence = sequence
        self._concluded = concluded
        self.tenant_id = opened.tenant_id
        self._opened = opened
        self._emit = emit
        self._observer = observer
        self._loop = asyncio.get_running_loop()

    def partial(
        self,
        segment: Segment,
        text: str,
        end: int,
        heard: Hypothesis,
        now_s: float,
        *,
        words: tuple[Word, ...] = (),
        settled: int | None = None,
    ) -> None:
        """What was heard up to sample `end`, unless it says nothing new; `settled` is as the transcript takes it."""
        result = self.transcript.partial(
            segment.id,
            text,
            to_ms(end),
            sequence=self.sequence,
            words=words,
            settled=settled,
            confidence=heard.confidence,
            language=heard.language,
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

    def final(self, segment: Segment, pass_: int, final: Final, end: int) -> None:
        """The text of a pass in a segment that ends at sample `end`; none where nobody spoke.

        What the rules found is told once: of the last pass, before its final.
        """
        last = pass_ == self._last_pass
        if final.text:
            self._tell_text(segment, pass_, final, end, last=last)
        else:
            if last:
                self._observer.segment_empty(self.tenant_id)
            self._tell(self.transcript.drop(segment.id, pass_, sequence=self.sequence))
        if last:
            self._concluded(segment.channel)

    def _tell_text(self, segment: Segment, pass_: int, final: Final, end: int, *, last: bool) -> None:
        if last and segment.hotwords:
            self._observer.hotwords_sought(self.tenant_id, bool(final.hotwords))
        if last and final.hits:
            self._emit(RulesHit(self._opened.session_id, segment.id, segment.channel, final.hits))
        result = self.transcript.final(
            segment.id,
            pass_,
            final.text,
            to_ms(end),
            final.words,
            sequence=self.sequence,
            confidence=final.heard.confidence,
            language=final.heard.language,
            emotion=final.heard.emotion,
            events=final.heard.events,
            degraded=final.degraded,
        )
        late_s = self._loop.time() - segment.voice_ended_s if self._opened.options.live else None
        self._observer.final_sent(self.tenant_id, late_s, pass_, last)
        self._tell(result)

    def _tell(self, result: Result | None) -> None:
        if result is not None:
            self._emit(Recognised(self._opened.session_id, result))
