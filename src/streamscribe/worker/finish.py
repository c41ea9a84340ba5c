"""The text that people read, of what a pass heard."""

import asyncio
from dataclasses import dataclass, replace

from streamscribe.core.audio import to_ms
from streamscribe.core.errors import StreamScribeError
from streamscribe.core.records import SessionOpened
from streamscribe.core.results import Word
from streamscribe.core.rules import NO_POLICY
from streamscribe.core.tokens import Mark
from streamscribe.models.ports import Hypothesis
from streamscribe.text.pipeline import FinishRequest
from streamscribe.text.policy import PolicyIndex
from streamscribe.text.punctuation import unfinished
from streamscribe.worker.carry import Turn
from streamscribe.worker.segment import Final, Segment, StreamTools, final_priority, text_language

NOBODY_SPOKE = Final(Hypothesis(""))


@dataclass(frozen=True, slots=True)
class Marks:
    """The punctuation that a model found for a text.

    Where the next one is to be read on from it, `carried`, the text ends as the model says; `unfinished` is what of it
    may go on.
    """

    found: tuple[Mark, ...] = ()
    unfinished: str = ""
    carried: bool = False


NO_MARKS = Marks()


class Finisher:
    """Writes a session's texts, of whatever pass: finals get punctuation by a model, numbers, hot words and rules."""

    def __init__(self, opened: SessionOpened, tools: StreamTools) -> None:
        self._options = opened.options
        self._tenant_id = opened.tenant_id
        self._policy = opened.policy
        self._compiled: PolicyIndex | None = None
        self._tools = tools
        self._loop = asyncio.get_running_loop()
        self._priority = final_priority(opened.options)
        self.needs_words = opened.options.words or bool(opened.policy.rules)
        """Whether a model is to tell the times of words: rules need them, though the client may not."""

    async def draft(self, text: str, language: str | None) -> str:
        """A partial's text. The first one waits until the tenant's policy is compiled, off the event loop."""
        if self._compiled is None and self._policy != NO_POLICY:
            self._compiled = await self._loop.run_in_executor(
                self._tools.executor, self._tools.text.policy, self._policy, self._tenant_id
            )
        return self._tools.text.draft(text, language, self._compiled)

    def punctuates(self, segment: Segment) -> bool:
        """Whether a model is to punctuate what the segment's recogniser does not punctuate itself."""
        return segment.models.punctuation is not None and self._options.punctuation

    async def marks(self, segment: Segment, heard: Hypothesis, turn: Turn | None = None) -> Marks | None:
        """The punctuation that a model finds, none where no model is to; None where it fails, which its replica tells.

        The words are known all the same. The model reads them behind what was left unfinished before the `turn`.
        """
        punctuation = segment.models.punctuation
        if punctuation is None or not heard.text or heard.punctuated or not self._options.punctuation:
            return NO_MARKS
        before = "" if turn is None else (await turn.earlier()).unfinished
        text = f"{before} {heard.text}" if before else heard.text
        try:
            found = await punctuation.replica.submit(
                text, priority=self._priority, audio_s=0, share=segment.share, patient=True
            )
        except StreamScribeError:
            return None
        begin = len(text) - len(heard.text)
        mine = tuple(replace(mark, at=mark.at - begin) for mark in found if mark.at > begin)
        return Marks(mine) if turn is None else Marks(mine, unfinished(text, found), carried=True)

    async def finish(self, segment: Segment, end: int, heard: Hypothesis, marks: Marks) -> Final:
        """The final of what was heard, with these marks, in the audio of a segment that ends at sample `end`."""
        if not heard.text:
            return NOBODY_SPOKE
        request = FinishRequest(
            heard.text,
            words_of(heard, segment.audio_start) if self.needs_words else (),
            language=text_language(self._options, heard),
            itn=self._options.itn,
            punctuation=self._options.punctuation,
            marks=marks.found,
            goes_on=marks.carried,
            hotwords=segment.hotwords,
            policy=self._policy,
            tenant_id=self._tenant_id,
            start_ms=to_ms(segment.start),
            end_ms=to_ms(end),
        )
        finished = await self._loop.run_in_executor(self._tools.executor, self._tools.text.finish, request)
        words = finished.words if self._options.words else ()
        return Final(heard, finished.text, words, finished.hits, finished.hotwords, unfinished=marks.unfinished)


def words_of(heard: Hypothesis, audio_start: int) -> tuple[Word, ...]:
    """The words on the session's clock."""
    return tuple(
        Word(word.text, to_ms(audio_start + word.start), to_ms(audio_start + word.end), word.confidence)
        for word in heard.words
    )
