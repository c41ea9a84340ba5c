"""The name that somebody who mistyped one most likely meant."""

from collections.abc import Iterable
from difflib import get_close_matches


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """`; did you mean X?` with the nearest of the known names, to end a message with; empty where none is near.

    Nearness is that of `difflib.get_close_matches`, at its own cutoff.
    """
    near = get_close_matches(name, list(known), n=1)
    return f"; did you mean {near[0]}?" if near else ""
