"""The stages that a replay compares, over one engine: encoded before admission, or after it."""

from collections import Counter
from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from math import inf
from threading import Lock
from typing import Any

from streamscribe.audio.fingerprint import Fingerprints
from streamscribe.bench.after_admission import EncodeAfterAdmission
from streamscribe.bench.replay_load import Recognise
from streamscribe.cache.stage_output import StageOutputCache
from streamscribe.core.audio import SAMPLE_RATE
from streamscribe.core.batching import BatchPolicy, Priority
from streamscribe.core.cachekey import CacheKeys
from streamscribe.core.fair_share import NOBODYS, Share
from streamscribe.encoder.encoding import EncodedStep, Encoding, FeatureStore, Lookup
from streamscribe.encoder.recognition import EncodedRecognition
from streamscribe.encoder.service import EncoderService
from streamscribe.models.ports import AudioEncoder, EncoderDecoder, SegmentRequest, Window
from streamscribe.models.replica import Replica

POLICY = BatchPolicy(max_batch_s=60)
"""Of segments, as the settings have it by default."""
PRIORITY = Priority.BULK
"""As what files ask for."""

CACHE_ENTRIES = 4096
CACHE_BYTES = 8 << 30
"""Enough for all that a replay asks for, so that nothing is told of what was evicted."""

SECRET = b"replays keep nothing that must be kept secret"


@dataclass(slots=True)
class Telemetry:
    """What a service tells of its work; counted by its threads, read between passes.

    `lookups` count first looks at a segment only, `second_looks` those in the full window that the model asked for.
    """

    lookups: Counter[Lookup] = field(default_factory=Counter)
    second_looks: int = 0
    encodes: int = 0
    encoder_steps: int = 0
    _lock: Lock = field(default_factory=Lock)

    @property
    def mean_batch(self) -> float:
        """Segments in a step of the encoder."""
        return self.encodes / self.encoder_steps

    def answered(self, window: Window, future: "Future[Encoding]") -> None:
        """An encoding was given, or none."""
        with self._lock:
            if window is Window.FULL:
                self.second_looks += 1
            elif not future.cancelled() and future.exception() is None:
                self.lookups[future.result().lookup] += 1

    def looked_up(self, result: Lookup, saved_s: float) -> None:
        """Counted in `answered`, by window."""

    def read(self, spent_s: float) -> None:
        """Of no interest here."""

    def encoded(self, step: EncodedStep) -> None:
        """A step of the encoder is over."""
        with self._lock:
            self.encodes += step.batch_size
            self.encoder_steps += 1

    def cancelled(self) -> None:
        """Nobody cancels in a replay."""

    def clear(self) -> None:
        """From now on."""
        with self._lock:
            self.lookups = Counter()
            self.second_looks = self.encodes = self.encoder_steps = 0


class WatchedEncoder(EncoderService):
    """The service, telling how each request came to its embedding."""

    def __init__(self, encoder: AudioEncoder, telemetry: Telemetry, **how: Any) -> None:
        super().__init__(encoder, observer=telemetry, **how)
        self._telemetry = telemetry

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
        """As that of the service."""
        future = super().submit(request, window=window, priority=priority, share=share, since_s=since_s, began=began)
        future.add_done_callback(partial(self._telemetry.answered, window))
        return future


def encoder_service(
    engine: AudioEncoder, telemetry: Telemetry, *, cached: bool, features: FeatureStore | None = None
) -> WatchedEncoder:
    """A service that is not started; without `cached` it keeps nothing."""
    cache = StageOutputCache(max_entries=CACHE_ENTRIES, max_bytes=CACHE_BYTES, tenant_share=1.0) if cached else None
    return WatchedEncoder(
        engine,
        telemetry,
        weights="replay",
        fingerprints=Fingerprints(SECRET),
        keys=CacheKeys(SECRET),
        cache=cache,
        features=features,
        policy=replace(POLICY, max_waiting_s=inf),
    )


@contextmanager
def before_admission(
    engine: EncoderDecoder, telemetry: Telemetry, *, cached: bool, features: FeatureStore | None = None
) -> Iterator[Recognise]:
    """Encoded by the service, then admitted."""
    service = encoder_service(engine, telemetry, cached=cached, features=features)
    in_order = replace(POLICY, max_batch_s=inf)
    decoder = Replica("language-model", engine.decode, policy=in_order, on_step=lambda report: None)
    recognition = EncodedRecognition(service, decoder, policy=POLICY)
    with running(service, decoder):

        async def recognise(request: SegmentRequest) -> str:
            return (await recognition.submit(request, priority=PRIORITY, audio_s=_audio_s(request))).text

        yield recognise


@contextmanager
def after_admission(recognizer: EncodeAfterAdmission) -> Iterator[Recognise]:
    """Admitted, then encoded in the language model's step."""
    replica = Replica("whole", recognizer.recognize, policy=POLICY, on_step=lambda report: None)
    with running(replica):

        async def recognise(request: SegmentRequest) -> str:
            return (await replica.submit(request, priority=PRIORITY, audio_s=_audio_s(request))).text

        yield recognise


@contextmanager
def running(*parts: EncoderService | Replica[Any, Any]) -> Iterator[None]:
    """Starts the parts, and closes them at the end."""
    try:
        for part in parts:
            part.start()
        for part in parts:
            part.wait_ready()
        yield
    finally:
        for part in parts:
            part.close()


def _audio_s(request: SegmentRequest) -> float:
    return len(request.samples) / SAMPLE_RATE
