"""Reads hot words in every form that clients send: lists, objects, comma lists, and FunASR's JSON inside a string."""

import json
import math
from collections.abc import Iterator

from streamscribe.core.errors import BadRequest
from streamscribe.core.options import MAX_HOTWORD_CHARS, MAX_HOTWORDS, Hotword

MAX_WEIGHT = 100.0
MAX_HOTWORDS_TEXT_CHARS = 2**16
"""Longest string that is looked at; 100 phrases of 64 characters fit, JSON escapes included."""

_COMMAS = str.maketrans({"，": ",", "、": ",", ";": ",", "；": ",", "\n": ","})


def parse_hotwords(value: object, *, field: str = "hotwords") -> tuple[Hotword, ...]:
    """Hot words of a client's value, in its order, each phrase once (the last weight counts); none for None or "".

    Accepts a list of phrases or of `{"phrase", "weight"}`, an object of phrase to weight (a number, or a string that
    holds one, as FunASR's Java client sends), or a string: one of those as JSON, phrases between commas, or, without
    a comma, words between spaces. White space inside a phrase becomes one space. Raises BadRequest that names
    `field` and the limit.
    """
    found: dict[str, Hotword] = {}
    for hotword in _items(value, field):
        found.pop(hotword.phrase, None)
        found[hotword.phrase] = hotword
        if len(found) > MAX_HOTWORDS:
            raise BadRequest(f"{field} has more than {MAX_HOTWORDS} phrases", field=field)
    return tuple(found.values())


def _items(value: object, field: str) -> Iterator[Hotword]:
    if value is None:
        return
    if isinstance(value, str):
        value = _decode_text(value, field)
    if isinstance(value, dict):
        for phrase, weight in value.items():
            yield from _hotword(phrase, weight, field)
    elif isinstance(value, list | tuple):
        for item in value:
            yield from _listed(item, field)
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


def _listed(item: object, field: str) -> Iterator[Hotword]:
    if isinstance(item, Hotword):
        yield from _hotword(item.phrase, item.weight, field)
    elif isinstance(item, dict):
        yield from _hotword(item.get("phrase"), item.get("weight", 1.0), field)
    else:
        yield from _hotword(item, 1.0, field)


def _hotword(phrase: object, weight: object, field: str) -> Iterator[Hotword]:
    if not isinstance(phrase, str):
        raise BadRequest(f"{field}: each phrase must be a string", field=field)
    phrase = " ".join(phrase.split())
    if not phrase:
        return
    if len(phrase) > MAX_HOTWORD_CHARS:
        raise BadRequest(f"{field}: a phrase is longer than {MAX_HOTWORD_CHARS} characters", field=field)
    if not phrase.isprintable():
        raise BadRequest(f"{field}: a phrase holds characters that cannot be printed", field=field)
    yield Hotword(phrase, _weight(weight, field))


def _weight(weight: object, field: str) -> float:
    number = math.nan
    if isinstance(weight, int | float | str) and not isinstance(weight, bool):
        try:
            number = float(weight)
        except (ValueError, OverflowError):
            number = math.nan
    if not 0.0 <= number <= MAX_WEIGHT:
        raise BadRequest(f"{field}: a weight must be a number from 0 to {MAX_WEIGHT:g}", field=field)
    return number
