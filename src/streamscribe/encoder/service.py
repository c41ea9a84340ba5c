"""The encoder service: audio to embeddings before anything is admitted to a language model, once per distinct audio."""

import asyncio
from collections.abc import Callable, Sequence
from concurrent.futures import Future, InvalidStateError
from contextlib import suppress
from dataclasses import replace
from functools import partial
from itertools import count
from math import inf
from time import monotonic

import numpy as np

from streamscribe.audio.fingerprint import Fingerprints
from streamscribe.cache.purges import Purges
from streamscribe.cache.stage_output import StageOutputCache
from streamscribe.core.audio import SAMPLE_RATE
from streamscribe.core.batching import OVERLOAD_RETRY_S, BatchPolicy, Priority
from streamscribe.core.cachekey import CacheKeys
from streamscribe.core.errors import AudioTooLong, InternalError, ModelUnavailable, Overloaded, StreamScribeError
from streamscribe.encoder.encoding import EncodedStep, EncoderObserver, Encoding, FeatureStore, Lookup
from streamscribe.encoder.flight import Caller, Flight, Flights
from streamscribe.encoder.front import FrontThreads
from streamscribe.encoder.parity import TOLERANCE, batch_difference
from streamscribe.models.guards import is_silent
from streamscribe.models.ports import AudioEncoder, Embedding, EncoderInput, SegmentRequest, Window
from streamscribe.models.replica import Replica, StepReport
from streamscribe.models.warm_up import encoder_runs
from streamscribe.observe.logs import get_logger

FRONT_THREADS = 2
"""Threads that fingerprint, look up and compute features; numpy lets them run side by side for the most part."""

_log = get_logger(__name__)


