"""Many sessions' pasts at once, read by one consumer: each partition once, however many want it."""

import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from math import inf

from confluent_kafka import Consumer, KafkaException, Message, TopicPartition

from streamscribe.bus.kafka.gaps import Gaps, Where
from streamscribe.bus.kafka.past import Past
from streamscribe.bus.kafka.topics import Topics
from streamscribe.core.errors import BadRequest, InternalError, SessionNotFound

PATIENCE_S = 6.0
"""How long the reading of one past may take. Who is not done then may ask again."""

MAX_KEPT_BYTES = 128_000_000
"""Of what has been read, for those who come next: half a minute of a hundred sessions. Beyond it is read again."""

MESSAGE_BYTES = 512
"""What a message takes beside its value; measured, with headers and a key of ours."""

_BATCH = 1000
_POLL_S = 0.05
_COMMITTED_FOR_S = 1.0
"""A committed offset is used so long: where the group stood lately lies before where it stands."""
_ASK_S = 1.0
"""For so long at most the group is asked, which holds up all that are read, and who asks in vain lets them go on for
so long."""


@dataclass(slots=True, eq=False)
class _Reader:
    """One past, and from which offset of each partition it is read."""

    past: Past
    ends_at: float
    begun: bool = False
    at: dict[Where, int] = field(default_factory=dict)


@dataclass(slots=True)
class _Stretch:
    """What was read of a partition: from `begin` to before `offset`, where the consumer is. `sought`: nothing has come
    since it was to be put there. `kept` is what has come, by session."""

    begin: int
    offset: int
    sought: bool = True
    kept: dict[bytes, list[Message]] = field(default_factory=dict)
    kept_bytes: int = 0

    def keep(self, key: bytes, message: Message) -> None:
        """For those who come later."""
        self.kept.setdefault(key, []).append(message)
        self.kept_bytes += len(message.value() or b"") + MESSAGE_BYTES

    def forget(self) -> None:
        """Keeps nothing of what came until now."""
        self.begin, self.kept, self.kept_bytes = self.offset, {}, 0


