"""A clause of English: its words, and where they stand in the text."""

import re
from collections.abc import Iterator
from dataclasses import dataclass

_WORD = re.compile(r"[ap]\.m\b|[A-Za-z]+(?:['’][A-Za-z]+)*")


@dataclass(frozen=True, slots=True)
class Clause:
    """Words with nothing but a space or a hyphen between them, in lower case, and where each is in the text."""

    words: list[str]
    spans: list[tuple[int, int]]

    def word(self, at: int) -> str:
        """The word there, or nothing."""
        return self.words[at] if 0 <= at < len(self.words) else ""


Found = tuple[int, int, str | None]
"""From which word to which, and what to write there; None where it stays."""


def clauses(text: str) -> Iterator[Clause]:
    """The text in clauses, in order."""
    clause, end = Clause([], []), -1
    for match in _WORD.finditer(text):
        if end >= 0 and text[end : match.start()] not in (" ", "-"):
            yield clause
            clause = Clause([], [])
        clause.words.append(match[0].lower().replace("’", "'"))
        clause.spans.append(match.span())
        end = match.end()
    yield clause
