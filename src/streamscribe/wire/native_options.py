"""Session options of the native protocol: from the address' query and from the `start` message, by one reader."""

from collections.abc import Mapping
from typing import Any, TypeVar

import msgspec
from msgspec import UNSET, UnsetType, convert
from msgspec.structs import asdict

from streamscribe.core.audio import AudioFormat
from streamscribe.core.errors import BadRequest
from streamscribe.core.hotwords import HotwordList, read_hotwords
from streamscribe.core.options import EndpointOptions, Mode, SessionOptions
from streamscribe.wire.fields import explain, parse_language
from streamscribe.wire.native_client import AudioFields, StartMessage

T = TypeVar("T")

_PLAIN_PARAMETERS = (
    "mode",
    "language",
    "hotwords",
    "words",
    "itn",
    "punctuation",
    "latency",
    "chunk_ms",
    "framing",
    "store",
)
_AUDIO_PARAMETERS = {
    "encoding": "encoding",
    "sample_rate": "sample_rate",
    "rate": "sample_rate",
    "channels": "channels",
}
_ENDPOINT_PARAMETERS = ("silence_ms", "max_segment_ms", "min_speech_ms")


def native_options_from_query(params: Mapping[str, str]) -> SessionOptions:
    """Options of a `/ws/asr` address: the fields of `start`, flat; `rate` is short for `sample_rate`.

    Flags are true/false or 1/0, hot words stand between commas, unknown parameters are ignored, an empty value is an
    absent one. Raises BadRequest that names the field.
    """
    given = {name: value for name, value in params.items() if value}
    fields: dict[str, Any] = {name: given[name] for name in _PLAIN_PARAMETERS if name in given}
    fields["audio"] = {field: given[name] for name, field in _AUDIO_PARAMETERS.items() if name in given}
    fields["endpoint"] = {name: given[name] for name in _ENDPOINT_PARAMETERS if name in given}
    try:
        start = convert({"type": "start", **fields}, StartMessage, strict=False)
    except msgspec.ValidationError as error:
        raise explain(error) from None
    return options_from_start(SessionOptions(), start)


def options_from_start(base: SessionOptions, start: StartMessage) -> SessionOptions:
    """`base` with what `start` names. Mode `offline` is a file: it is never paced. Raises BadRequest."""
    mode = _or(start.mode, base.mode)
    language = _or(start.language, base.language)
    endpoint = base.endpoint
    if start.endpoint is not UNSET:
        endpoint = EndpointOptions(**asdict(start.endpoint))
    hotwords = HotwordList(base.hotwords, base.ignored_hotwords)
    if start.hotwords is not UNSET:
        hotwords = read_hotwords(start.hotwords)
    return SessionOptions(
        audio=_audio(base.audio, start.audio),
        mode=mode,
        task=base.task,
        language=parse_language(language, field="language"),
        hotwords=hotwords.accepted,
        ignored_hotwords=hotwords.ignored,
        words=_or(start.words, base.words),
        itn=_or(start.itn, base.itn),
        punctuation=_or(start.punctuation, base.punctuation),
        endpoint=endpoint,
        latency=_or(start.latency, base.latency),
        chunk_ms=_or(start.chunk_ms, base.chunk_ms),
        sequenced=base.sequenced if start.framing is UNSET else start.framing == "sequenced",
        live=mode is not Mode.OFFLINE,
        store=_or(start.store, base.store),
    )


def _or(value: T | UnsetType, default: T) -> T:
    return default if isinstance(value, UnsetType) else value


def _audio(base: AudioFormat, fields: AudioFields | UnsetType) -> AudioFormat:
    if isinstance(fields, UnsetType):
        return base
    given = {name: value for name, value in asdict(fields).items() if value is not UNSET}
    try:
        return AudioFormat(
            **{"encoding": base.encoding, "sample_rate": base.sample_rate, "channels": base.channels, **given}
        )
    except ValueError as error:
        raise BadRequest(str(error), field=str(error).split(" ", 1)[0]) from None
