"""The native protocol of `/ws/asr`: JSON text frames for control and results, binary frames for audio."""

import msgspec
from msgspec import UNSET

from streamscribe.core.errors import BadRequest, StreamScribeError, TooLarge
from streamscribe.core.hotwords import read_hotwords
from streamscribe.core.messages import (
    Audio,
    ClientMessage,
    End,
    Flush,
    Invalid,
    Ping,
    Resume,
    ServerMessage,
    Start,
    Update,
)
from streamscribe.core.options import SessionOptions
from streamscribe.wire.fields import explain
from streamscribe.wire.frames import unpack_frame
from streamscribe.wire.native_client import (
    MAX_TEXT_BYTES,
    ClientWire,
    EndMessage,
    FlushMessage,
    PingMessage,
    ResumeMessage,
    StartMessage,
    UpdateMessage,
)
from streamscribe.wire.native_options import native_options_from_query, options_from_start
from streamscribe.wire.native_server import encode_server_message

__all__ = ["NativeDialect", "native_options_from_query"]

_decoder = msgspec.json.Decoder(ClientWire)


class _Kind(msgspec.Struct):
    type: str


_kind_decoder = msgspec.json.Decoder(_Kind)


class NativeDialect:
    """Translates one `/ws/asr` connection (wire.dialect.Dialect).

    A bad `start`, a bad `resume` and a broken audio header are fatal: the audio that follows would be read wrongly.
    Any other bad control message is told and changes nothing. The framing is fixed by the first audio or `resume`; a
    later `start` goes to the session, which refuses it.
    """

    reusable = False

    def __init__(self, default_options: SessionOptions):
        self._options = default_options
        self._sequenced = default_options.sequenced
        self._framing_fixed = False

    def decode_text(self, text: str) -> list[ClientMessage]:
        """One control message, or one Invalid."""
        try:
            data = text.encode()
            if len(data) > MAX_TEXT_BYTES:
                return [Invalid(TooLarge(f"a text message may have {MAX_TEXT_BYTES} bytes"), fatal=False)]
            message = _decoder.decode(data)
        except msgspec.ValidationError as error:
            return [Invalid(explain(error), fatal=_is_fatal(data))]
        except (msgspec.DecodeError, UnicodeError, RecursionError):
            return [Invalid(BadRequest("the message is not valid JSON"), fatal=False)]
        try:
            return [self._translate(message)]
        except StreamScribeError as error:
            return [Invalid(error, fatal=isinstance(message, StartMessage))]

    def decode_binary(self, data: bytes) -> list[ClientMessage]:
        """One Audio: the bytes as they are, or behind a sequenced header; or one Invalid."""
        self._framing_fixed = True
        if not self._sequenced:
            return [Audio(data)]
        try:
            return [unpack_frame(data)]
        except BadRequest as error:
            return [Invalid(error)]

    def encode(self, message: ServerMessage) -> list[str]:
        """One text frame; the protocol has a word for every message."""
        return [encode_server_message(message)]

    def _translate(self, message: ClientWire) -> ClientMessage:
        match message:
            case StartMessage():
                options = options_from_start(self._options, message)
                if not self._framing_fixed:
                    self._sequenced = options.sequenced
                return Start(options)
            case FlushMessage():
                return Flush(message.marker)
            case UpdateMessage():
                hotwords = read_hotwords(message.hotwords)
                return Update(hotwords.accepted, hotwords.ignored)
            case PingMessage():
                return Ping()
            case EndMessage():
                return End()
            case ResumeMessage():
                if message.framing is not UNSET:
                    self._sequenced = message.framing == "sequenced"
                self._framing_fixed = True
                return Resume(
                    message.session_id, message.resume_token, message.last_version, message.last_acked_sequence
                )


def _is_fatal(data: bytes) -> bool:
    """Whether a message of a wrong shape says how the following audio is to be read."""
    try:
        return _kind_decoder.decode(data).type in ("start", "resume")
    except (msgspec.DecodeError, RecursionError):
        return False
