"""A service without models: a dialect, the real session and transcript, and a worker that says what a script says."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from streamscribe.core.audio import SAMPLE_RATE
from streamscribe.core.errors import StreamScribeError
from streamscribe.core.ids import SessionId, TenantId, TraceId
from streamscribe.core.messages import ClientMessage, Invalid, Resume, Start
from streamscribe.core.options import Mode, SessionOptions
from streamscribe.core.records import (
    AudioChunk,
    AudioEnded,
    Finished,
    Flushed,
    FlushRequested,
    Recognised,
    Record,
    SessionOpened,
    WorkerEvent,
)
from streamscribe.core.results import Result, Word
from streamscribe.core.script import unit_ends
from streamscribe.core.session import Session
from streamscribe.core.session_io import (
    Disconnect,
    Durable,
    Effect,
    Publish,
    Release,
    Send,
    SessionEvent,
    SessionIdentity,
    SessionLimits,
)
from streamscribe.core.transcript import Transcript
from streamscribe.wire.dialect import Dialect

LIMITS = SessionLimits(
    max_session_s=3600,
    first_audio_timeout_s=30,
    idle_timeout_s=30,
    finalize_timeout_s=60,
    resume_window_s=30,
    max_rate=2,
    burst_s=10,
    max_burst_s=300,
    max_chunks_per_s=100_000,
    reorder_window=32,
    gap_timeout_s=2,
    replay_bytes=2**20,
    max_message_bytes=2**22,
)


@dataclass(frozen=True)
class Sentence:
    """What is said from `start_ms` to `end_ms`, and what decodes of it give on the way: (at_ms, text)."""

    text: str
    start_ms: int
    end_ms: int
    drafts: tuple[tuple[int, str], ...] = ()

    @property
    def words(self) -> tuple[Word, ...]:
        """Its words, evenly spread over its time."""
        ends = unit_ends(self.text)
        span = self.end_ms - self.start_ms
        edges = [self.start_ms + span * index // max(1, len(ends)) for index in range(len(ends) + 1)]
        starts = [0, *ends]
        return tuple(
            Word(self.text[begin:end].strip(" ，。？！,.?!"), edges[index], edges[index + 1], 0.9)
            for index, (begin, end) in enumerate(zip(starts, ends, strict=False))
        )


@dataclass
class ScriptedWorker:
    """Says each sentence when enough audio has come, as the mode asks."""

    sentences: Sequence[Sentence]
    final_pass: int
    options: SessionOptions = field(default_factory=SessionOptions)
    received_bytes: int = 0

    def __post_init__(self) -> None:
        self._transcript = Transcript(self.final_pass)
        self._steps = list(self._plan())
        self._opened = 0

    def handle(self, record: Record) -> Iterator[WorkerEvent]:
        """The events that a record causes."""
        match record:
            case SessionOpened():
                self.options = record.options
            case AudioChunk():
                self.received_bytes += len(record.data)
                yield from self._recognised(record.session_id, self._received_ms)
            case FlushRequested():
                yield Flushed(record.session_id, record.marker, record.index)
            case AudioEnded():
                yield from self._recognised(record.session_id, None)
                yield Finished(record.session_id, self._received_ms)

    @property
    def _received_ms(self) -> int:
        return self.received_bytes * 1000 // self.options.audio.bytes_per_second

    def _plan(self) -> Iterator[tuple[int, int, Sentence, str | None]]:
        for number, sentence in enumerate(self.sentences):
            for at_ms, draft in sentence.drafts:
                yield at_ms, number, sentence, draft
            yield sentence.end_ms, number, sentence, None

    def _recognised(self, session_id: SessionId, until_ms: int | None) -> Iterator[WorkerEvent]:
        while self._steps and (until_ms is None or self._steps[0][0] < until_ms):
            at_ms, number, sentence, draft = self._steps.pop(0)
            result = self._say(at_ms, number, sentence, draft)
            if result is not None:
                yield Recognised(session_id, result)

    def _say(self, at_ms: int, number: int, sentence: Sentence, draft: str | None) -> Result | None:
        while self._opened <= number:
            self._transcript.open_segment(0, self.sentences[self._opened].start_ms)
            self._opened += 1
        if draft is not None:
            if self.options.mode is Mode.OFFLINE:
                return None
            return self._transcript.partial(number, draft, at_ms, sequence=0)
        words = sentence.words if self.options.words else ()
        return self._transcript.final(number, self.final_pass, sentence.text, sentence.end_ms, words, sequence=0)


class ScriptedService:
    """One connection: frames in, frames out; a session for each utterance, with the script's next sentences."""

    def __init__(self, dialect: Dialect, *utterances: Iterable[Sentence], final_pass: int = 2):
        self.dialect = dialect
        self.closed_with: StreamScribeError | None = None
        self.starts: list[SessionOptions] = []
        self.heard: list[ClientMessage] = []
        self._utterances = [tuple(sentences) for sentences in utterances]
        self._final_pass = final_pass
        self._session: Session | None = None
        self._worker: ScriptedWorker | None = None
        self._count = 0

    def receive(self, frame: str | bytes) -> list[str]:
        """What the server answers to a frame at once."""
        decode = self.dialect.decode_text(frame) if isinstance(frame, str) else self.dialect.decode_binary(frame)
        answers: list[str] = []
        for message in decode:
            self.heard.append(message)
            if isinstance(message, Start):
                self.starts.append(message.options)
            assert not isinstance(message, Resume)
            answers += self._handle(message)
        return answers

    def refuse(self, error: StreamScribeError) -> list[str]:
        """Ends the session with an error of the service's own."""
        return self._handle(Invalid(error))

    def _handle(self, event: SessionEvent) -> list[str]:
        if self._session is None:
            return self._open() + self._handle(event)
        return self._perform(self._session.handle(event, self._now()))

    def _open(self) -> list[str]:
        self._count += 1
        identity = SessionIdentity(SessionId(f"s-{self._count}"), TenantId("t"), TraceId("t"), "token", "process")
        self._session = Session(identity, LIMITS, SessionOptions(), now=0.0)
        self._worker = ScriptedWorker(self._utterances.pop(0) if self._utterances else (), self._final_pass)
        return self._perform(self._session.open(0.0))

    def _perform(self, effects: list[Effect]) -> list[str]:
        answers: list[str] = []
        for effect in effects:
            match effect:
                case Send():
                    answers += self.dialect.encode(effect.message)
                case Publish():
                    answers += self._publish(effect.record)
                case Disconnect():
                    self.closed_with = effect.error
                case Release():
                    self._session = None
        return answers

    def _publish(self, record: Record) -> list[str]:
        assert self._session is not None
        assert self._worker is not None
        answers = self._perform(self._session.handle(Durable(record.index), self._now()))
        for event in self._worker.handle(record):
            answers += self._perform(self._session.handle(event, self._now()))
        return answers

    def _now(self) -> float:
        """As if all audio came at its own pace."""
        if self._worker is None:
            return 0.0
        return self._worker.received_bytes / self._worker.options.audio.bytes_per_second


def silence(seconds: float, rate: int = SAMPLE_RATE) -> bytes:
    """So much PCM s16le mono."""
    return bytes(2 * int(seconds * rate))
