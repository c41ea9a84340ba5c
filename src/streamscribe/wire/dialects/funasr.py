"""FunASR's WebSocket protocol, as its clients really speak it. Rules and clients: docs/funasr-compat.md."""

from typing import Literal

import msgspec

from streamscribe.core.audio import AudioFormat, Encoding
from streamscribe.core.errors import StreamScribeError, UnsupportedFormat
from streamscribe.core.messages import (
    Audio,
    ClientMessage,
    Closed,
    End,
    ErrorSent,
    Invalid,
    ResultSent,
    ServerMessage,
    Start,
    Update,
)
from streamscribe.core.options import Mode, SessionOptions
from streamscribe.wire.dialects.funasr_config import FunasrConfig, read_control
from streamscribe.wire.dialects.funasr_results import ErrorFields, FunasrMessage, Labels, Utterance
from streamscribe.wire.wav import WavReader

PCM_ONLY = "ERROR. Real-time transcription service ONLY SUPPORT PCM stream."
"""C++'s own words, which its users know."""

_encoder = msgspec.json.Encoder()


class FunasrDialect:
    """Translates one connection (wire.dialect.Dialect); an utterance is a session, and the next one may follow.

    What the connection must do for it:

    - `container`: when it is not None after a decode that gave Start, the bytes of Audio are a file of that format
      (`others`: any), not PCM. Spool them, decode the file at End, and feed 16 kHz mono PCM.
    - `finalizing`: True from End to Closed. Decode nothing meanwhile: what comes belongs to the next utterance.
    - Every Invalid is fatal: FunASR has no way to tell a client of an error and go on.
    """

    reusable = True

    def __init__(self, online_label: Literal["2pass-online", "online"] = "2pass-online"):
        self._online_label = online_label
        self._config = FunasrConfig()
        self._answered = False
        self._begin_anew()

    def _begin_anew(self) -> None:
        """Forgets the utterance; the configuration stays."""
        self.container: str | None = None
        self.finalizing = False
        self._utterance: Utterance | None = None
        self._held: FunasrMessage | None = None
        self._wav = WavReader()
        self._wants_end_ack = False
        self._warning: str | None = None
        self._failed = False

    def decode_text(self, text: str) -> list[ClientMessage]:
        """Reads configuration, the end of input, or both."""
        if self._failed:
            return []
        try:
            control = read_control(text, self._config)
        except StreamScribeError as error:
            return self._refuse(error)
        self._wants_end_ack = self._wants_end_ack or control.wants_end_ack
        if self.finalizing:
            return []
        messages: list[ClientMessage] = []
        if self._utterance is not None:
            self._utterance.wav_name = control.config.wav_name
            if control.config.hotwords != self._config.hotwords:
                messages.append(Update(control.config.hotwords))
        self._config = control.config
        self._warning = control.warning or self._warning
        if not control.ends:
            self._answered = False
            return messages
        return messages + self._end()

    def decode_binary(self, data: bytes) -> list[ClientMessage]:
        """Audio, behind Start where it is the first; nothing while a WAV header may still be incomplete."""
        if self._failed or self.finalizing or not data:
            return []
        self._answered = False
        if self._utterance is not None:
            return self._audio(data)
        head = self._wav.sniff(data)
        return [] if head is None else self._start(head)

    def encode(self, message: ServerMessage) -> list[str]:
        """Frames for results, errors and the end; the protocol has no word for the rest."""
        match message:
            case ResultSent() if self._utterance is not None:
                return self._say(self._utterance.result(message.result))
            case Closed():
                return self._close()
            case ErrorSent():
                return self._fail(message.error)
            case _:
                return []

    def _start(self, head: bytes) -> list[ClientMessage]:
        """The session's options, now that the first bytes say what the audio is."""
        mode = self._config.session_mode
        audio = AudioFormat(Encoding.PCM_S16, self._config.sample_rate)
        container = self._config.container
        if self._wav.header is not None:
            container = None if self._wav.header.format else "wav"
            audio = self._wav.header.format or audio
        if container and mode is not Mode.OFFLINE:
            return self._refuse(UnsupportedFormat(PCM_ONLY, field="wav_format"))
        self.container = container
        self._utterance = self._new_utterance()
        options = SessionOptions(
            audio=AudioFormat() if container else audio,
            mode=mode,
            language=self._config.language,
            hotwords=self._config.hotwords,
            words=mode is not Mode.ONLINE,
            itn=self._config.itn and self._config.svs_itn and mode is not Mode.ONLINE,  # whose increments stay as told
            chunk_ms=self._config.chunk_ms,
            live=mode is not Mode.OFFLINE,
            store=self._config.store,
        )
        return [Start(options), *self._audio(head)]

    def _audio(self, data: bytes) -> list[ClientMessage]:
        samples = data if self.container else self._wav.samples(data)
        return [Audio(samples)] if samples else []

    def _end(self) -> list[ClientMessage]:
        """Ends the input, of an utterance that never had audio too; a second end of the same input says nothing."""
        if self._answered and not self._wants_end_ack:
            return []
        messages = [] if self._utterance is not None else self._start(self._wav.give_up())
        if self._failed:
            return messages
        self.finalizing = True
        return [*messages, End()]

    def _refuse(self, error: StreamScribeError) -> list[ClientMessage]:
        self._failed = True
        return [Invalid(error)]

    def _new_utterance(self) -> Utterance:
        mode = self._config.session_mode
        increment = self._online_label if mode is Mode.ONLINE else "2pass-online"
        sentence = "offline" if mode is Mode.OFFLINE and not self._config.misspelt else "2pass-offline"
        return Utterance(mode, Labels(increment, sentence), self._config.wav_name)

    def _say(self, messages: list[FunasrMessage]) -> list[str]:
        """After the end of input one message is held back: it may turn out to be the last."""
        if not self.finalizing or not messages:
            return self._encode(messages)
        held = [] if self._held is None else [self._held]
        *ready, self._held = held + messages
        return self._encode(ready)

    def _close(self) -> list[str]:
        """The last message of the utterance; the next one may follow."""
        texts = [] if self._utterance is None or self._failed else self._conclude(self._utterance, None)
        answered = bool(texts) or self._answered
        self._begin_anew()
        self._answered = answered
        return texts

    def _fail(self, error: StreamScribeError) -> list[str]:
        """The last message, with the error; what had been recognised is not lost by it."""
        texts = self._conclude(self._utterance or self._new_utterance(), error)
        self._failed = True
        return texts

    def _conclude(self, utterance: Utterance, error: StreamScribeError | None) -> list[str]:
        """All that is owed, its last message final; behind it the acknowledgement where one was asked for."""
        owed = ([] if self._held is None else [self._held]) + utterance.close()
        self._held = None
        last = owed[-1] if owed else utterance.blank()
        last.is_final = True
        ack = utterance.blank()
        ack.is_end = True
        ack.is_final = error is None
        if error is not None:
            last.error = ErrorFields(error.code, error.message)
            ack.error = error.message
        return self._encode([*owed[:-1], last, *([ack] if self._wants_end_ack else [])])

    def _encode(self, messages: list[FunasrMessage]) -> list[str]:
        if messages and self._warning is not None:
            messages[0].warning, self._warning = self._warning, None
        return [_encoder.encode(message).decode() for message in messages]
