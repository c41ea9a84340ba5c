"""Reads the form of OpenAI's audio API: every spelling that its clients use for a field, and what is allowed in it."""

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from streamscribe.core.errors import BadRequest, ModelNotFound
from streamscribe.core.hotwords import parse_hotwords
from streamscribe.core.options import (
    MAX_HOTWORD_CHARS,
    MAX_HOTWORDS,
    MAX_SILENCE_MS,
    MIN_SILENCE_MS,
    EndpointOptions,
    Hotword,
    Mode,
    SessionOptions,
    Task,
)
from streamscribe.wire.fields import parse_language

MAX_PROMPT_CHARS = 4096
_NAME = re.compile(r"(\w+)((?:\[\w*\])*)\Z")
_PHRASE_ENDS = re.compile(r"[,;，、；。！？\n]|[.!?](?=\s|\Z)")
_TRUE, _FALSE = {"true", "1"}, {"false", "0", ""}


class ResponseFormat(StrEnum):
    """How the answer is written."""

    JSON = "json"
    TEXT = "text"
    SRT = "srt"
    VERBOSE_JSON = "verbose_json"
    VTT = "vtt"


@dataclass(frozen=True, slots=True)
class TranscriptionRequest:
    """A valid form, but for its file. `words` and `segments` say what `verbose_json` holds.

    `progress` asks a stream for segments with times and for how far it has come.
    """

    options: SessionOptions
    format: ResponseFormat = ResponseFormat.JSON
    stream: bool = False
    progress: bool = False
    segments: bool = True
    words: bool = False


class _Fields:
    """The fields by name, brackets gone: `x`, `x[]` and `x[0]` are one list, `x[key]` is an object's member."""

    def __init__(self, pairs: Sequence[tuple[str, str]]) -> None:
        self._values: dict[str, list[str]] = {}
        self._members: dict[str, dict[str, str]] = {}
        for name, value in pairs:
            match = _NAME.match(name)
            if match is None:
                continue
            base, key = match[1], match[2].strip("[]")
            if key and not key.isdigit():
                self._members.setdefault(base, {})[key] = value
            else:
                self._values.setdefault(base, []).append(value)

    def one(self, name: str) -> str | None:
        """The last value, None for none or an empty one."""
        values = self._values.get(name)
        return values[-1].strip() or None if values else None

    def many(self, name: str) -> list[str]:
        """All values; one that is a JSON list or a comma list stands for its items."""
        found: list[str] = []
        for value in self._values.get(name, ()):
            items = _json(value) if value.lstrip().startswith("[") else None
            found += [str(item) for item in items] if isinstance(items, list) else value.split(",")
        return [item.strip() for item in found if item.strip()]

    def object(self, name: str) -> dict[str, Any]:
        """Members in brackets, or the value as JSON; empty for a plain word."""
        if name in self._members:
            return dict(self._members[name])
        value = _json(self.one(name) or "")
        return value if isinstance(value, dict) else {}


def read_request(
    pairs: Sequence[tuple[str, str]], task: Task, served_models: Sequence[str], *, cache_control: str = ""
) -> TranscriptionRequest:
    """The request that a form's fields and the header `Cache-Control` make.

    Raises BadRequest that names the field, and ModelNotFound.
    """
    fields = _Fields(pairs)
    model = fields.one("model")
    if model is not None and model not in served_models:
        raise ModelNotFound(f"the model is not served here; models are: {', '.join(served_models)}", field="model")
    format_ = _format(fields.one("response_format"))
    stream = _flag(fields.one("stream"), "stream")
    if stream and format_ not in (ResponseFormat.JSON, ResponseFormat.TEXT):
        raise BadRequest("stream needs response_format json", field="stream")
    _check_temperature(fields.one("temperature"))
    granularities = _granularities(fields.many("timestamp_granularities"))
    words = format_ is ResponseFormat.VERBOSE_JSON and "word" in granularities
    options = SessionOptions(
        mode=Mode.OFFLINE,
        task=task,
        language=_language(fields),
        hotwords=_hotwords(fields),
        words=words or format_ in (ResponseFormat.SRT, ResponseFormat.VTT),
        endpoint=EndpointOptions(silence_ms=_silence_ms(fields)),
        live=False,
        store=not _forbids_storing(cache_control),
    )
    return TranscriptionRequest(
        options,
        format_,
        stream,
        progress="progress" in fields.many("include"),
        segments="segment" in granularities,
        words=words,
    )


