"""wetext's grammars, asked for what they found rather than for a text: tokens with their source."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from threading import Lock
from types import ModuleType
from typing import Literal

Language = Literal["zh", "en"]

_TOKEN = re.compile(r'(\w+) \{((?: \w+: "(?:[^"\\]|\\.)*")+) \}')
_MEMBER = re.compile(r' (\w+): "((?:[^"\\]|\\.)*)"')
_ESCAPE = re.compile(r"\\(.)")
_SYNTHETIC = frozenset({"preserve_order", "style", "kind"})
"""Members that hold no piece of the source."""


@dataclass(frozen=True, slots=True)
class Token:
    """What a grammar found: its kind (`char` and `word` are plain text), its source in pieces, its tagged form."""

    kind: str
    members: dict[str, str]
    tagged: str

    @property
    def pieces(self) -> list[str]:
        """The source's pieces in order; white space between them is not told."""
        return [piece for name, piece in self.members.items() if name not in _SYNTHETIC]


class Grammar:
    """The number grammars of Chinese and English. Safe to use from many threads, one at a time."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._wetext: ModuleType | None = None

    def tokens(self, text: str, language: Language) -> list[Token]:
        """What the grammar finds, in order; nothing for a text that it cannot read."""
        with self._lock:
            tagged: str = self._load().tag(text, language, "itn")
        return list(_parse(tagged))

    def written(self, token: Token, language: Language) -> str:
        """How the grammar writes a token; empty where it cannot."""
        with self._lock:
            wetext = self._load()
            written: str = wetext.verbalize(wetext.reorder(token.tagged, language, "itn"), language, "itn")
        return written

    def _load(self) -> ModuleType:
        if self._wetext is None:
            import wetext  # reads 20 MB of grammars, which takes a second

            self._wetext = wetext
        return self._wetext


def _parse(tagged: str) -> Iterator[Token]:
    for kind, members in _TOKEN.findall(tagged):
        pieces = {name: _ESCAPE.sub(r"\1", value) for name, value in _MEMBER.findall(members)}
        yield Token(kind, pieces, f"{kind} {{{members} }}")
