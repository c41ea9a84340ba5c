"""The way of a request through the encoder service: found, joined to an equal one, or led to the encoder's queue."""

from collections.abc import Callable, Sequence
from concurrent.futures import Future, InvalidStateError
from contextlib import suppress
from functools import partial

from streamscribe.core.errors import InternalError, StreamScribeError
from streamscribe.encoder.encoding import EncoderObserver, Encoding, Lookup
from streamscribe.encoder.flight import Caller, Flight, Flights
from streamscribe.encoder.lookup import AudioLookup
from streamscribe.encoder.metered import Job
from streamscribe.models.ports import AudioEncoder, Embedding, SegmentRequest
from streamscribe.models.replica import Replica
from streamscribe.observe.logs import get_logger

_log = get_logger(__name__)


class Dispatch:
    """Takes requests as far as the encoder's queue, and brings back what comes of them. Called from several threads."""

    def __init__(
        self,
        encoder: AudioEncoder,
        flights: Flights,
        lookup: AudioLookup,
        replica: Replica[Job, Embedding],
        *,
        cost_s: Callable[[int], float],
        observer: EncoderObserver,
    ) -> None:
        """`cost_s` says about what an embedding of so many rows cost."""
        self._encoder = encoder
        self._flights = flights
        self._lookup = lookup
        self._replica = replica
        self._cost_s = cost_s
        self._observer = observer

    def receive(self, caller: Caller, request: SegmentRequest) -> None:
        """In a front thread: everything up to the encoder's queue."""
        flight = None
        try:
            if caller.future.done():
                return
            if (found := self._lookup.find(caller, request)) is not None:
                self._answer([caller], found)
            elif (joined := self._flights.join(caller)) is not None:
                if joined.leader is caller:
                    flight = joined
                    self._lead(flight, request)
                elif caller.priority < joined.leader.priority:
                    self._hurry(joined)
        except StreamScribeError as error:
            fail([caller] if flight is None else self._flights.end(flight), error)
        except Exception as error:  # noqa: BLE001 - the thread's edge: the front end of a model may raise anything
            _log.error("a segment's features failed", exc_info=error)
            fail([caller] if flight is None else self._flights.end(flight), InternalError())

    def leave(self, caller: Caller) -> None:
        """The caller wants no answer any more; what nobody else waits for is given up."""
        last, work = self._flights.leave(caller)
        if last:
            self._observer.cancelled()
        if work is not None:
            work.cancel()

    def _lead(self, flight: Flight, request: SegmentRequest) -> None:
        """Reads the audio and lines it up, unless it was encoded between the first look at the cache and the join."""
        caller = flight.leader
        if (embedding := self._lookup.cached(caller)) is not None:
            self._land(flight, embedding)
            return
        read, key = self._lookup.read(caller, request)
        if not self._flights.wanted(flight):
            return
        work = self._replica.enqueue(
            Job(read, self._lookup.rows(caller)),
            priority=caller.priority,
            audio_s=self._lookup.read_s(read),
            group=self._encoder.group(read),
            share=caller.share,
            since_s=caller.since_s,
        )
        if not self._flights.working(flight, work):
            work.cancel()
        elif flight.priority < caller.priority:
            self._hurry(flight)
        work.add_done_callback(partial(self._encoded, flight))
        if key is not None:
            self._lookup.keep_read(caller, key, read)

    def _hurry(self, flight: Flight) -> None:
        """Somebody more urgent waits for it than who began it."""
        if (work := flight.work) is not None:
            self._replica.hurry(work, flight.priority)

    def _encoded(self, flight: Flight, work: "Future[Embedding]") -> None:
        """In the encoder's thread, or the watchdog's: the encoder has answered."""
        if work.cancelled():
            return
        error = work.exception()
        if error is not None:
            fail(self._flights.end(flight), error if isinstance(error, StreamScribeError) else InternalError())
            return
        embedding = work.result()
        if (began := self._flights.kept_since(flight)) is not None:
            self._keep(flight.leader, began, embedding)
        self._land(flight, embedding)

    def _keep(self, caller: Caller, began: int, embedding: Embedding) -> None:
        """Has it kept; where that fails, it is not kept, and nobody waits the longer."""
        try:
            self._lookup.keep(caller, began, embedding)
        except Exception as error:  # noqa: BLE001 - a future's callback: what it raises would be told to nobody
            _log.error("an embedding was not kept", exc_info=error)

    def _land(self, flight: Flight, embedding: Embedding) -> None:
        """Answers all who wait; where that fails, each who has no answer yet gets an error.

        It was encoded for the first of them, and the others were merged: also where the one who began it has left.
        """
        callers = self._flights.end(flight)
        for follower in callers[1:]:
            if follower.lookup is not Lookup.INVALID:
                follower.lookup = Lookup.MERGED
        try:
            self._answer(callers, embedding)
        except Exception as error:  # noqa: BLE001 - a future's callback: what it raises would be told to nobody
            _log.error("an embedding was not given away", exc_info=error)
            fail(callers, InternalError())

    def _answer(self, callers: Sequence[Caller], embedding: Embedding) -> None:
        for caller in callers:
            spared = caller.lookup in (Lookup.HIT, Lookup.MERGED)
            self._lookup.answered(caller)
            self._observer.looked_up(caller.lookup, self._cost_s(len(embedding)) if spared else 0.0)
            encoding = Encoding(embedding, caller.fingerprint, len(embedding), caller.lookup, caller.silent)
            with suppress(InvalidStateError):  # it was cancelled just now
                caller.future.set_result(encoding)


def fail(callers: Sequence[Caller], error: StreamScribeError) -> None:
    """Each gets an error of its own, as one that is raised holds its raiser's frames."""
    for caller in callers:
        own = type(error)(error.message, field=error.field, retry_after_s=error.retry_after_s)
        with suppress(InvalidStateError):
            caller.future.set_exception(own)
