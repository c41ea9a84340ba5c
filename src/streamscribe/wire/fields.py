"""Readers of the fields that every protocol has in its own spelling."""

import re

import msgspec

from streamscribe.core.audio import Encoding
from streamscribe.core.errors import BadRequest
from streamscribe.core.options import Latency, Mode

_LANGUAGE = re.compile(r"([A-Za-z]{2,3})([-_][A-Za-z0-9]{2,8}){0,3}\Z")
_PLACE = re.compile(r"(.*) - at `\$\.?(.*)`\Z", re.DOTALL)
_CHOICES = {
    "mode": [mode.value for mode in Mode],
    "audio.encoding": [encoding.value for encoding in Encoding],
    "latency": [latency.value for latency in Latency],
    "framing": ["plain", "sequenced"],
    "type": ["start", "flush", "update", "ping", "end", "resume"],
}


def parse_language(value: str | None, *, field: str) -> str | None:
    """The primary tag in lower case (`zh-CN` is `zh`); None, "" and `auto` mean: recognise it.

    Raises BadRequest for what is not the shape of a language tag; whether a model knows it is the model's answer.
    """
    if value is None or value.strip().lower() in ("", "auto"):
        return None
    if not (match := _LANGUAGE.match(value.strip())):
        raise BadRequest(f"{field} must be a language code like zh or en, or auto", field=field)
    return match.group(1).lower()


def explain(error: msgspec.ValidationError) -> BadRequest:
    """The typed error for a message of a wrong shape: names the field, and never echoes what the client sent."""
    reason, field = str(error), ""
    if match := _PLACE.match(reason):
        reason, field = match.groups()
    if choices := _CHOICES.get(field):
        return BadRequest(f"{field} must be one of {', '.join(choices)}", field=field)
    if reason.startswith("Object missing required field"):
        missing = reason.rsplit("`", 2)[-2]
        field = f"{field}.{missing}" if field else missing
        return BadRequest(f"{field} is missing", field=field)
    return BadRequest(f"{field or 'the message'}: {reason[0].lower()}{reason[1:]}", field=field or None)
