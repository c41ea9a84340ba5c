"""A session's way up: from what the client sends to numbered records, at the pace that is allowed, in order, once.

Knows no stage and no timer of the session: what it refuses, it returns as an error, and the session decides.
"""

from collections.abc import Sequence
from dataclasses import replace
from math import inf

from streamscribe.core.admission import AudioRate, ChunkRate
from streamscribe.core.errors import AudioTooLong, BadRequest, RateExceeded, SequenceGap, StreamScribeError
from streamscribe.core.hotwords import merge_hotwords
from streamscribe.core.intake import DUPLICATE, Intake
from streamscribe.core.integrity import ensure
from streamscribe.core.messages import Ack, Audio, SlowDown
from streamscribe.core.options import Hotword, SessionOptions
from streamscribe.core.record_log import RecordLog
from streamscribe.core.records import (
    AudioChunk,
    AudioEnded,
    FlushRequested,
    HotwordsUpdated,
    SessionAbandoned,
    SessionOpened,
)
from streamscribe.core.session_io import Effect, Pace, Publish, Send, SessionIdentity, SessionLimits, TenantTexts
from streamscribe.core.session_mark import UplinkMark
from streamscribe.core.session_past import UplinkPast

CONTROL_CHUNKS = 20
"""What a control message costs of the chunk rate: it may carry many hot words, and each flush a final."""

SLOW_DOWN_INTERVAL_S = 1.0
"""Shortest time between two `slow_down`; each chunk beyond the rate pauses the reading all the same."""


