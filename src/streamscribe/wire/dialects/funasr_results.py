"""Results as FunASR tells them: increments that are appended, sentences that replace them, one last message.

Rules (docs/funasr-compat.md): every message carries every mandatory key; an increment only appends; a sentence
replaces the increments since the sentence before; `is_final` is true on exactly one message, the last of an utterance.
"""

import msgspec
from msgspec import UNSET, UnsetType

from streamscribe.core.options import Mode
from streamscribe.core.results import Result, Word
from streamscribe.core.script import join
from streamscribe.wire.dialects.funasr_stamps import StampSent, stamps

FIRST_SLICE, NEXT_SLICE, SENTENCE_SLICE = 0, 1, 2


class ErrorFields(msgspec.Struct, frozen=True):
    """The `error` object."""

    code: str
    message: str


class FunasrMessage(msgspec.Struct, kw_only=True):
    """One message to a FunASR client; `timestamp` is a JSON string or absent, as half of the clients need."""

    mode: str
    text: str
    wav_name: str
    is_final: bool = False
    slice_type: int
    index: int
    start_time: int
    end_time: int
    timestamp: str | UnsetType = UNSET
    stamp_sents: list[StampSent] | UnsetType = UNSET
    is_end: bool | UnsetType = UNSET
    error: ErrorFields | str | UnsetType = UNSET
    warning: str | UnsetType = UNSET


class Labels(msgspec.Struct, frozen=True):
    """What `mode` says on increments and on sentences."""

    increment: str
    sentence: str


class Utterance:
    """The messages of one utterance, from its first audio to its end."""

    def __init__(self, mode: Mode, labels: Labels, wav_name: str):
        self.wav_name = wav_name
        self._mode = mode
        self._labels = labels
        self._open: dict[int, Result] = {}
        self._first_pass: dict[int, Result] = {}
        self._finals: dict[int, Result] = {}
        self._current: int | None = None
        self._shown = ""
        self._told = ""
        self._index = 0
        self._end_ms = 0

    def result(self, result: Result) -> list[FunasrMessage]:
        """What a version of a segment adds for the client; nothing before the end in mode `offline`."""
        if self._mode is Mode.OFFLINE:
            if result.is_final:
                self._finals[result.segment_id] = result
            return []
        if not result.is_final:
            self._open[result.segment_id] = result
            return self._grow()
        if self._mode is Mode.ONLINE:
            return self._append(result)
        if result.pass_ == 1:
            self._open[result.segment_id] = self._first_pass[result.segment_id] = result
            return self._grow()
        return self._replace(result)

    def close(self) -> list[FunasrMessage]:
        """The messages that are still owed; the last one is final."""
        messages: list[FunasrMessage] = []
        if self._mode is Mode.OFFLINE:
            messages.append(self._whole())
        for result in list(self._first_pass.values()):
            messages += self._replace(result)
        return messages

    def blank(self) -> FunasrMessage:
        """A message without text, at the end of what has been told."""
        online = self._mode is Mode.ONLINE
        return FunasrMessage(
            mode=self._labels.increment if online else self._labels.sentence,
            text="",
            wav_name=self.wav_name,
            slice_type=SENTENCE_SLICE,
            index=self._index,
            start_time=self._end_ms,
            end_time=self._end_ms,
        )

    def _grow(self) -> list[FunasrMessage]:
        """An increment of the segment that is being shown; others wait, so that a client can just append."""
        segment = next(iter(self._open), None) if self._current is None else self._current
        result = None if segment is None else self._open.get(segment)
        if result is None:
            return []
        stable = result.text if result.is_final else result.text[: result.stable_chars]
        if result.is_final and not same_words(self._shown, stable):  # the sentence that replaces all will tell
            return []
        growth = remainder(self._shown, stable)
        if not growth:
            return []
        self._current = segment
        return [self._increment(result, growth)]

    def _append(self, result: Result) -> list[FunasrMessage]:
        """Online, a final is what its increments have not said yet; none of a later segment has come before it."""
        if self._current != result.segment_id:
            self._told = self._shown[-1:] or self._told
            self._shown = ""
        self._forget_up_to(result.segment_id)
        growth = remainder(self._shown, result.text)
        messages = [self._increment(result, growth)] if growth else []
        self._told = self._shown[-1:] or self._told
        self._index += bool(result.text)
        self._current, self._shown = None, ""
        return messages + self._grow()

    def _replace(self, result: Result) -> list[FunasrMessage]:
        """A sentence takes the place of all increments since the last one; those of a later segment are told again."""
        self._forget_up_to(result.segment_id)
        replaced, self._current, self._shown = self._shown, None, ""
        if not result.text and not replaced:
            return self._grow()
        text = separator(self._told, result.text) + result.text
        message = self._sentence(text, result.words, result.start_ms, result.end_ms)
        if result.text:
            self._index += 1
            self._told = result.text[-1:]
        return [message, *self._grow()]

    def _whole(self) -> FunasrMessage:
        """The one message of mode `offline`."""
        finals = sorted(self._finals.values(), key=lambda result: (result.start_ms, result.segment_id))
        text = ""
        words: list[Word] = []
        for result in finals:
            text += separator(text, result.text) + result.text
            words += result.words
        if not text:
            return self.blank()
        return self._sentence(text, tuple(words), finals[0].start_ms, finals[-1].end_ms)

    def _increment(self, result: Result, growth: str) -> FunasrMessage:
        slice_type = NEXT_SLICE if self._shown else FIRST_SLICE
        text = growth if self._shown else separator(self._told, growth) + growth
        self._shown += growth
        self._end_ms = max(self._end_ms, result.end_ms)
        return FunasrMessage(
            mode=self._labels.increment,
            text=text,
            wav_name=self.wav_name,
            slice_type=slice_type,
            index=self._index,
            start_time=result.start_ms,
            end_time=result.end_ms,
        )

    def _sentence(self, text: str, words: tuple[Word, ...], start_ms: int, end_ms: int) -> FunasrMessage:
        told = stamps(text, words)
        self._end_ms = max(self._end_ms, end_ms)
        return FunasrMessage(
            mode=self._labels.sentence,
            text=text,
            wav_name=self.wav_name,
            slice_type=SENTENCE_SLICE,
            index=self._index,
            start_time=start_ms,
            end_time=end_ms,
            timestamp=told.timestamp or UNSET,
            stamp_sents=told.sentences or UNSET,
        )

    def _forget_up_to(self, segment: int) -> None:
        """What came before a final is over, with or without a final of its own."""
        self._open = {key: result for key, result in self._open.items() if key > segment}
        self._first_pass.pop(segment, None)


def remainder(shown: str, text: str) -> str:
    """What is to be appended to `shown` so that it reads as `text`.

    Where `text` has changed its marks or letters, its first so many letters count as shown: nothing is taken back.
    """
    if text.startswith(shown):
        return text[len(shown) :]
    letters = sum(map(_is_letter, shown))
    for at, char in enumerate(text):
        if letters == 0:
            return text[at:]
        letters -= _is_letter(char)
    return ""


def _is_letter(char: str) -> bool:
    """Whether the character is a letter or a digit, or stands for one that is masked."""
    return char.isalnum() or char == "*"


def same_words(shown: str, text: str) -> bool:
    """Whether `text` begins with the letters of `shown`, whatever its marks and capitals are."""
    return _letters(text).startswith(_letters(shown))


def _letters(text: str) -> str:
    return "".join(filter(str.isalnum, text)).casefold()


def separator(left: str, right: str) -> str:
    """A space where `left` and `right` need one between them."""
    return " " if len(join(left, right)) > len(left) + len(right) else ""
