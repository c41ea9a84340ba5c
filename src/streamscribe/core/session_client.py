"""The client's side of a session: what may be said when, and what is answered at once."""

from dataclasses import replace
from typing import assert_never

from streamscribe.core import messages as m
from streamscribe.core.errors import AudioTooLong, BadRequest, SequenceGap
from streamscribe.core.options import SessionOptions
from streamscribe.core.session_io import Effect, SessionMessage
from streamscribe.core.session_life import SessionLife
from streamscribe.core.session_table import Stage
from streamscribe.core.uplink import Uplink


class SessionClient:
    """Hears the client: audio and wishes go up, what comes too late or too early is refused and ends nothing."""

    def __init__(self, life: SessionLife, uplink: Uplink) -> None:
        self._life = life
        self._uplink = uplink
        self._told_late_audio = False

    def hear(self, message: SessionMessage, now: float) -> list[Effect]:
        """What a message of a connected client brings."""
        match message:
            case m.Audio():
                return self._audio(message, now)
            case m.Start(options=options):
                return self._start(options)
            case m.Flush(marker=marker):
                return self._flush(marker)
            case m.Update():
                return self._update(message)
            case m.Ping():
                return self._life.tell(m.Pong())
            case m.End():
                return self._life.end(now)
            case m.Invalid(error=error, fatal=fatal):
                return self._life.break_down(error, now) if fatal else self._life.tell(m.ErrorSent(error))
        assert_never(message)

    def tell_hotwords(self) -> list[Effect]:
        """Which hot words of the options hold, where there were any."""
        options = self._uplink.options
        return self._answer_hotwords(options) if options.hotwords or options.ignored_hotwords else []

    def _start(self, options: SessionOptions) -> list[Effect]:
        if self._life.stage is not Stage.CREATED:
            return self._refuse("start must come before the first audio")
        before = self._uplink.options
        self._uplink.choose(options)
        named = (options.hotwords, options.ignored_hotwords) != (before.hotwords, before.ignored_hotwords)
        return self.tell_hotwords() if named else []

    def _audio(self, message: m.Audio, now: float) -> list[Effect]:
        if self._life.ended:
            return self._late_audio(message)
        taken = self._uplink.audio(message, now)
        if isinstance(taken, list):
            self._life.begin()
            return taken
        match taken:
            case AudioTooLong():
                return self._life.end(now, taken)
            case SequenceGap():
                return self._life.break_off(taken, now)
            case _:
                return self._life.break_down(taken, now)

    def _late_audio(self, message: m.Audio) -> list[Effect]:
        again = self._uplink.repeat(message)
        if again is not None:  # sent anew after a resume
            return again
        if self._told_late_audio or self._life.cut_short:  # the error says more
            return []
        self._told_late_audio = True
        return self._refuse("audio after the end is ignored")

    def _flush(self, marker: str) -> list[Effect]:
        if self._life.stage is Stage.CREATED:  # no audio, so all its finals are out
            return self._life.tell(m.FlushDone(marker))
        if self._life.ended:
            return self._refuse("flush after the end is ignored")
        return [self._uplink.flush(marker)]

    def _update(self, message: m.Update) -> list[Effect]:
        wished = replace(self._uplink.options, hotwords=message.hotwords, ignored_hotwords=message.ignored)
        if self._life.stage is Stage.CREATED:
            self._uplink.choose(wished)
            return self._answer_hotwords(wished)
        if self._life.ended:
            return self._refuse("update after the end is ignored")
        return [self._uplink.update(message.hotwords), *self._answer_hotwords(wished)]

    def _answer_hotwords(self, wished: SessionOptions) -> list[Effect]:
        accepted = tuple(hotword.phrase for hotword in wished.hotwords)
        return self._life.tell(m.HotwordsTold(accepted, wished.ignored_hotwords))

    def _refuse(self, message: str) -> list[Effect]:
        return self._life.tell(m.ErrorSent(BadRequest(message)))