class Reading:
    """The consumer at many partitions, which come and go one by one. Each is read once, however many want it, and only
    as long as somebody does: when a gateway ends its sessions all come within seconds.

    What was read is kept for those who come next, within `MAX_KEPT_BYTES`; for what lies before that the consumer goes
    back, and the others pass over what they had. A past at which anything fails fails alone.
    """

    def __init__(self, consumer: Consumer, names: Topics, clock: Callable[[], float] = time.monotonic) -> None:
        self._consumer = consumer
        self._clock = clock
        self._topics = names
        self._readers: dict[bytes, _Reader] = {}
        self._tracks: dict[Where, _Stretch] = {}
        self._placed: set[Where] = set()
        self._to_place: set[Where] = set()
        self._gaps = Gaps(clock)
        self._asked_before: dict[int, tuple[float, int]] = {}
        """When a partition's committed offset was asked for, and what it was."""
        self._ask_again_at = 0.0

    @property
    def busy(self) -> bool:
        """Whether anything is read for anybody."""
        return bool(self._readers)

    def pasts(self) -> list[Past]:
        """Those that are not complete."""
        return [reader.past for reader in self._readers.values()]

    def close(self) -> None:
        """Closes the consumer."""
        self._consumer.close()

    def step(self, asked: list[Past]) -> list[Past]:
        """Takes more in, reads on for a moment, and gives those that are complete or late."""
        ends_at = self._clock() + PATIENCE_S
        for past in asked:
            self._readers[past.session_id.encode()] = _Reader(past, ends_at)
        self._begin()
        self._place()
        turned = [reader for message in self._consumer.consume(_BATCH, _POLL_S) if (reader := self._hear(message))]
        for reader in turned:
            self._begin_leg(reader)
        self._forget_beyond(MAX_KEPT_BYTES)
        return self._ended()

    def _forget_beyond(self, most_bytes: int) -> None:
        """Of the partitions that hold most first; so that not all are read again by who comes next."""
        kept_bytes = sum(track.kept_bytes for track in self._tracks.values())
        if kept_bytes <= most_bytes:
            return
        for track in sorted(self._tracks.values(), key=lambda track: -track.kept_bytes):
            kept_bytes -= track.kept_bytes
            track.forget()
            if kept_bytes <= most_bytes / 2:
                return

    def _place(self) -> None:
        """Puts the consumer where the pasts are read on, and nowhere else; what it reads already it goes on with."""
        wanted = {where for reader in self._readers.values() for where in reader.at}
        for where in self._gaps.behind():
            self._gaps.gone_back(where)
            self._tracks[where].sought = True
            self._to_place.add(where)
        left = self._placed - (wanted - self._to_place)
        come = wanted - (self._placed - left)
        if left:
            self._consumer.incremental_unassign([TopicPartition(*where) for where in sorted(left)])
        if come:
            begin = [TopicPartition(*where, self._tracks[where].offset) for where in sorted(come)]
            self._consumer.incremental_assign(begin)
        self._placed = wanted
        self._to_place.clear()

    def _begin(self) -> None:
        """Records are read from where the workers' group would go on, for each live session has its last one behind
        that; or from the mark of its place, where that is later."""
        new = [reader for reader in self._readers.values() if not reader.begun]
        committed = self._committed({reader.past.audio_partition for reader in new})
        for reader in new:
            past, number = reader.past, reader.past.audio_partition
            if number in committed:
                reader.begun = True
                marked = past.places[0].audio_offset if past.places else 0
                self._follow(reader, (self._topics.audio, number), max(committed[number], marked))
                self._begin_leg(reader)

    def _committed(self, numbers: set[int]) -> dict[int, int]:
        """Where the workers' group would go on, or would have lately: that lies before it, and asking takes a while.
        A partition of which the group does not say so now is not in it."""
        now = self._clock()
        self._asked_before = {
            number: (at, offset) for number, (at, offset) in self._asked_before.items() if now < at + _COMMITTED_FOR_S
        }
        unknown = sorted(numbers - self._asked_before.keys())
        if unknown and now >= self._ask_again_at:
            told: list[TopicPartition] = []
            with suppress(KafkaException):
                parts = [TopicPartition(self._topics.audio, number) for number in unknown]
                told = [part for part in self._consumer.committed(parts, timeout=_ASK_S) if part.error is None]
            self._asked_before |= {part.partition: (now, max(0, part.offset)) for part in told}
            if len(told) < len(unknown):
                self._ask_again_at = self._clock() + _ASK_S
        return {number: self._asked_before[number][1] for number in numbers & self._asked_before.keys()}

    def _begin_leg(self, reader: _Reader) -> None:
        """Goes to the place whose turn it is; of what is kept a place may be read to its end at once."""
        turned = True
        while turned:
            reader.past.begin_leg()
            reader.at = {where: at for where, at in reader.at.items() if where[0] != self._topics.results}
            place = reader.past.place
            turned = place is not None and self._follow(reader, (self._topics.results, place.partition), place.offset)

    def _follow(self, reader: _Reader, where: Where, offset: int) -> bool:
        """Reads a partition for the past too, from an offset on; whether its place has changed with what is kept.

        What was read and left long ago is given up where all between there and the offset would have to be read too.
        """
        reader.at[where] = offset
        track = self._tracks.get(where)
        read_on = any(where in other.at for other in self._readers.values() if other is not reader)
        if track is not None and track.begin <= offset and (read_on or offset <= track.offset):
            kept = track.kept.get(reader.past.session_id.encode(), [])
            return any(self._give(reader, where, message) for message in kept)
        if track is not None:
            for other in self._readers.values():
                if other is not reader and where in other.at:
                    other.at[where] = max(other.at[where], track.offset)
        self._tracks[where] = _Stretch(offset, offset)
        self._gaps.begin(where, offset)
        self._to_place.add(where)
        return False

    def _hear(self, message: Message) -> _Reader | None:
        """A message; gives the one whose next place is to be read from now on."""
        error = message.error()
        if error is not None:
            if error.fatal():
                raise KafkaException(error)
            return None
        where, offset = (message.topic() or "", message.partition() or 0), message.offset() or 0
        track = self._tracks.get(where)
        if track is None or not self._gaps.takes(where, offset):
            return None
        if track.sought and where[0] == self._topics.results and offset > track.offset:
            self._lose(where, offset)
            track.begin = offset
        track.sought, track.offset = False, offset + 1
        key = message.key() or b""
        key = key if isinstance(key, bytes) else key.encode()
        if key:  # settlements have none
            track.keep(key, message)
        reader = self._readers.get(key)
        return reader if reader is not None and self._give(reader, where, message) else None

    def _give(self, reader: _Reader, where: Where, message: Message) -> bool:
        """A message of the session; whether its next place is to be read from now on."""
        offset = message.offset() or 0
        if offset < reader.at.get(where, inf):
            return False
        reader.at[where] = offset + 1
        past, leg = reader.past, reader.past.leg
        try:
            past.result(message) if where[0] == self._topics.results else past.record(message)
        except BadRequest:  # the worker, or the gateway before us, has put it aside too
            pass
        except Exception as error:  # noqa: BLE001 - the edge of the thread that reads for all
            past.error = InternalError()
            past.error.__cause__ = error
        if past.leg == leg:
            if past.records_read and where[0] != self._topics.results:
                del reader.at[where]
            return False
        del reader.at[where]  # what else came of this partition belongs to no leg, or to a later one
        return True

    def _lose(self, where: Where, begin: int) -> None:
        """The log begins later than it should: what was told before is gone."""
        for reader in self._readers.values():
            if reader.at.get(where, begin) < begin:
                reader.past.error = SessionNotFound()

    def _ended(self) -> list[Past]:
        now = self._clock()
        ended = [
            key
            for key, reader in self._readers.items()
            if reader.past.complete or now > reader.ends_at or reader.past.done.cancelled()
        ]
        return [self._readers.pop(key).past for key in ended]
