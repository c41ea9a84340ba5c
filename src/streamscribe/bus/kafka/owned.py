"""A session at the worker's end: what has come of it, what was told of it, and what the store knows."""

from collections import deque
from dataclasses import dataclass, field

from streamscribe.bus.kafka.envelope import NO_TRACE, Settled
from streamscribe.core.checkpoint import Checkpoint
from streamscribe.core.errors import StreamScribeError
from streamscribe.core.ids import LeaseEpoch, SessionId, TraceId
from streamscribe.core.integrity import ensure
from streamscribe.core.lease import Lease
from streamscribe.core.records import Record, SessionAbandoned, SessionOpened

_MAX_CHECKPOINTS = 16
"""That wait until what was told before them is in the log: about as many seconds."""


@dataclass(slots=True, eq=False)
class Owned:
    """Begins when its first record comes, is `live` once the store gave its lease, and `over` when it is let go.

    `generation` is that of the gateway whose record came last; who is told (`reply_to`, `told_generation`) may be known
    earlier. The gateways that the session has `left` have not heard so yet.

    `waiting` has what comes until it is live; `trying` what has not been handed over yet of one that is tried
    (`trial`). Both are bounded by what its partition may hold; one of which nothing is held is `given`. A session that
    is `ended` is over for everybody, not only here. Its records before `read_to` are those that former owners could
    have read, once that is known; `last_steps` are those that were under way for them when all were processed, and are
    yet. `on_trial`: the store has a place of it. `abandoned` is what a gateway said that may have the session no more.
    `saved` is the newest checkpoint that the store is known to have. `error` is what the session fails with once it has
    a lease to say so.
    """

    session_id: SessionId
    partition: int
    reply_to: int
    trace: TraceId = NO_TRACE
    generation: int = 0
    told_generation: int = 0
    left: tuple[int, ...] = ()
    waiting: deque[Record] = field(default_factory=deque)
    lease: Lease | None = None
    epoch: LeaseEpoch | None = None
    opened: SessionOpened | None = None
    opened_saved: bool = False
    saving: bool = False
    saved: Checkpoint | None = None
    trying: deque[Record] | None = None
    abandoned: SessionAbandoned | None = None
    error: StreamScribeError | None = None
    live: bool = False
    given: bool = False
    over: bool = False
    ended: bool = False
    read_to: int | None = None
    last_steps: frozenset[object] | None = None
    on_trial: bool = False
    heard_at: float = 0.0
    next_index: int = 0
    come_bytes: int = 0
    unsettled_bytes: int = 0
    unsettled_records: int = 0
    told: int = 0
    delivered: int = 0
    last_told: int | None = None
    _delivered_early: set[int] = field(default_factory=set)
    checkpoints: deque[tuple[int, Checkpoint]] = field(default_factory=lambda: deque(maxlen=_MAX_CHECKPOINTS))

    @property
    def trace_id(self) -> TraceId:
        """Of the session, as far as it is known: its records say it too."""
        return self.opened.trace_id if self.opened is not None else self.trace

    @property
    def got_on(self) -> bool:
        """Whether all is processed that could have ended its former owners."""
        return self.live and self.read_to is not None and self.next_index - self.unsettled_records >= self.read_to

    def hears(self, reply_to: int, generation: int) -> None:
        """The gateway of `generation` reads that partition of results: it is told, if it is the newest."""
        if generation >= self.told_generation:
            self.reply_to, self.told_generation = reply_to, generation

    def hold(self, lease: Lease) -> None:
        """Has the lease now. For the gateway an epoch never goes back, even if the store has lost its memory."""
        self.lease = lease
        self.epoch = lease.epoch if self.epoch is None else max(self.epoch, lease.epoch)

    def deliver(self, number: int) -> None:
        """What was told as that number is in the log; `delivered` counts those before which nothing is missing there.

        A session that moves is told in two partitions, which the log takes in no order.
        """
        self._delivered_early.add(number)
        while self.delivered + 1 in self._delivered_early:
            self.delivered += 1
            self._delivered_early.remove(self.delivered)

    def settled(self) -> Settled | None:
        """How far it is processed; None before the store gave an epoch."""
        if self.epoch is None:
            return None
        audio_bytes = max(0, self.come_bytes - self.unsettled_bytes)
        return Settled(self.session_id, self.epoch, audio_bytes, max(0, self.next_index - self.unsettled_records))

    def durable_checkpoint(self) -> Checkpoint | None:
        """Takes the newest checkpoint before which all that was told is in the log; older ones are dropped."""
        newest = None
        while self.checkpoints and self.checkpoints[0][0] <= self.delivered:
            _, newest = self.checkpoints.popleft()
        return newest

    def check_integrity(self) -> None:
        """Nothing is in the log that was not told, and nothing settled that did not come."""
        ensure(self.delivered + len(self._delivered_early) <= self.told, "delivered <= told")
        ensure(self.unsettled_bytes >= 0 and self.unsettled_records >= 0, "settled <= come")
        ensure(not self.live or self.lease is not None, "who is live has a lease")
        ensure(not (self.live and self.waiting), "nothing waits once it is live")
