"""What a worker tells gateways: events as they come, and how far sessions are processed, many in one record."""

import asyncio
from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import partial

from streamscribe.bus.kafka.config import NoSuchPartition
from streamscribe.bus.kafka.envelope import (
    SETTLED_HEADERS,
    Settled,
    encode_settled,
    event_headers,
    moved_headers,
    record_headers,
)
from streamscribe.bus.kafka.mark import mark_headers
from streamscribe.bus.kafka.owned import Owned
from streamscribe.bus.kafka.sender import Sender
from streamscribe.core.errors import StreamScribeError, TooLarge
from streamscribe.core.ids import LeaseEpoch, SessionId, TraceId
from streamscribe.core.records import Emitted, Failed, Finished, Progress, Recognised, SessionAbandoned
from streamscribe.wire.bus_records import encode_event, encode_record

SETTLE_INTERVAL_S = 0.02
"""News of what was processed waits so long for more of it."""

MAX_SETTLED = 500
"""Sessions of one record, of some 50 bytes each: the smallest that the log may be set to take has room for them."""


class Teller:
    """Tells the partition of results that a session's newest record named, under the session's epoch.

    `delivered` is called with each session of which an event is in the log; `failed` when one will not be, or
    `unsaid` with its session where that is this session's trouble: its gateway reads a partition that there is not, or
    the event is larger than the log takes. While the brokers do not keep up,
    partials and progress are dropped and counted.
    """

    def __init__(
        self,
        sender: Sender,
        topic: str,
        delivered: Callable[[Owned], None],
        failed: Callable[[StreamScribeError], None],
        unsaid: Callable[[Owned, StreamScribeError], None],
    ) -> None:
        self._sender = sender
        self._topic = topic
        self._delivered = delivered
        self._failed = failed
        self._unsaid = unsaid
        self._news: set[Owned] = set()
        self.dropped = 0

    def tell(self, session: Owned, event: Emitted) -> None:
        """Tells an event. Raises BusUnavailable where not even a final can be kept until the log takes it, and TooLarge
        for one that it never takes: then nothing was told."""
        assert session.epoch is not None  # noqa: S101 - only who has a lease tells
        if not self._sender.room and _may_be_dropped(event):
            self.dropped += 1
            return
        number = session.told + 1
        headers = event_headers(session.epoch, session.trace_id)
        done = partial(self._done, session, number)
        key, reply_to = session.session_id, session.reply_to
        self._sender.send(self._topic, encode_event(event), headers, done, key=key, partition=reply_to)
        session.told = number
        if isinstance(event, (Finished, Failed)):
            session.last_told = number
            session.live = False

    def tell_moved(self, session: Owned) -> None:
        """Tells the gateways that the session has left that no more comes from this worker, once it may tell."""
        if not session.left or session.epoch is None:
            return
        self.tell_left(session.session_id, session.epoch, session.generation, session.trace_id, session.left)
        session.left = ()
        self.tell_settled(session)

    def tell_left(
        self, session_id: SessionId, epoch: LeaseEpoch, generation: int, trace_id: TraceId, left: Iterable[int]
    ) -> None:
        """Tells the gateways that read these partitions that no more comes of a session that has left them."""
        headers = moved_headers(epoch, generation, trace_id)
        for partition in left:
            self._sender.send(self._topic, b"", headers, self._told, key=session_id, partition=partition)

    def tell_end(self, session: Owned, topic: str) -> None:
        """Marks the session's end among its records: who reads them from further back lets it go at once."""
        record = SessionAbandoned(session.session_id, session.next_index)
        headers = record_headers(session.reply_to, session.come_bytes, session.trace_id, session.told_generation)
        with suppress(StreamScribeError):  # then it is heard again for nothing: gateways do not know it any more
            key, partition = session.session_id, session.partition
            self._sender.send(topic, encode_record(record), headers, _whatever, key=key, partition=partition)

    def mark(self, topic: str, partition: int, owner: str) -> None:
        """Puts a mark into a partition that we read."""
        self._sender.send(topic, b"", mark_headers(owner), self._told, partition=partition)

    def tell_settled(self, session: Owned) -> None:
        """Tells soon how far the session is processed."""
        if not self._news:
            asyncio.get_running_loop().call_later(SETTLE_INTERVAL_S, self._flush)
        self._news.add(session)

    def _flush(self) -> None:
        by_gateway: dict[int, list[Settled]] = {}
        for session in self._news:
            settled = session.settled()
            if settled is not None and not session.over:
                by_gateway.setdefault(session.reply_to, []).append(settled)
        self._news.clear()
        try:
            for reply_to, settled_here in by_gateway.items():
                for first in range(0, len(settled_here), MAX_SETTLED):
                    value = encode_settled(settled_here[first : first + MAX_SETTLED])
                    self._sender.send(self._topic, value, SETTLED_HEADERS, self._told, partition=reply_to)
        except StreamScribeError as error:
            self._failed(error)

    def _done(self, session: Owned, number: int, error: StreamScribeError | None) -> None:
        if error is None:
            session.deliver(number)
            self._delivered(session)
        elif isinstance(error, (NoSuchPartition, TooLarge)):
            session.deliver(number)  # what comes behind it is told
            self._unsaid(session, error)
        else:
            self._failed(error)

    def _told(self, error: StreamScribeError | None) -> None:
        if error is not None and not isinstance(error, NoSuchPartition):  # there nobody misses it
            self._failed(error)


def _whatever(error: StreamScribeError | None) -> None:
    """For what may be missing."""


def _may_be_dropped(event: Emitted) -> bool:
    return isinstance(event, Progress) or (isinstance(event, Recognised) and not event.result.is_final)
