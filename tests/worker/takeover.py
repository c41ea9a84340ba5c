"""A session whose workers die, each followed by one that takes over at the newest checkpoint; and its client's view."""

import asyncio
import random
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace

from streamscribe.core import messages as m
from streamscribe.core.checkpoint import Checkpoint
from streamscribe.core.downlink import Downlink
from streamscribe.core.ids import SessionId, TenantId, TraceId
from streamscribe.core.options import Hotword, SessionOptions
from streamscribe.core.records import (
    AudioChunk,
    AudioEnded,
    Checkpointed,
    Emitted,
    Failed,
    Finished,
    FlushRequested,
    HotwordsUpdated,
    Record,
    SessionOpened,
)
from streamscribe.core.results import Result
from streamscribe.models.fake.recognizer import FakeRecognizer
from streamscribe.models.pool import Models
from streamscribe.models.ports import Hypothesis, SegmentRequest
from streamscribe.ports import RecordHandler
from streamscribe.settings import WorkerSettings
from streamscribe.worker.runner import Worker
from tests.unit.session_kit import IDENTITY, LIMITS
from tests.worker.kit import TEXT, Recorder

SESSION = SessionId("s")


class CountsHotwords(FakeRecognizer):
    """The fake, whose confidence tells how many hot words it was given."""

    def recognize(self, batch: Sequence[SegmentRequest]) -> list[Hypothesis]:
        heard = super().recognize(batch)
        return [replace(one, confidence=len(request.hotwords) / 100) for one, request in zip(heard, batch, strict=True)]


