"""Finals cut into cues that can be read: at most two lines and seven seconds, never two at a time."""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from streamscribe.core.results import Result, Word
from streamscribe.core.script import CLOSING_MARKS, is_unspaced, move_leading_mark
from streamscribe.text.timed import word_starts

MIN_CUE_MS, MAX_CUE_MS = 1_000, 7_000
MAX_LINES = 2
LINE_WIDTH, NARROW, WIDE = 840, 20, 42
"""A line takes 42 narrow or 20 wide characters, or a mixture."""
_WIDTH_PER_S = 400
"""What people read in a second: 20 narrow or 9 to 10 wide characters."""
_CLAUSE_END = re.compile(r"[,.;:!?，。；：！？、…]['\"’”」』）]?$")
_OPENING = "“‘「『（《([$¥€£"
_CLOSING = CLOSING_MARKS + "”’」』）》)]%‰℃"


@dataclass(frozen=True, slots=True)
class Cue:
    """Lines that are shown together; `speaker` is empty where the audio has one channel."""

    start_ms: int
    end_ms: int
    lines: tuple[str, ...]
    speaker: str = ""


@dataclass(frozen=True, slots=True)
class _Piece:
    """Text that no line break tears apart, with the marks and the space around it."""

    text: str
    start_ms: int
    end_ms: int


def cues(results: Iterable[Result]) -> list[Cue]:
    """The cues of the last pass of each segment, in the order of their times; none overlaps the next.

    A cue stays for a second, and for as long as reading takes, where the next one leaves it the time. One that begins
    within the cue of another channel waits up to a second for it.
    """
    finals = _last_passes(results)
    channels = sorted({final.channel for final in finals})
    name = "说话人{}" if any(is_unspaced(char) for final in finals for char in final.text) else "Speaker {}"
    found: list[Cue] = []
    for channel in channels:
        speaker = name.format(channel + 1) if len(channels) > 1 else ""
        for text, words, final in _told([final for final in finals if final.channel == channel]):
            found += (_cue(group, speaker) for group in _groups(_pieces(text, words, final), label(speaker)))
    return list(_apart(sorted(found, key=lambda cue: cue.start_ms)))


def label(speaker: str) -> str:
    """What stands before the first line of a speaker's cue where the format has no other way to tell."""
    if not speaker:
        return ""
    return f"{speaker}：" if is_unspaced(speaker[0]) else f"{speaker}: "


def _last_passes(results: Iterable[Result]) -> list[Result]:
    last: dict[tuple[int, int], Result] = {}
    for result in results:
        known = last.get((result.channel, result.segment_id))
        if result.is_final and (known is None or (result.pass_, result.version) > (known.pass_, known.version)):
            last[result.channel, result.segment_id] = result
    return sorted(last.values(), key=lambda result: result.start_ms)


def _told(finals: Sequence[Result]) -> list[tuple[str, tuple[Word, ...], Result]]:
    """Each final's text and words; marks at the head of one are told with the one before it."""
    told: list[tuple[str, tuple[Word, ...], Result]] = []
    for final in finals:
        text, words = " ".join(final.text.split()), final.words
        if told and text:
            before, said, earlier = told[-1]
            ended, rest = move_leading_mark(before, text)
            if rest != text and words:
                words = (replace(words[0], text=words[0].text.lstrip(CLOSING_MARKS + " ")), *words[1:])
            if said:
                said = (*said[:-1], replace(said[-1], text=said[-1].text + ended[len(before) :]))
            told[-1], text = (ended, said, earlier), rest
        if text:
            told.append((text, tuple(word for word in words if word.text.strip()), final))
    return told