def _format(value: str | None) -> ResponseFormat:
    if value is None:
        return ResponseFormat.JSON
    try:
        return ResponseFormat(value)
    except ValueError:
        raise BadRequest(
            f"response_format must be one of {', '.join(ResponseFormat)}", field="response_format"
        ) from None


def _flag(value: str | None, field: str) -> bool:
    word = (value or "").lower()
    if word not in _TRUE | _FALSE:
        raise BadRequest(f"{field} must be true or false", field=field)
    return word in _TRUE


def _check_temperature(value: str | None) -> None:
    """Decoding is deterministic: a temperature is accepted, checked and not used."""
    try:
        allowed = 0.0 <= float(value or 0) <= 1.0
    except ValueError:
        allowed = False
    if not allowed:
        raise BadRequest("temperature must be 0 to 1", field="temperature")


def _granularities(values: Sequence[str]) -> set[str]:
    if set(values) - {"word", "segment"}:
        raise BadRequest("timestamp_granularities must be word or segment", field="timestamp_granularities")
    return set(values) or {"segment"}


def _language(fields: _Fields) -> str | None:
    """`language`, or the only one of `languages`; of several, the model chooses."""
    hints = fields.many("languages")
    value = fields.one("language") or (hints[0] if len(hints) == 1 else None)
    return parse_language(value, field="language")


def _hotwords(fields: _Fields) -> tuple[Hotword, ...]:
    """`hotwords` and `keywords` as they are, then what the prompt names, as far as there is room."""
    given = parse_hotwords(fields.one("hotwords")) + parse_hotwords(fields.many("keywords"), field="keywords")
    named = {hotword.phrase: hotword for hotword in given}
    if len(named) > MAX_HOTWORDS:
        raise BadRequest(f"keywords has more than {MAX_HOTWORDS} phrases", field="keywords")
    for phrase in _prompt_phrases(fields.one("prompt") or ""):
        if len(named) < MAX_HOTWORDS:
            named.setdefault(phrase, Hotword(phrase))
    return tuple(named.values())


def _prompt_phrases(prompt: str) -> list[str]:
    """A prompt's phrases between punctuation; one too long for a hot word is a sentence and hints at nothing."""
    if len(prompt) > MAX_PROMPT_CHARS:
        raise BadRequest(f"prompt is longer than {MAX_PROMPT_CHARS} characters", field="prompt")
    phrases = (" ".join(phrase.split()) for phrase in _PHRASE_ENDS.split(prompt))
    return [phrase for phrase in phrases if 0 < len(phrase) <= MAX_HOTWORD_CHARS and phrase.isprintable()]


def _forbids_storing(cache_control: str) -> bool:
    """Whether the header's directives have `no-store` (RFC 9111, 5.2.1.5)."""
    return any(directive.strip().lower() == "no-store" for directive in cache_control.split(","))


def _silence_ms(fields: _Fields) -> int | None:
    """The silence that ends a segment, of `chunking_strategy` in any of its spellings."""
    value = fields.object("chunking_strategy").get("silence_duration_ms")
    if value is None:
        return None
    try:
        silence_ms = int(value)
    except (TypeError, ValueError, OverflowError):
        silence_ms = 0
    if not MIN_SILENCE_MS <= silence_ms <= MAX_SILENCE_MS:
        raise BadRequest(
            f"chunking_strategy.silence_duration_ms must be {MIN_SILENCE_MS} to {MAX_SILENCE_MS}",
            field="chunking_strategy",
        )
    return silence_ms


def _json(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None
