"""The models of a profile, each with a thread of its own."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from math import inf
from typing import TypeVar

from prometheus_client import CollectorRegistry

from streamscribe.bootstrap.caches import Caches, open_caches
from streamscribe.bootstrap.engines import (
    VAD_ID,
    EngineLoader,
    by_length,
    punctuator_id,
    recognizer_ids,
    streaming_id,
    writes_continuously,
)
from streamscribe.bootstrap.recognition import Hooks, encoded_recognition
from streamscribe.bootstrap.weights import version_of, weights_digest
from streamscribe.core.audio import to_samples
from streamscribe.core.batching import BatchPolicy
from streamscribe.core.errors import BadRequest
from streamscribe.models.by_length import recognition_by_length
from streamscribe.models.encoder_decoder import EncoderDecoderRecognizer
from streamscribe.models.pool import FirstPass, Models, Punctuation, Recognition
from streamscribe.models.ports import (
    Heard,
    VadRequest,
    VoiceActivityDetector,
)
from streamscribe.models.replica import Replica, StepReport
from streamscribe.models.warm_up import Run, punctuator_runs, recognizer_runs, streaming_runs, vad_runs
from streamscribe.observe.encoder_metrics import EncoderMetrics
from streamscribe.observe.logs import get_logger
from streamscribe.settings import CacheSettings, ModelSettings

VAD_WAIT_MS = 20.0
"""How long a step of voice activity detection waits for others to join, whatever `batch_wait_ms` is: all other steps
come after it, so the wait is to be short, and of its cost most is the same for one block and for many. With 100
streams, 20 ms take a fifth of the cores less than 5 ms do. A session alone does not wait."""

Req = TypeVar("Req")
Res = TypeVar("Res")

_log = get_logger(__name__)


def load_models(
    settings: ModelSettings,
    on_step: Callable[[StepReport], None] = lambda report: None,
    *,
    caches: Caches | None = None,
    registry: CollectorRegistry | None = None,
) -> Models:
    """The models of a profile, by a loader of their own: see `ModelLoader`."""
    return ModelLoader(on_step, caches=caches, registry=registry).models(settings)


class ModelLoader:
    """Loads a profile's engines, all or one by one, and gives each its thread; `start` and `wait_ready` come next.

    The methods block. They raise ModelUnavailable where a model is not installed or its files have changed.
    """

    def __init__(
        self,
        on_step: Callable[[StepReport], None] = lambda report: None,
        *,
        caches: Caches | None = None,
        registry: CollectorRegistry | None = None,
        on_ejected: Callable[[str, str], None] = lambda name, cause: None,
        elsewhere: Recognition | None = None,
    ) -> None:
        """What an encoder made is kept in `caches`, by default in some of its own, and counted in `registry`.

        `on_ejected` hears, in any thread, which model is not ready any more, and why. Where whole segments are
        recognised `elsewhere`, no model is loaded for them.
        """
        self.elsewhere = elsewhere
        self._on_ejected = on_ejected
        self._on_step = on_step
        self._caches = caches
        self._registry = registry
        self._encoder_metrics: EncoderMetrics | None = None

    def models(self, settings: ModelSettings) -> Models:
        """All of the profile."""
        vad, vad_replica = self.vad(settings)
        return Models(
            vad,
            vad_replica,
            self.recognition(settings),
            self.first_pass(settings),
            self.punctuation(settings),
            "" if settings.profile == "fake" else version_of(weights_digest(settings, VAD_ID), VAD_ID),
        )

    def vad(self, settings: ModelSettings) -> tuple[VoiceActivityDetector, Replica[VadRequest, Heard]]:
        """Voice activity detection."""
        vad, policy = EngineLoader(settings).vad(), replace(_chunks(settings), wait_ms=VAD_WAIT_MS)
        return vad, self._replica(settings, "vad", vad.step, policy, vad_runs(vad, policy))

    def recognition(self, settings: ModelSettings) -> Recognition:
        """What recognises whole segments: one model, or two by length, unless others do."""
        if self.elsewhere is not None:
            return self.elsewhere
        several = by_length(settings)
        if not several:
            return self._recognition(settings, "recognizer")
        short, long = several
        return recognition_by_length(
            self._recognition(short, "recognizer-short"),
            self._recognition(long, "recognizer-long"),
            to_samples(settings.auto_up_to_ms),
        )

    def _recognition(self, settings: ModelSettings, name: str) -> Recognition:
        recognizer, policy = EngineLoader(settings).recognizer(), segments_policy(settings)
        ids = recognizer_ids(settings)
        weights = weights_digest(settings, *ids)
        version = version_of(weights, *ids)
        if not isinstance(recognizer, EncoderDecoderRecognizer):
            runs = recognizer_runs(recognizer, policy)
            stage = self._replica(settings, name, recognizer.recognize, policy, runs)
            return Recognition(recognizer, stage, weights, version=version)
        encoded = encoded_recognition(
            recognizer.engine,
            weights=weights,
            policy=policy,
            caches=self._open_caches(),
            metrics=self._metrics(),
            hooks=Hooks(self._on_step, _failed, self._on_ejected, settings.step_timeout_s, settings.max_failures),
            continuous=writes_continuously(settings),
        )
        return Recognition(recognizer, encoded, weights, reads_on=True, version=version)  # Whisper and Fun-ASR-Nano

    def first_pass(self, settings: ModelSettings) -> FirstPass | None:
        """What recognises streams, in the profiles that have it."""
        model_id, streaming = streaming_id(settings), EngineLoader(settings).streaming()
        if model_id is None or streaming is None:
            return None
        policy = _chunks(settings)
        runs = streaming_runs(streaming, policy)
        replica = self._replica(settings, "first-pass", streaming.step, policy, runs)
        weights = weights_digest(settings, model_id)
        return FirstPass(streaming, replica, weights, version_of(weights, model_id))

    def punctuation(self, settings: ModelSettings) -> Punctuation | None:
        """What punctuates, in the profiles that have it."""
        model_id, punctuator = punctuator_id(settings), EngineLoader(settings).punctuator()
        if model_id is None or punctuator is None:
            return None
        policy = segments_policy(settings)
        runs = punctuator_runs(punctuator)
        replica = self._replica(settings, "punctuation", punctuator.punctuate, policy, runs)
        weights = weights_digest(settings, model_id)
        return Punctuation(punctuator, replica, weights, version_of(weights, model_id))

    def _replica(
        self,
        settings: ModelSettings,
        name: str,
        step: Callable[[Sequence[Req]], Sequence[Res]],
        policy: BatchPolicy,
        warm_up: Sequence[Run],
    ) -> Replica[Req, Res]:
        return Replica(
            name,
            step,
            policy=policy,
            on_step=self._on_step,
            on_error=_failed,
            warm_up=warm_up,
            step_timeout_s=settings.step_timeout_s,
            max_failures=settings.max_failures,
            on_ejected=self._on_ejected,
        )

    def _open_caches(self) -> Caches:
        self._caches = self._caches or open_caches(CacheSettings())
        return self._caches

    def _metrics(self) -> EncoderMetrics:
        """One set for all versions."""
        if self._encoder_metrics is None:
            self._encoder_metrics = EncoderMetrics(self._registry or CollectorRegistry())
            caches = self._open_caches()
            self._encoder_metrics.cache_watched(caches.embeddings.stats)
            self._encoder_metrics.levels_watched(caches.watched)
        return self._encoder_metrics


def segments_policy(settings: ModelSettings) -> BatchPolicy:
    """How whole segments are gathered into steps, and how much may wait."""
    return BatchPolicy(
        max_batch_size=settings.max_batch_size,
        max_batch_s=settings.max_batch_s,
        wait_ms=settings.batch_wait_ms,
        max_waiting_s=settings.max_waiting_s,
        max_inflight=settings.max_inflight,
    )


def _chunks(settings: ModelSettings) -> BatchPolicy:
    return replace(segments_policy(settings), max_batch_size=settings.max_chunk_batch_size, max_batch_s=inf)


def _failed(name: str, error: BaseException) -> None:
    if not isinstance(error, BadRequest):  # which is its client's affair, and told there
        _log.error("a model step failed", model=name, exc_info=error)