class EncoderService:
    """Encodes each distinct audio of a tenant once, in batches, in one thread that owns the encoder.

    A request is fingerprinted, looked for in the cache, joined to an equal one that is on its way, and only then read
    and encoded. What it gets is complete and valid: as many rows as the model's own rule says, finite, float32; so is
    what it finds in the cache, or it is encoded anew. A failure reaches all who wait for it and is not kept. A request
    that is cancelled harms nobody; once nobody waits for an encoding, it is not begun.

    Where a batch is not encoded as its members are alone, the service encodes one by one, and says so in the log.
    """

    def __init__(
        self,
        encoder: AudioEncoder,
        *,
        weights: str,
        fingerprints: Fingerprints,
        keys: CacheKeys,
        cache: StageOutputCache | None,
        observer: EncoderObserver,
        policy: BatchPolicy,
        features: FeatureStore | None = None,
        purges: Purges | None = None,
        name: str = "encoder",
        on_step: Callable[[StepReport], None] = lambda report: None,
        on_error: Callable[[str, BaseException], None] = lambda name, error: None,
        step_timeout_s: float = inf,
        max_failures: int = 5,
        on_ejected: Callable[[str, str], None] = lambda name, cause: None,
    ) -> None:
        """`weights` is the digest of the model's files. Runs the encoder a few times, to compare batches with singles.

        `cache` None or of size zero: nothing is kept, and equal requests still share an encoding. `purges` is that of
        whoever purges `cache` and `features`.
        """
        difference, self.sample = batch_difference(encoder)
        """The embedding of a second of noise, for warm-ups."""
        self.batches = difference <= TOLERANCE
        """Whether requests share passes of the encoder."""
        if not self.batches:
            _log.warning("batches are not encoded as single segments are: batching is off", difference=difference)
            policy = replace(policy, max_batch_size=1)
        self._encoder = encoder
        self._identity = (weights, *encoder.encoder_identity)
        self._fingerprints = fingerprints
        self._keys = keys
        self._cache = cache
        self._features = features
        self._purges = purges or Purges()
        self._observer = observer
        self._policy = policy
        self._on_step = on_step
        self._ids = count()
        self._flights = Flights()
        self._callers: dict[int, Caller] = {}
        self._forwards = 0
        self._padded = (0, 0)
        self._encoded_s = self._encode_s = 0.0
        self._closed = False
        self._front = FrontThreads(FRONT_THREADS, f"{name}-front")
        self.replica: Replica[EncoderInput, Embedding] = Replica(
            name,
            self._step,
            policy=policy,
            on_step=self._stepped,
            on_error=on_error,
            warm_up=encoder_runs(encoder, policy),
            step_timeout_s=step_timeout_s,
            max_failures=max_failures,
            on_ejected=on_ejected,
        )
        """The thread that owns the encoder."""

    def submit(
        self,
        request: SegmentRequest,
        *,
        window: Window = Window.SHORT,
        priority: Priority,
        since_s: float | None = None,
    ) -> "Future[Encoding]":
        """The request's embedding, from any thread; with `since_s` it stands in line as if it had come then.

        The future raises AudioTooLong and BadRequest for what cannot be encoded, ModelUnavailable where the encoder
        has stopped or hangs, Overloaded beyond the policy's bounds, InternalError for what it could not encode. Its
        callbacks run in threads of the service and must be quick. Raises Overloaded and ModelUnavailable at once too.
        """
        if outage := self.outage():
            raise outage
        if len(self._callers) >= self._policy.max_inflight:
            raise Overloaded(retry_after_s=OVERLOAD_RETRY_S)
        came_s = monotonic() if since_s is None else since_s
        store = request.store and not request.draft
        caller = Caller(
            id=next(self._ids),
            tenant=request.tenant_id,
            window=window,
            priority=priority,
            since_s=came_s,
            num_samples=len(request.samples),
            store=store,
            began=self._purges.begin(),
        )
        self._callers[caller.id] = caller
        caller.future.add_done_callback(partial(self._left, caller))
        self.replica.expect(1)
        self._front.run(came_s + priority * self._policy.aging_s, partial(self._receive, caller, request))
        return caller.future

    async def encode(
        self,
        request: SegmentRequest,
        *,
        window: Window = Window.SHORT,
        priority: Priority,
        since_s: float | None = None,
    ) -> Encoding:
        """As `submit`, for an event loop; cancelling it gives the request up."""
        return await asyncio.wrap_future(self.submit(request, window=window, priority=priority, since_s=since_s))

    def _receive(self, caller: Caller, request: SegmentRequest) -> None:
        """In a front thread: everything up to the encoder's queue."""
        flight = None
        try:
            if caller.future.done():
                return
            if (found := self._find(caller, request)) is not None:
                self._answer([caller], found)
            elif (joined := self._flights.join(caller)) is not None:
                if joined.leader is caller:
                    flight = joined
                    self._lead(flight, request)
                elif caller.priority < joined.leader.priority:
                    self._hurry(joined)
        except StreamScribeError as error:
            self._fail([caller] if flight is None else self._flights.end(flight), error)
        except Exception as error:  # noqa: BLE001 - the thread's edge: the front end of a model may raise anything
            _log.error("a segment's features failed", exc_info=error)
            self._fail([caller] if flight is None else self._flights.end(flight), InternalError())
        finally:
            self.replica.expect(-1)

    def _find(self, caller: Caller, request: SegmentRequest) -> Embedding | None:
        """What needs no encoding: silence, and what the cache has."""
        if caller.num_samples > self._encoder.max_samples:
            raise AudioTooLong("a segment is longer than the model takes")
        if not caller.store:
            caller.lookup = Lookup.BYPASS
        if is_silent(request.samples):
            caller.lookup, caller.silent = Lookup.BYPASS, True
            return _frozen(np.zeros((0, self._encoder.width), np.float32))
        if request.draft:
            return None
        caller.fingerprint = self._fingerprints.of(caller.tenant, request.samples)
        described = (*self._identity, caller.window.value, caller.fingerprint)
        caller.key = self._keys.derive(caller.tenant, "embedding", *described)
        return self._cached(caller)

    def _cached(self, caller: Caller) -> Embedding | None:
        """A valid embedding of the cache; an invalid one is removed, unless another has taken its place since."""
        key = caller.key
        if self._cache is None or key is None or not caller.store:
            return None
        embedding = self._cache.get(key)
        if embedding is None:
            return None
        if self._flaw(embedding, caller) is None:
            caller.lookup = Lookup.HIT
            return embedding
        caller.lookup = Lookup.INVALID
        self._cache.remove_if_same(key, embedding)
        return None

    def _lead(self, flight: Flight, request: SegmentRequest) -> None:
        """Reads the audio and lines it up, unless it was encoded between the first look at the cache and the join."""
        caller = flight.leader
        if (embedding := self._cached(caller)) is not None:
            self._answer(self._flights.end(flight), embedding)
            return
        read = self._read(caller, request)
        if not self._flights.wanted(flight):
            return
        work = self.replica.enqueue(
            read,
            priority=caller.priority,
            audio_s=caller.num_samples / SAMPLE_RATE,
            group=self._encoder.group(read),
            since_s=caller.since_s,
        )
        if not self._flights.working(flight, work):
            work.cancel()
        elif flight.priority < caller.priority:
            self._hurry(flight)
        work.add_done_callback(partial(self._encoded, flight))

    def _hurry(self, flight: Flight) -> None:
        """Somebody more urgent waits for it than who began it."""
        if flight.work is not None:
            self.replica.hurry(flight.work, flight.priority)

    def _read(self, caller: Caller, request: SegmentRequest) -> EncoderInput:
        """What the encoder reads of the audio, from the store of features where it is there."""
        if self._features is None or not caller.store:
            return self._features_of(request, caller.window)
        key = self._keys.derive(
            caller.tenant, "features", *self._encoder.front_end, caller.window.value, caller.fingerprint
        )
        read = self._features.get(key)
        if read is None:
            read = self._features_of(request, caller.window)
            self._purges.keep(caller.tenant, caller.began, partial(self._features.put, caller.tenant, key, read))
        return read

    def _features_of(self, request: SegmentRequest, window: Window) -> EncoderInput:
        began_s = monotonic()
        read = self._encoder.features(request.samples, request.frames, window)
        self._observer.read(monotonic() - began_s)
        return read

    def _encoded(self, flight: Flight, work: "Future[Embedding]") -> None:
        """In the encoder's thread, or the watchdog's: the encoder has answered."""
        if work.cancelled():
            return
        error = work.exception()
        if isinstance(error, StreamScribeError):
            self._fail(self._flights.end(flight), error)
            return
        embedding, caller = _frozen(work.result()), flight.leader
        if flaw := self._flaw(embedding, caller):
            _log.error("an encoder gave no valid embedding", flaw=flaw)
            self._fail(self._flights.end(flight), InternalError())
            return
        if self._cache is not None and flight.store and caller.key is not None:
            put = partial(self._cache.put, caller.tenant, caller.key, embedding)
            self._purges.keep(caller.tenant, caller.began, put)
        self._answer(self._flights.end(flight), embedding)

    def _flaw(self, embedding: Embedding, caller: Caller) -> str | None:
        """What keeps an array from being the caller's embedding."""
        rows = self._encoder.num_tokens(caller.num_samples, caller.window)
        if embedding.shape != (rows, self._encoder.width):
            return "shape"
        if embedding.dtype != np.float32:
            return "dtype"
        return None if np.isfinite(embedding).all() else "values"

    def _answer(self, callers: Sequence[Caller], embedding: Embedding) -> None:
        for caller in callers:
            spared = caller.lookup in (Lookup.HIT, Lookup.MERGED)
            self._observer.looked_up(caller.lookup, self._cost_s(caller) if spared else 0.0)
            encoding = Encoding(embedding, caller.fingerprint, len(embedding), caller.lookup, caller.silent)
            with suppress(InvalidStateError):  # it was cancelled just now
                caller.future.set_result(encoding)

    def _fail(self, callers: Sequence[Caller], error: StreamScribeError) -> None:
        """Each gets an error of its own, as one that is raised holds its raiser's frames."""
        for caller in callers:
            own = type(error)(error.message, field=error.field, retry_after_s=error.retry_after_s)
            with suppress(InvalidStateError):
                caller.future.set_exception(own)

    def _fail_all(self) -> None:
        self._fail(list(self._callers.values()), ModelUnavailable("the encoder is shutting down"))

    def _left(self, caller: Caller, future: "Future[Encoding]") -> None:
        """The caller has its answer, or wants none."""
        del self._callers[caller.id]
        if not future.cancelled():
            return
        flight = self._flights.leave(caller)
        if flight is not None:
            self._observer.cancelled()
            if flight.work is not None:
                flight.work.cancel()

    def _cost_s(self, caller: Caller) -> float:
        """About what encoding it would take, by what was encoded until now."""
        return self._encode_s / self._encoded_s * caller.num_samples / SAMPLE_RATE if self._encoded_s else 0.0

    def _step(self, batch: Sequence[EncoderInput]) -> list[Embedding]:
        self._forwards += 1
        embeddings = self._encoder.encode(batch)
        read, padded = self._padded
        sizes: dict[object, list[int]] = {}
        for one in batch:
            sizes.setdefault(self._encoder.group(one), []).append(one.size)
        whole = sum(max(group) * len(group) for group in sizes.values())
        self._padded = (read + whole, padded + whole - sum(one.size for one in batch))
        return embeddings

    def _stepped(self, report: StepReport) -> None:
        read, padded = self._padded
        fallbacks = self._forwards - 1
        self._forwards, self._padded = 0, (0, 0)
        self._encode_s += report.step_s
        self._encoded_s += report.audio_s
        self._observer.encoded(
            EncodedStep(
                batch_size=report.batch_size,
                padded_share=padded / read if read else 0.0,
                queue_wait_s=report.queue_wait_s,
                encode_s=report.step_s,
                audio_s=report.audio_s,
                fallbacks=fallbacks,
                failed=report.failed,
            )
        )
        self._on_step(report)

    @property
    def name(self) -> str:
        """The replica's."""
        return self.replica.name

    @property
    def ready(self) -> bool:
        """Whether it would take a request now."""
        return self.replica.ready

    @property
    def inflight(self) -> int:
        """Requests without an answer."""
        return len(self._callers)

    @property
    def warmup_s(self) -> float:
        """How long the warm-up took."""
        return self.replica.warmup_s

    def start(self) -> None:
        """Starts the threads and returns; requests submitted during the warm-up wait for its end."""
        self._front.start()
        self.replica.start()

    def wait_ready(self) -> None:
        """Blocks until it is warm; raises ModelUnavailable when it failed."""
        self.replica.wait_ready()

    def outage(self) -> ModelUnavailable | None:
        """Why it would take no request now."""
        return ModelUnavailable("the encoder is shutting down") if self._closed else self.replica.outage()

    def fail_if_stalled(self) -> None:
        """Fails all that waits for a step that hangs; for a watchdog, from any thread."""
        self.replica.fail_if_stalled()

    def close(self) -> None:
        """Fails what waits and joins the threads: blocks until what runs has ended."""
        self._closed = True
        self._fail_all()
        self._front.close()
        self.replica.close()
        self._fail_all()  # who came in between

    def check_integrity(self) -> None:
        """The ledger of flights."""
        self._flights.check_integrity()


def _frozen(embedding: Embedding) -> Embedding:
    """An array of its own, for a view would keep its whole batch in memory, that nobody can write to."""
    own = embedding if embedding.base is None else embedding.copy()
    own.flags.writeable = False
    return own
