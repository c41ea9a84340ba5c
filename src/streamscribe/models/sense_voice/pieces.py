"""SenseVoice's sentence pieces: what is text and what is a tag, and how pieces become words."""

from collections.abc import Sequence
from dataclasses import replace

from streamscribe.core.script import is_unspaced
from streamscribe.core.tokens import HypothesisWord, Token

WORD_START = "▁"
"""What a piece begins with that begins a word of a spaced script."""


def tag_of(piece: str) -> str | None:
    """What a tag such as `<|zh|>` says; None for text."""
    return piece[2:-2] if piece.startswith("<|") and piece.endswith("|>") else None


def text_of(pieces: Sequence[str]) -> str:
    """The pieces as text."""
    return "".join(pieces).replace(WORD_START, " ").strip()


def words_of(tokens: Sequence[Token]) -> tuple[HypothesisWord, ...]:
    """The tokens as words: letters of spaced scripts and digits together, other characters as the model has them.

    A word ends with the punctuation behind it; its confidence is the mean of its pieces'.
    """
    words: list[list[Token]] = []
    spaced = True
    for token in tokens:
        text = token.text.removeprefix(WORD_START)
        spaced = spaced or text != token.text
        if not text:
            continue
        piece = replace(token, text=text)
        if words and _belongs(words[-1][-1].text, text, spaced=spaced):
            words[-1].append(piece)
        else:
            words.append([piece])
        spaced = False
    return tuple(_word(pieces) for pieces in words)


def _word(pieces: Sequence[Token]) -> HypothesisWord:
    return HypothesisWord(
        "".join(piece.text for piece in pieces),
        pieces[0].start,
        pieces[-1].end,
        sum(piece.confidence for piece in pieces) / len(pieces),
    )


def _belongs(before: str, text: str, *, spaced: bool) -> bool:
    if not any(character.isalnum() for character in text):
        return True
    return not spaced and _is_spaced_script(before[-1]) and _is_spaced_script(text[0])


def _is_spaced_script(character: str) -> bool:
    """Whether the character is of a word of a script that sets spaces between words."""
    return (character.isalnum() or character in "'-.") and not is_unspaced(character)