def _pieces(text: str, words: Sequence[Word], final: Result) -> list[_Piece]:
    """The text in pieces; without words their times are guessed from where they stand in it."""
    starts = word_starts(text, words)
    if words and len(starts) == len(words):
        times = [*((word.start_ms, word.end_ms) for word in words)]
    else:
        starts = [0, *(at for at in range(1, len(text)) if _may_break(text, at))]
        span_ms = final.end_ms - final.start_ms
        marks = [final.start_ms + span_ms * at // len(text) for at in (*starts, len(text))]
        times = list(pairwise(marks))
    pieces: list[_Piece] = []
    for at, end, (start_ms, end_ms) in zip(starts, (*starts[1:], len(text)), times, strict=True):
        if pieces and not _may_break(text, at):
            pieces[-1] = _Piece(pieces[-1].text + text[at:end], pieces[-1].start_ms, end_ms)
        else:
            pieces.append(_Piece(text[at:end], start_ms, end_ms))
    return pieces


def _may_break(text: str, at: int) -> bool:
    """Whether a line may end there: not in a word or number in Latin script, before a mark, after a bracket."""
    before, after = text[at - 1], text[at]
    if before == " ":
        return after not in _CLOSING
    if after == " " or after in _CLOSING or before in _OPENING:
        return False
    return is_unspaced(before) or is_unspaced(after)


def _groups(pieces: Sequence[_Piece], prefix: str) -> list[list[_Piece]]:
    """The pieces of each cue: as many as fit; one that overflows ends at its last clause that is not too early."""
    groups: list[list[_Piece]] = []
    group: list[_Piece] = []
    for piece in pieces:
        if group and not _fits([*group, piece], prefix):
            ends = [at for at, one in enumerate(group, 1) if _CLAUSE_END.search(one.text.rstrip())]
            at = ends[-1] if ends and 2 * ends[-1] >= len(group) else len(group)
            groups.append(group[:at])
            group = group[at:]
        group.append(piece)
    return [*groups, group]


def _fits(pieces: Sequence[_Piece], prefix: str) -> bool:
    if pieces[-1].end_ms - pieces[0].start_ms > MAX_CUE_MS:
        return False
    lines, line = 1, prefix
    for piece in pieces:
        if line and _width(line + piece.text) > LINE_WIDTH:
            lines, line = lines + 1, ""
        line += piece.text
    return lines <= MAX_LINES


def _width(text: str) -> int:
    return sum(WIDE if is_unspaced(char) else NARROW for char in text.strip())


def _cue(pieces: Sequence[_Piece], speaker: str) -> Cue:
    start_ms = pieces[0].start_ms
    end_ms = min(max(pieces[-1].end_ms, start_ms + 1), start_ms + MAX_CUE_MS)
    return Cue(start_ms, end_ms, _lines([piece.text for piece in pieces], label(speaker)), speaker)


def _lines(texts: Sequence[str], prefix: str) -> tuple[str, ...]:
    """One line, or two of about one length: the first ends with a clause where one ends near the middle."""
    whole = "".join(texts).strip()
    if _width(prefix + whole) <= LINE_WIDTH or len(texts) == 1:
        return (whole,)
    halves = [("".join(texts[:at]).strip(), "".join(texts[at:]).strip()) for at in range(1, len(texts))]
    return min(halves, key=lambda pair: _awkwardness(pair, prefix))


def _awkwardness(pair: tuple[str, str], prefix: str) -> tuple[bool, int]:
    first, second = _width(prefix + pair[0]), _width(pair[1])
    unclosed = 0 if _CLAUSE_END.search(pair[0]) else LINE_WIDTH // 3
    return max(first, second) > LINE_WIDTH, max(first, second) + unclosed


def _apart(found: Sequence[Cue]) -> Iterator[Cue]:
    """The cues with times at which each is alone."""
    free_ms = 0
    for at, cue in enumerate(found):
        start_ms = max(cue.start_ms, free_ms)
        wanted_ms = 1000 * sum(map(_width, cue.lines)) // _WIDTH_PER_S
        wanted_ms = min(max(cue.end_ms - start_ms, wanted_ms, MIN_CUE_MS), MAX_CUE_MS)
        end_ms = start_ms + wanted_ms
        if at + 1 < len(found) and found[at + 1].start_ms < end_ms:
            told_ms = min(max(cue.end_ms - start_ms, 1), MIN_CUE_MS)
            end_ms = max(found[at + 1].start_ms, start_ms + told_ms)
        yield replace(cue, start_ms=start_ms, end_ms=end_ms)
        free_ms = end_ms
