"""Places of a text that may be a hot word, and the choice among those that overlap."""

from collections.abc import Iterable
from dataclasses import dataclass

from streamscribe.text.timed import Edit


@dataclass(frozen=True, slots=True)
class Candidate:
    """Characters `start` to `end` (not included) sound like a phrase; `gain` says how much surer than it must be."""

    start: int
    end: int
    gain: float
    edits: tuple[Edit, ...]


def choose(candidates: Iterable[Candidate], length: int) -> list[Candidate]:
    """Candidates that do not overlap, in order: the longest are taken first, of equals the surest."""
    taken = bytearray(length)
    chosen: list[Candidate] = []
    for one in sorted(candidates, key=lambda one: (one.start - one.end, -one.gain, one.start)):
        if taken.find(1, one.start, one.end) < 0:
            taken[one.start : one.end] = b"\1" * (one.end - one.start)
            chosen.append(one)
    return sorted(chosen, key=lambda one: one.start)


def rewrite(text: str, start: int, end: int, phrase: str) -> tuple[Edit, ...]:
    """What makes a place of the text the phrase: character by character where both are as long, so that words stay."""
    if end - start != len(phrase):
        return (Edit(start, end, phrase),)
    pairs = enumerate(zip(text[start:end], phrase, strict=True), start)
    return tuple(Edit(at, at + 1, new) for at, (old, new) in pairs if old != new)