def session(
    audio: bytes,
    options: SessionOptions,
    rng: random.Random,
    *,
    most_bytes: int = 0,
    packet_bytes: int = 0,
    controls: int = 0,
) -> list[Record]:
    """All records of a session: packets of any size up to `most_bytes`, odd ones too, or all of `packet_bytes`, and
    between them flushes and updates of hot words."""
    sizes = [packet_bytes] * (-(-len(audio) // packet_bytes) if packet_bytes else 0)
    while sum(sizes) < len(audio):
        sizes.append(rng.randrange(1, most_bytes))
    controls_at = sorted(rng.randrange(1, len(sizes) + 1) for _ in range(controls))
    records: list[Record] = [SessionOpened(SESSION, 0, TenantId("t"), TraceId("t"), options)]
    at = 0
    for sequence, size in enumerate(sizes):
        records.append(AudioChunk(SESSION, len(records), sequence, audio[at : at + size]))
        at += size
        while controls_at and controls_at[0] == sequence + 1:
            controls_at.pop(0)
            records.append(_control(len(records), rng))
    return [*records, AudioEnded(SESSION, len(records))]


def _control(index: int, rng: random.Random) -> Record:
    if rng.random() < 0.6:
        return FlushRequested(SESSION, index, rng.choice("ab"))
    return HotwordsUpdated(SESSION, index, tuple(Hotword(f"phrase {i}") for i in range(rng.randrange(6))))


@dataclass
class View:
    """What the client was told, through the session's way down."""

    downlink: Downlink = field(default_factory=lambda: Downlink(IDENTITY, replace(LIMITS, replay_bytes=2**20)))
    messages: list[m.ServerMessage] = field(default_factory=list)
    ended: Finished | Failed | None = None

    def take(self, event: Emitted) -> None:
        if isinstance(event, Finished | Failed):
            assert self.ended is None
            self.ended = event
        elif not isinstance(event, Checkpointed):
            self.messages += self.downlink.take(event, 0)
            self.downlink.check_integrity()

    @property
    def results(self) -> list[Result]:
        return [message.result for message in self.messages if isinstance(message, m.ResultSent)]

    @property
    def finals(self) -> list[Result]:
        """In the order of segments and passes, without what belongs to the telling and not to what was said.

        An empty one takes back a partial, and which partials are told depends on the time.
        """
        finals = [replace(result, version=0, sequence=0) for result in self.results if result.is_final and result.text]
        return sorted(finals, key=lambda result: (result.segment_id, result.pass_))

    @property
    def flushes(self) -> list[str]:
        return [message.marker for message in self.messages if isinstance(message, m.FlushDone)]

    @property
    def voice(self) -> list[m.SpeechActivity]:
        voice = [message for message in self.messages if isinstance(message, m.SpeechActivity)]
        return sorted(voice, key=lambda activity: activity.channel)

    def check_laws(self) -> None:
        """3: versions grow, a final once a segment and pass, no partial after one; what is shown only grows."""
        assert isinstance(self.ended, Finished), self.ended
        versions = [result.version for result in self.results]
        assert versions == list(range(1, len(versions) + 1))
        told: set[tuple[int, int]] = set()
        shown: dict[int, Result] = {}
        for result in self.results:
            segment = result.segment_id
            if result.is_final:
                assert (segment, result.pass_) not in told
                assert (segment, 2) not in told
                told.add((segment, result.pass_))
            else:
                assert not {(segment, 1), (segment, 2)} & told
                before = shown.get(segment)
                if before is not None:
                    assert result.end_ms >= before.end_ms
                    assert result.text.startswith(before.text[: before.stable_chars])
                shown[segment] = result
        assert shown.keys() <= {segment for segment, _ in told}, "what was shown is taken back, if it was nothing"


class Life:
    """One worker's end of a bus that keeps the session's records; after so many events it is dead, and says nothing."""

    def __init__(self, view: View, checkpoint: Checkpoint | None, events: int | None) -> None:
        self.checkpoint = checkpoint
        self.dead = False
        self.settled = 0
        self.handler: RecordHandler | None = None
        self.checkpoints: list[Checkpoint] = []
        self._view = view
        self._left = events
        self._changed = asyncio.Event()

    async def change(self) -> None:
        """Returns when something has happened."""
        await self._changed.wait()
        self._changed.clear()

    def attach_worker(self, handler: RecordHandler) -> None:
        self.handler = handler
        self._changed.set()

    def settle(self, session_id: SessionId, size_bytes: int) -> None:
        self.settled += 1
        self._changed.set()

    def emit(self, event: Emitted) -> None:
        if self.dead:
            return
        if isinstance(event, Checkpointed):
            self.checkpoint = event.checkpoint
            self.checkpoints.append(event.checkpoint)
        self._view.take(event)
        if self._left is not None:
            self._left -= 1
            self.dead = not self._left
        self._changed.set()

    async def close(self) -> None:
        self.dead = True


async def live(
    records: Sequence[Record],
    models: Models,
    view: View,
    checkpoint: Checkpoint | None,
    *,
    ahead: int,
    events: int | None = None,
    last: int | None = None,
    keep: int | None = None,
) -> Life:
    """One worker's life: `ahead` records are given before the first is settled; it dies after so many `events`, when it
    has settled record `last`, or when the session is over. While so many are to `keep`, no more are given."""
    life = Life(view, checkpoint, events)
    worker = Worker(life, models, TEXT, WorkerSettings(), Recorder())
    running = asyncio.ensure_future(worker.run())
    opened = records[0]
    assert isinstance(opened, SessionOpened)
    first = 1 if checkpoint is None else checkpoint.index
    given, wanted = 0, [replace(opened, checkpoint=checkpoint), *records[first : None if last is None else last + 1]]
    while life.handler is None:
        await life.change()
    while not life.dead and view.ended is None and (last is None or life.settled < len(wanted)):
        behind = first if life.checkpoint is None else life.checkpoint.index
        most = len(wanted) if keep is None else behind + keep - first + 1
        while given < min(len(wanted), life.settled + ahead, most):
            life.handler(wanted[given])
            given += 1
        if life.settled == given:  # between two records all ledgers are in order
            worker.check_integrity()
        await life.change()
    await life.close()
    running.cancel()
    with suppress(asyncio.CancelledError):
        await running
    return life
