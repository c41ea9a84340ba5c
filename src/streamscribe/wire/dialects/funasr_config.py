"""FunASR's control messages: read with every variant that its clients send, merged into one configuration."""

from dataclasses import dataclass, replace
from typing import Any

import msgspec

from streamscribe.core.audio import MAX_CLIENT_RATE, MIN_CLIENT_RATE, SAMPLE_RATE
from streamscribe.core.errors import BadRequest, TooLarge
from streamscribe.core.hotwords import read_hotwords
from streamscribe.core.options import MAX_CHUNK_MS, MIN_CHUNK_MS, Hotword, Mode
from streamscribe.wire.fields import parse_language

MAX_TEXT_BYTES = 64 * 2**10
MAX_NAME_CHARS = 1024
DEFAULT_WAV_NAME = "wav-default-id"

CHUNK_UNIT_MS = 60

_PCM_FORMATS = ("", "pcm", "wav")
_OFFLINE_TYPO = "office"
_FLAGS = {"true": True, "1": True, "false": False, "0": False}


@dataclass(frozen=True, slots=True)
class FunasrConfig:
    """What a connection's text messages have said so far; it stays for the next utterance. None: never said."""

    mode: Mode | None = None
    misspelt: bool = False
    wav_name: str = DEFAULT_WAV_NAME
    wav_format: str | None = None
    sample_rate: int = SAMPLE_RATE
    hotwords: tuple[Hotword, ...] = ()
    itn: bool = True
    svs_itn: bool = True
    language: str | None = None
    chunk_ms: int | None = None
    store: bool = True

    @property
    def session_mode(self) -> Mode:
        """The mode asked for; without one `2pass`, but `offline` for who names a `wav_format` (C++'s file client)."""
        if self.mode is not None:
            return self.mode
        return Mode.TWO_PASS if self.wav_format is None else Mode.OFFLINE

    @property
    def container(self) -> str | None:
        """The file format that the audio bytes are said to be; None for PCM. `others` stands for any."""
        return None if (self.wav_format or "") in _PCM_FORMATS else self.wav_format


@dataclass(frozen=True, slots=True)
class Control:
    """One text message: the configuration after it, and whether it ends the input and wants that acknowledged."""

    config: FunasrConfig
    ends: bool
    wants_end_ack: bool
    warning: str | None = None


def read_control(text: str, config: FunasrConfig) -> Control:
    """Merges a text message into `config`. Raises BadRequest or TooLarge that names the field.

    Fields without a meaning here (`chunk_interval`, the look-backs) are ignored in whatever form, and so is a
    `chunk_size` that names no chunk; an unknown mode is read as the default with a warning; a field of null counts as
    absent.
    """
    fields = {name: value for name, value in _decode(text).items() if value is not None}
    changes: dict[str, Any] = {}
    warning = None
    if "mode" in fields:
        changes["mode"], warning = _mode(fields["mode"])
        changes["misspelt"] = fields["mode"] == _OFFLINE_TYPO
    if "wav_name" in fields:
        changes["wav_name"] = _name(fields["wav_name"])
    if "wav_format" in fields:
        changes["wav_format"] = _short_text(fields, "wav_format").lower()
    if "audio_fs" in fields:
        changes["sample_rate"] = _rate(fields["audio_fs"])
    if "hotwords" in fields:
        changes["hotwords"] = read_hotwords(fields["hotwords"]).accepted  # the protocol has no word for the others
    if "svs_lang" in fields:
        changes["language"] = parse_language(_short_text(fields, "svs_lang"), field="svs_lang")
    if "chunk_size" in fields:
        changes["chunk_ms"] = _chunk_ms(fields["chunk_size"])
    for name in ("itn", "svs_itn", "store"):
        if name in fields:
            changes[name] = _flag(fields, name)
    return Control(
        config=replace(config, **changes),
        ends=not _flag(fields, "is_speaking", default=True) or _flag(fields, "is_finished") or _flag(fields, "is_end"),
        wants_end_ack=_flag(fields, "is_end"),
        warning=warning,
    )


def _decode(text: str) -> dict[str, Any]:
    try:
        data = text.encode()
        if len(data) > MAX_TEXT_BYTES:
            raise TooLarge(f"a text message may have {MAX_TEXT_BYTES} bytes")
        return msgspec.json.decode(data, type=dict[str, Any])
    except msgspec.ValidationError:
        raise BadRequest("a text message must be a JSON object") from None
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        raise BadRequest("the message is not valid JSON") from None


def _mode(value: object) -> tuple[Mode, str | None]:
    """The mode, and a warning where it had to be guessed; `office` is a known client's typo."""
    if value == _OFFLINE_TYPO:
        return Mode.OFFLINE, "mode 'office' is read as 'offline'"
    try:
        return Mode(str(value).strip().lower()), None
    except ValueError:
        return Mode.TWO_PASS, "an unknown mode is read as '2pass'"


def _name(value: object) -> str:
    name = value if isinstance(value, str) else str(value)
    if len(name) > MAX_NAME_CHARS:
        raise BadRequest(f"wav_name may have {MAX_NAME_CHARS} characters", field="wav_name")
    return name


def _short_text(fields: dict[str, Any], name: str) -> str:
    value = fields[name]
    if not isinstance(value, str) or len(value) > 32:
        raise BadRequest(f"{name} must be a string of at most 32 characters", field=name)
    return value.strip()


def _rate(value: object) -> int:
    """A rate as an int, a float (C++'s microphone) or a string."""
    try:
        rate = int(float(value)) if isinstance(value, int | float | str) else 0
    except (ValueError, OverflowError):
        rate = 0
    if not MIN_CLIENT_RATE <= rate <= MAX_CLIENT_RATE:
        raise BadRequest(f"audio_fs must be {MIN_CLIENT_RATE} to {MAX_CLIENT_RATE}", field="audio_fs")
    return rate


def _chunk_ms(value: object) -> int | None:
    """The chunk of `[back, now, ahead]` in units of 60 ms, or of the same in a string; None for anything else."""
    parts = value.strip("[] ").split(",") if isinstance(value, str) else value
    try:
        chunk_ms = CHUNK_UNIT_MS * int(parts[1]) if isinstance(parts, list) else 0
    except (ValueError, TypeError, IndexError, OverflowError):
        return None
    return chunk_ms if MIN_CHUNK_MS <= chunk_ms <= MAX_CHUNK_MS else None


def _flag(fields: dict[str, Any], name: str, *, default: bool = False) -> bool:
    """A flag as true or false, 1 or 0, or either as a string."""
    value = _FLAGS.get(str(fields.get(name, default)).strip().lower())
    if value is None:
        raise BadRequest(f"{name} must be true or false", field=name)
    return value
