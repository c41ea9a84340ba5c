"""Subtitles of finals in SRT and WebVTT: cues that can be read, at most two lines and seven seconds long."""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from streamscribe.core.results import Result
from streamscribe.core.script import is_unspaced, unit_ends
from streamscribe.text.timed import word_starts

MAX_CUE_MS = 7_000
MAX_LINES = 2
_LINE_WIDTH, _NARROW, _WIDE = 840, 20, 42
"""A line takes 42 narrow or 20 wide characters, or a mixture."""
_CLAUSE_END = re.compile(r"[,.;:!?，。；：！？、…]['\"’”」』]?$")


@dataclass(frozen=True, slots=True)
class _Piece:
    """A word (with the marks and the space around it) or a run of them."""

    text: str
    start_ms: int
    end_ms: int


def srt(results: Iterable[Result]) -> str:
    """The finals' text as SubRip, in the order of their times; long ones are several cues."""
    blocks = []
    for number, (cue, lines) in enumerate(_cues(results), 1):
        text = "\n".join(lines).replace("-->", "→")
        blocks.append(f"{number}\n{_clock(cue.start_ms, ',')} --> {_clock(cue.end_ms, ',')}\n{text}\n")
    return "\n".join(blocks)


def vtt(results: Iterable[Result]) -> str:
    """The finals' text as WebVTT, in the order of their times; long ones are several cues."""
    blocks = ["WEBVTT\n"]
    for cue, lines in _cues(results):
        text = "\n".join(lines).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
        blocks.append(f"{_clock(cue.start_ms, '.')} --> {_clock(cue.end_ms, '.')}\n{text}\n")
    return "\n".join(blocks)


def _clock(ms: int, point: str) -> str:
    seconds, ms = divmod(ms, 1000)
    minutes, seconds = divmod(seconds, 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours:02}:{minutes:02}:{seconds:02}{point}{ms:03}"


def _cues(results: Iterable[Result]) -> list[tuple[_Piece, list[str]]]:
    """Each cue with its lines."""
    cues = [(_whole(pieces), _lines(pieces)) for result in results if result.text.strip() for pieces in _groups(result)]
    return sorted(cues, key=lambda cue: cue[0].start_ms)


def _whole(pieces: Sequence[_Piece]) -> _Piece:
    start_ms = pieces[0].start_ms
    end_ms = min(max(pieces[-1].end_ms, start_ms + 1), start_ms + MAX_CUE_MS)
    return _Piece("".join(piece.text for piece in pieces), start_ms, end_ms)


def _groups(result: Result) -> Iterator[list[_Piece]]:
    """The pieces of each cue: as many as fit; a cue that overflows ends at its last clause that is not too early."""
    group: list[_Piece] = []
    for piece in _pieces(result):
        if group and not _fits([*group, piece]):
            ends = [at for at, one in enumerate(group, 1) if _CLAUSE_END.search(one.text.rstrip())]
            at = ends[-1] if ends and 2 * ends[-1] >= len(group) else len(group)
            yield group[:at]
            group = group[at:]
        group.append(piece)
    yield group


def _pieces(result: Result) -> Iterator[_Piece]:
    """The text in words; where it has none, their times are guessed from where they stand in it."""
    text = " ".join(result.text.split())
    starts = word_starts(text, result.words)
    if result.words and len(starts) == len(result.words):
        ends = [*starts[1:], len(text)]
        for word, start, end in zip(result.words, starts, ends, strict=True):
            yield _Piece(text[start:end], word.start_ms, word.end_ms)
        return
    cuts = [0, *unit_ends(text)[:-1], len(text)]
    times = [result.start_ms + (result.end_ms - result.start_ms) * cut // len(text) for cut in cuts]
    for index in range(len(cuts) - 1):
        yield _Piece(text[cuts[index] : cuts[index + 1]], times[index], times[index + 1])


def _fits(pieces: Sequence[_Piece]) -> bool:
    if pieces[-1].end_ms - pieces[0].start_ms > MAX_CUE_MS:
        return False
    lines, line = 1, ""
    for piece in pieces:
        if line and _width(line + piece.text) > _LINE_WIDTH:
            lines, line = lines + 1, ""
        line += piece.text
    return lines <= MAX_LINES


def _width(text: str) -> int:
    return sum(_WIDE if is_unspaced(char) else _NARROW for char in text.strip())


def _lines(pieces: Sequence[_Piece]) -> list[str]:
    """One line, or two of about one length."""
    texts = [piece.text for piece in pieces]
    whole = "".join(texts).strip()
    if _width(whole) <= _LINE_WIDTH:
        return [whole]
    halves = [["".join(texts[:at]).strip(), "".join(texts[at:]).strip()] for at in range(1, len(texts))]
    return min(halves, key=lambda pair: max(map(_width, pair)), default=[whole])
