"""Marks: put into a text that a punctuator read, taken off its head, or taken out for clients that want none."""

import re
from collections.abc import Iterable, Sequence

from streamscribe.core.script import CLOSING_MARKS, ending, is_unspaced
from streamscribe.core.tokens import Mark
from streamscribe.text.timed import Edit

_HALF_WIDTH = {"，": ",", "。": ".", "？": "?", "！": "!", "；": ";", "：": ":", "、": ","}
_FULL_WIDTH = {",": "，", ".": "。", "?": "？", "!": "！", ";": "；", ":": "："}
_GOES_ON = frozenset("，、；：,;:")
"""Marks after which a sentence goes on; the last one of a final ends it."""
_ENDS = frozenset("。？！.?!")
_MOST_UNFINISHED_CHARS = 100
"""Few sentences are longer; of one that is, a punctuator is shown the end."""
_LETTER = re.compile(r"[^\W\d_]")
_MARKS = re.compile(
    r"""
    (?<=\d)[.,:/](?=\d) |                       # in a number, kept: 3.5
    (?<!\w)-(?=\d) |                            # before one, kept: -5
    (?<=\w)['’\-/@_](?=\w) |                    # in a word, kept: don't
    (?<=[A-Za-z])\.(?=[A-Za-z]) |               # kept too: p.m
    (?P<gone>[,.;:!?，。、；：！？…·—–\-'’"“”‘()（）\[\]【】「」『』《》〈〉¡¿~～]+)
    """,
    re.VERBOSE,
)


def added(text: str, marks: Iterable[Mark], *, goes_on: bool = False) -> list[Edit]:
    """A punctuator's marks for a text without any: full-width after Chinese, half-width after English.

    Where the text has a mark already none is added; the last one ends the sentence, unless the text `goes_on`. None is
    put before the text.
    """
    if goes_on:
        marks = [mark if mark.if_open is None else Mark(mark.at, mark.if_open) for mark in marks]
    places = {len(text[: max(0, mark.at)].rstrip()): mark.text for mark in marks if mark.at <= len(text)}
    wanted = {at: mark for at, mark in places.items() if at and mark}
    edits: list[Edit] = []
    for at in sorted({*wanted, len(text)} if wanted and text and not goes_on else wanted):
        before, after = text[at - 1], text[at:].lstrip()[:1]
        if before in CLOSING_MARKS or (after and after in CLOSING_MARKS):
            continue
        mark = wanted.get(at, "。")
        if not after and mark in _GOES_ON and not goes_on:
            mark = "。"
        mark = _in_width(text[:at], mark)
        gap = " " if after and text[at : at + 1] == after and mark.isascii() else ""
        edits.append(Edit(at - 1, at, before + mark + gap))
    return edits


def _in_width(before: str, mark: str) -> str:
    """The mark as the script of the last letter before it has it; full-width where there is none."""
    letter = next((char for char in reversed(before) if _LETTER.match(char)), "一")
    widths = _FULL_WIDTH if is_unspaced(letter) else _HALF_WIDTH
    return "".join(widths.get(char, char) for char in mark)


def unfinished(text: str, marks: Sequence[Mark]) -> str:
    """What of a text that a punctuator read may go on in the next one: all behind the last sentence that ends inside.

    That the text itself ends is not told by its last mark, as FunASR's realtime model has it: it may be a pause.
    """
    last = len(text.rstrip())
    begin = max((mark.at for mark in marks if mark.at < last and mark.text in _ENDS), default=0)
    return ending(text[begin:], _MOST_UNFINISHED_CHARS)


def leading(text: str) -> list[Edit]:
    """Takes off the marks at the head: they belong to what was said before. A text of marks alone keeps them."""
    head = len(text) - len(text.lstrip(CLOSING_MARKS + " "))
    if head == len(text) or (head and text[head - 1] == "." and text[head].isdigit()):
        return []
    return [Edit(at, at + 1, "") for at in range(head)]


def removed(text: str) -> list[Edit]:
    """Deletes the text's punctuation, but not the marks inside numbers and words (3.5, 10:30, don't).

    Words that only a mark parts get a space where their script has spaces.
    """
    edits: list[Edit] = []
    for match in _MARKS.finditer(text):
        if match["gone"] is None:
            continue
        start, end = match.span()
        before, after = text[start - 1 : start], text[end : end + 1]
        if after == " " and before in ("", " "):
            end += 1
        parts = before.isascii() and after.isascii() and before.isalnum() and after.isalnum()
        edits += [Edit(at, at + 1, " " if parts and at == start else "") for at in range(start, end)]
    return edits
