"""The encoder service: audio to embeddings before anything is admitted to a language model, once per distinct audio."""

import asyncio
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import replace
from functools import partial
from itertools import count
from math import inf
from time import monotonic

from streamscribe.audio.fingerprint import Fingerprints
from streamscribe.cache.purges import Purges
from streamscribe.cache.stage_output import StageOutputCache
from streamscribe.core.batching import OVERLOAD_RETRY_S, BatchPolicy, Priority
from streamscribe.core.cachekey import CacheKeys
from streamscribe.core.errors import ModelUnavailable, Overloaded
from streamscribe.core.fair_share import NOBODYS, Share
from streamscribe.encoder.dispatch import Dispatch, fail
from streamscribe.encoder.encoding import EncoderObserver, Encoding, FeatureStore
from streamscribe.encoder.flight import Caller, Flights
from streamscribe.encoder.front import FrontThreads
from streamscribe.encoder.lookup import AudioLookup
from streamscribe.encoder.metered import Job, MeteredEncoder
from streamscribe.encoder.parity import TOLERANCE, batch_difference
from streamscribe.encoder.shelf import FeatureShelf
from streamscribe.models.ports import AudioEncoder, Embedding, SegmentRequest, Window
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
        self._purges = purges or Purges()
        self._lookup = AudioLookup(
            encoder,
            weights=weights,
            fingerprints=fingerprints,
            keys=keys,
            cache=cache,
            features=None if features is None else FeatureShelf(features, self._purges, name),
            purges=self._purges,
            observer=observer,
        )
        self._metered = MeteredEncoder(encoder, observer)
        self._policy = policy
        self._on_step = on_step
        self._ids = count()
        self._flights = Flights()
        self._callers: dict[int, Caller] = {}
        self._closed = False
        self._front = FrontThreads(FRONT_THREADS, f"{name}-front")
        self.replica: Replica[Job, Embedding] = Replica(
            name,
            self._metered.encode,
            policy=replace(policy, all_wait=True),  # for those in the front threads, and for nobody else
            on_step=self._stepped,
            on_error=on_error,
            warm_up=encoder_runs(encoder, policy),
            step_timeout_s=step_timeout_s,
            max_failures=max_failures,
            on_ejected=on_ejected,
        )
        """The thread that owns the encoder."""
        self._dispatch = Dispatch(
            encoder, self._flights, self._lookup, self.replica, cost_s=self._metered.cost_s, observer=observer
        )

    def submit(
        self,
        request: SegmentRequest,
        *,
        window: Window = Window.SHORT,
        priority: Priority,
        share: Share = NOBODYS,
        since_s: float | None = None,
        began: int | None = None,
    ) -> "Future[Encoding]":
        """The request's embedding, from any thread; with `since_s` it stands in line as if it had come then.

        With `began`, an answer of `begin`, nothing is kept of it if its tenant's things were purged since then.

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
            began=self._purges.begin() if began is None else began,
            share=share,
        )
        self._callers[caller.id] = caller
        caller.future.add_done_callback(partial(self._left, caller.id))  # no cycle: futures keep callbacks
        self.replica.expect(1)
        self._front.run(came_s + priority * self._policy.aging_s, caller.id, partial(self._receive, caller, request))
        if self._closed:  # since it was asked: nobody would answer any more
            self._fail([caller])
        return caller.future

    async def encode(
        self,
        request: SegmentRequest,
        *,
        window: Window = Window.SHORT,
        priority: Priority,
        share: Share = NOBODYS,
        since_s: float | None = None,
        began: int | None = None,
    ) -> Encoding:
        """As `submit`, for an event loop; cancelling it gives the request up."""
        return await asyncio.wrap_future(
            self.submit(request, window=window, priority=priority, share=share, since_s=since_s, began=began)
        )

    def begin(self) -> int:
        """When work on a request begins that may ask several times, as `Purges` counts."""
        return self._purges.begin()

    def _receive(self, caller: Caller, request: SegmentRequest) -> None:
        """In a front thread."""
        try:
            self._dispatch.receive(caller, request)
        finally:
            self.replica.expect(-1)

    def _fail(self, callers: Sequence[Caller]) -> None:
        fail(callers, ModelUnavailable("the encoder is shutting down"))

    def _left(self, caller_id: int, future: "Future[Encoding]") -> None:
        """The caller has its answer, or wants none."""
        caller = self._callers.pop(caller_id)
        if self._front.drop(caller_id):
            self.replica.expect(-1)
        if future.cancelled():
            self._dispatch.leave(caller)

    def _stepped(self, report: StepReport) -> None:
        self._metered.stepped(report)
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
        self._lookup.open()
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
        self._fail(list(self._callers.values()))
        self._front.close()
        self.replica.close()
        self._fail(list(self._callers.values()))  # who came in between
        self._lookup.close()

    def check_integrity(self) -> None:
        """The ledger of flights."""
        self._flights.check_integrity()
