"""Spoken English numbers as people write them: $23, 5.2%, April 16 2026, 3:30 p.m."""

import re
from collections.abc import Iterator

from streamscribe.text.grammar import Grammar, Token
from streamscribe.text.timed import Edit

_CLAUSE = re.compile(r"[A-Za-z'’]+(?:[ -][A-Za-z'’]+)*")
_WORD = re.compile(r"[A-Za-z'’]+")
_DIGIT = "(?:zero|oh|o|one|two|three|four|five|six|seven|eight|nine)"
_NUMBER = re.compile(
    rf"""\b(?:
    \w+teen | ten | eleven | twelve | \w+ty | hundred | thousand | million | billion | {_DIGIT}[ -]{_DIGIT} |
    point | percent | dollars? | cents? | pounds? | euros? | o'clock | past | [ap][ ]?m |
    \w+th | first | second | third
    )\b""",
    re.IGNORECASE | re.VERBOSE,
)
"""Without one of these a text has nothing for the grammar, which takes milliseconds for 80 characters."""
_PLAIN = frozenset({"word", "char"})
_SERIAL = re.compile(f"{_DIGIT}(?: {_DIGIT}){{2,}}")
_NO_YEAR = re.compile("[03-9][0-9]{3}")
_LARGE = re.compile("hundred|thousand", re.IGNORECASE)
"""Two numbers side by side that the grammar takes for a year (fifty fifty), unless they hold one of these."""


def edits(text: str, grammar: Grammar) -> list[Edit]:
    """What to write in digits."""
    found: list[Edit] = []
    for clause in _CLAUSE.finditer(text):
        if _NUMBER.search(clause[0]):
            found += _clause_edits(clause[0], text[clause.end() : clause.end() + 1], clause.start(), grammar)
    return found


def _clause_edits(clause: str, following: str, offset: int, grammar: Grammar) -> Iterator[Edit]:
    spoken = clause.lower().replace("-", " ").replace("’", "'")
    words = list(_WORD.finditer(spoken))
    tokens = grammar.tokens(spoken, "en")
    if " ".join(piece for token in tokens for piece in token.pieces if piece).split() != [word[0] for word in words]:
        return
    at = 0
    for token in tokens:
        first, at = at, at + len(" ".join(token.pieces).split())
        if token.kind in _PLAIN:
            continue
        start, end = words[first].start(), words[at - 1].end()
        written = _written(token, clause[start:end], grammar)
        if end == len(clause) and following == ".":
            written = written.removesuffix(".")  # at 3:30 p.m.
        if written != clause[start:end]:
            yield Edit(offset + start, offset + end, written)


def _written(token: Token, source: str, grammar: Grammar) -> str:
    """A token as people write it; its source where that is best."""
    if token.kind == "ordinal" and " " not in source and "-" not in source:  # a second, first of all
        return source
    if token.kind == "telephone" and not _SERIAL.fullmatch(token.members.get("number_part", "")):
        return source  # twenty four seven
    written = grammar.written(token, "en")
    if not written or (_NO_YEAR.fullmatch(written) and not _LARGE.search(source)):
        return source
    if token.kind == "time":
        return written.removeprefix("0")
    if token.kind == "measure":
        amount, _, _ = written.partition(" ")
        units = token.members.get("units", "")
        if units == "percent":
            return f"{amount}%"
        return source if amount.isdigit() and len(amount) == 1 else f"{amount} {source[-len(units) :]}"
    return _with_case(written, source)


def _with_case(written: str, source: str) -> str:
    """The words that stayed, as the source writes them (May, April)."""
    cased = {word[0].lower(): word[0] for word in _WORD.finditer(source)}
    return _WORD.sub(lambda match: cased.get(match[0], match[0]), written)
