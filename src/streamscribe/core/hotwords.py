"""Reads hot words in every form that clients send: lists, objects, comma lists, and FunASR's JSON inside a string.

A phrase is a phrase whatever it looks like: one like a path or an address is never opened.
"""

import json
import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from streamscribe.core.errors import BadRequest
from streamscribe.core.options import MAX_HOTWORD_CHARS, MAX_HOTWORDS, Hotword, IgnoredHotword

MAX_WEIGHT = 100.0
MAX_HOTWORDS_TEXT_CHARS = 2**16
"""Longest string that is looked at; 100 phrases of 64 characters fit, JSON escapes included."""

MAX_IGNORED = 100
"""Phrases that are told as ignored; further ones of a list are just not among the accepted."""

_COMMAS = str.maketrans({"，": ",", "、": ",", ";": ",", "；": ",", "\n": ","})


@dataclass(frozen=True, slots=True)
class HotwordList:
    """What came of a client's list."""

    accepted: tuple[Hotword, ...] = ()
    ignored: tuple[IgnoredHotword, ...] = ()


def read_hotwords(value: object, *, field: str = "hotwords") -> HotwordList:
    """Hot words of a client's value, in its order, each phrase once (the last weight counts); none for None or "".

    Accepts a list of phrases or of `{"phrase", "weight"}`, an object of phrase to weight (a number, or a string that
    holds one, as FunASR's Java client sends), or a string: one of those as JSON, phrases between commas, or, without
    a comma, words between spaces. White space inside a phrase becomes one space. A phrase that cannot be taken is
    ignored and loses no other. Raises BadRequest that names `field` where the value is no list at all.
    """
    accepted: dict[str, Hotword] = {}
    ignored: list[IgnoredHotword] = []
    for phrase, weight in _items(value, field):
        taken = _hotword(phrase, weight)
        if isinstance(taken, Hotword):
            accepted.pop(taken.phrase, None)
            if len(accepted) < MAX_HOTWORDS:
                accepted[taken.phrase] = taken
                continue
            taken = IgnoredHotword(taken.phrase, f"the list has more than {MAX_HOTWORDS} phrases")
        if taken is not None and len(ignored) < MAX_IGNORED:
            ignored.append(taken)
    return HotwordList(tuple(accepted.values()), tuple(ignored))


def parse_hotwords(value: object, *, field: str = "hotwords") -> tuple[Hotword, ...]:
    """As `read_hotwords`, for a list that is taken whole or not at all: raises BadRequest for the first ignored one."""
    hotwords = read_hotwords(value, field=field)
    for ignored in hotwords.ignored:
        raise BadRequest(f"{field}: {ignored.reason}", field=field)
    return hotwords.accepted


def merge_hotwords(first: Iterable[Hotword], second: Iterable[Hotword]) -> tuple[Hotword, ...]:
    """Both lists as one, each phrase once and at most MAX_HOTWORDS together: the first list wins."""
    merged = {hotword.phrase: hotword for hotword in first}
    for hotword in second:
        if len(merged) >= MAX_HOTWORDS:
            break
        merged.setdefault(hotword.phrase, hotword)
    return tuple(merged.values())


def _items(value: object, field: str) -> Iterator[tuple[object, object]]:
    """Phrases and weights as they came."""
    if value is None:
        return
    if isinstance(value, str):
        value = _decode_text(value, field)
    if isinstance(value, dict):
        yield from value.items()
    elif isinstance(value, list | tuple):
        yield from map(_listed, value)
    else:
        raise BadRequest(f"{field} must be a list, an object or a string", field=field)


def _decode_text(text: str, field: str) -> object:
    """The list or object that a string stands for."""
    if len(text) > MAX_HOTWORDS_TEXT_CHARS:
        raise BadRequest(f"{field} is longer than {MAX_HOTWORDS_TEXT_CHARS} characters", field=field)
    text = text.strip()
    if text.startswith(("{", "[")):
        try:
            return json.loads(text)
        except (ValueError, RecursionError):
            raise BadRequest(f"{field} is not valid JSON", field=field) from None
    commas = text.translate(_COMMAS)
    return commas.split(",") if "," in commas else text.split()


def _listed(item: object) -> tuple[object, object]:
    if isinstance(item, Hotword):
        return item.phrase, item.weight
    if isinstance(item, dict):
        return item.get("phrase"), item.get("weight", 1.0)
    return item, 1.0


def _hotword(phrase: object, weight: object) -> Hotword | IgnoredHotword | None:
    """The hot word, or why it is none; None for an empty phrase."""
    if not isinstance(phrase, str):
        return IgnoredHotword("", "a phrase must be a string")
    phrase = " ".join(phrase.split())
    if not phrase:
        return None
    told = "".join(char if char.isprintable() else "\N{REPLACEMENT CHARACTER}" for char in phrase[:MAX_HOTWORD_CHARS])
    if len(phrase) > MAX_HOTWORD_CHARS:
        return IgnoredHotword(told, f"a phrase is longer than {MAX_HOTWORD_CHARS} characters")
    if not phrase.isprintable():
        return IgnoredHotword(told, "a phrase holds characters that cannot be printed")
    number = _weight(weight)
    if number is None:
        return IgnoredHotword(told, f"a weight must be a number from 0 to {MAX_WEIGHT:g}")
    return Hotword(phrase, number)


def _weight(weight: object) -> float | None:
    number = math.nan
    if isinstance(weight, int | float | str) and not isinstance(weight, bool):
        try:
            number = float(weight)
        except (ValueError, OverflowError):
            number = math.nan
    return number if 0.0 <= number <= MAX_WEIGHT else None