class Uplink:
    """Turns audio and wishes into effects; the records it numbers must be published in the order it gave them."""

    def __init__(
        self,
        identity: SessionIdentity,
        limits: SessionLimits,
        options: SessionOptions,
        texts: TenantTexts,
        past: UplinkPast | None = None,
    ) -> None:
        """Goes on behind what its `past` tells of another gateway's records, which had these options."""
        self._identity = identity
        self._texts = texts
        self._limits = limits
        self._intake: Intake[Audio] = Intake(
            window=limits.reorder_window,
            window_bytes=limits.max_message_bytes,
            gap_timeout_s=limits.gap_timeout_s,
            firsts=(0, 1),
            next_sequence=None if past is None else past.next_sequence,
        )
        self._records = RecordLog()
        self._audio_rate = AudioRate(limits.max_rate, limits.burst_s, limits.max_burst_s)
        self._chunk_rate = ChunkRate(limits.max_chunks_per_s)
        self._received_bytes = 0
        self._slow_down_at = -inf
        self._paused_until = -inf
        self.choose(options)
        if past is not None:
            self._received_bytes = past.received_bytes
            acked = None if past.next_sequence is None else past.next_sequence - 1
            self._records = RecordLog(past.next_index, acked)

    def choose(self, options: SessionOptions) -> None:
        """Sets the options; before the first record only, which carries them."""
        ensure(self._records.published == 0, "options are settled with the first record")
        self.options = options
        self._bytes_per_s = options.audio.bytes_per_second
        self._max_bytes = int(self._limits.max_session_s * self._bytes_per_s)

    @property
    def begun(self) -> bool:
        """Whether anything was published."""
        return self._records.published > 0

    @property
    def settled(self) -> bool:
        """Whether all that was published is durable; else the client may be waiting for us."""
        return self._records.settled

    @property
    def paused_until(self) -> float:
        """The time before which nothing is read."""
        return self._paused_until

    @property
    def next_sequence(self) -> int:
        """Where a client that resumes goes on: the first chunk that was not accepted."""
        return self._intake.next_sequence

    @property
    def holding(self) -> bool:
        """Whether chunks wait for a missing one."""
        return self._intake.holding

    @property
    def received_ms(self) -> int:
        """Audio received so far."""
        return self._received_bytes * 1000 // self._bytes_per_s

    def mark(self, *, ended: bool) -> UplinkMark | None:
        """Where it stands; None while something is not durable, or held, or where nothing was published yet."""
        if not self.begun or not self.settled or self.holding:
            return None
        acked = self._records.durable_sequence
        next_sequence = None if acked is None else acked + 1
        return UplinkMark(self._records.published, next_sequence, self._received_bytes, ended)

    def _sequence_of(self, message: Audio) -> int | None:
        return message.sequence if self.options.sequenced else self._intake.next_sequence

    def audio(self, message: Audio, now: float) -> list[Effect] | StreamScribeError:
        """Accepts, holds or drops a chunk and says how long to pause; or why it cannot be taken."""
        sequence = self._sequence_of(message)
        if sequence is None:
            return BadRequest("every chunk of a sequenced session needs a sequence", field="sequence")
        size_bytes = len(message.data)
        pause = self._pause(size_bytes, now) if self.options.live else []
        if pause is None:
            return RateExceeded()
        if self._received_bytes + size_bytes > self._max_bytes and not self._intake.has(sequence):
            return self.too_long()
        taken = self._intake.offer(sequence, message, size_bytes, now)
        if taken is DUPLICATE:
            return self._ack_again(sequence) + pause
        if isinstance(taken, BadRequest):
            return taken
        self._received_bytes += size_bytes
        return self._publish(taken) + pause

    def control(self, now: float) -> list[Effect]:
        """How long to pause after a message that is no audio: it is paced as `CONTROL_CHUNKS` chunks are."""
        until = self._chunk_rate.admit(CONTROL_CHUNKS, now)
        if until is None or until <= now:
            return []
        self._paused_until = max(self._paused_until, until)
        return [Pace(until)]

    def _pause(self, size_bytes: int, now: float) -> list[Effect] | None:
        by_audio = self._audio_rate.admit(size_bytes / self._bytes_per_s, now)
        by_chunks = self._chunk_rate.admit(1, now)
        if by_audio is None or by_chunks is None:
            return None
        until = max(by_audio, by_chunks)
        if until <= now:
            return []
        self._paused_until = until
        if now - self._slow_down_at < SLOW_DOWN_INTERVAL_S:
            return [Pace(until)]
        self._slow_down_at = now
        return [Send(SlowDown(resume_after_ms=int((until - now) * 1000) + 1)), Pace(until)]

    def _publish(self, chunks: Sequence[Audio]) -> list[Effect]:
        effects: list[Effect] = []
        if chunks and not self.begun:
            effects.append(Publish(self._opened()))
        for sequence, chunk in enumerate(chunks, self._intake.next_sequence - len(chunks)):
            index = self._records.number(sequence)
            effects.append(Publish(AudioChunk(self._identity.session_id, index, sequence, chunk.data)))
        return effects

    def _opened(self) -> SessionOpened:
        identity = self._identity
        return SessionOpened(
            session_id=identity.session_id,
            index=self._records.number(),
            tenant_id=identity.tenant_id,
            trace_id=identity.trace_id,
            options=replace(
                self.options,
                hotwords=merge_hotwords(self.options.hotwords, self._texts.hotwords),
                ignored_hotwords=(),
                store=self.options.store and not self._texts.zero_retention,
            ),
            policy=self._texts.policy,
            weight=identity.weight,
        )

    def flush(self, marker: str) -> Publish:
        """Asks the worker for a final now."""
        return Publish(FlushRequested(self._identity.session_id, self._records.number(), marker))

    def update(self, hotwords: tuple[Hotword, ...]) -> Publish:
        """Gives the worker other hot words; the tenant's stay."""
        merged = merge_hotwords(hotwords, self._texts.hotwords)
        return Publish(HotwordsUpdated(self._identity.session_id, self._records.number(), merged))

    def end(self) -> Publish:
        """Tells the worker that no more audio comes."""
        self.forget_held()
        return Publish(AudioEnded(self._identity.session_id, self._records.number()))

    def abandon(self) -> Publish:
        """Tells the worker that nobody waits any more."""
        return Publish(SessionAbandoned(self._identity.session_id, self._records.number()))

    def confirm(self, index: int) -> list[Effect]:
        """Every record up to `index` is durable: acknowledges the audio in it."""
        return self.ack() if self._records.confirm(index) else []

    def ack(self) -> list[Effect]:
        """Acknowledges what is durable, in a sequenced session."""
        durable = self._records.durable_sequence
        return [Send(Ack(durable))] if self.options.sequenced and durable is not None else []

    def repeat(self, message: Audio) -> list[Effect] | None:
        """What a chunk that was taken before brings: its ack, if it is durable. None for a new one."""
        sequence = self._sequence_of(message)
        return self._ack_again(sequence) if sequence is not None and self._intake.has(sequence) else None

    def _ack_again(self, sequence: int) -> list[Effect]:
        durable = self._records.durable_sequence
        return self.ack() if durable is not None and sequence <= durable else []

    def has_acked(self, sequence: int | None) -> bool:
        """Whether a client that claims to have this ack can have it from us."""
        durable = self._records.durable_sequence
        return sequence is None or not self.options.sequenced or (durable is not None and sequence <= durable)

    def forget_held(self) -> None:
        """Drops what waits for a missing chunk: the connection that would bring it is gone, or audio has ended."""
        self._received_bytes -= self._intake.forget_held()

    def gap(self) -> SequenceGap:
        """The error that names the missing chunk."""
        return self._intake.gap()

    def too_long(self) -> AudioTooLong:
        """The error of a session beyond its length."""
        return AudioTooLong(f"a session may last {self._limits.max_session_s:g} s", field="audio")

    def next_timer(self) -> float | None:
        """When a missing chunk counts as lost."""
        return self._intake.next_timer()

    def check_integrity(self) -> None:
        """The equations of its parts; as many chunks were numbered as were accepted."""
        self._intake.check_integrity()
        self._records.check_integrity()
        self._audio_rate.check_integrity()
        self._chunk_rate.check_integrity()
        ensure(self._records.audio == self._intake.released, "published chunks == accepted chunks")
        ensure(self._received_bytes <= self._max_bytes, "received bytes <= longest session")
