"""The stage of a recogniser that encodes apart: the encoder service, and its language model behind it."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from math import inf

from prometheus_client import CollectorRegistry

from streamscribe.bootstrap.caches import Caches
from streamscribe.core.audio import SAMPLE_RATE
from streamscribe.core.batching import BatchPolicy
from streamscribe.encoder.recognition import EncodedRecognition
from streamscribe.encoder.service import EncoderService
from streamscribe.models.ports import DecodeRequest, Embedding, EncoderDecoder
from streamscribe.models.replica import Replica, StepReport
from streamscribe.observe.encoder_metrics import EncoderMetrics


@dataclass(frozen=True, slots=True)
class Hooks:
    """Who hears of a model's steps and failures, and when a step hangs."""

    on_step: Callable[[StepReport], None]
    on_error: Callable[[str, BaseException], None]
    step_timeout_s: float


def encoded_recognition(
    engine: EncoderDecoder,
    *,
    weights: str,
    policy: BatchPolicy,
    caches: Caches,
    registry: CollectorRegistry,
    hooks: Hooks,
) -> EncodedRecognition:
    """The stage, with metrics in `registry`; runs the encoder a few times to see that it may batch.

    Its door keeps the bounds of `policy`; behind it no queue refuses anything.
    """
    inside = replace(policy, max_waiting_s=inf, max_inflight=2 * policy.max_inflight)
    metrics = EncoderMetrics(registry)
    metrics.cache_watched(caches.embeddings.stats)
    encoder = EncoderService(
        engine,
        weights=weights,
        fingerprints=caches.fingerprints,
        keys=caches.keys,
        cache=caches.embeddings,
        features=caches.features,
        observer=metrics,
        policy=inside,
        on_step=hooks.on_step,
        on_error=hooks.on_error,
        step_timeout_s=hooks.step_timeout_s,
    )
    language_model = Replica(
        "language-model",
        engine.decode,
        policy=inside,
        on_step=hooks.on_step,
        on_error=hooks.on_error,
        warm_up=[lambda: _warm_up(engine, encoder.sample)],
        step_timeout_s=hooks.step_timeout_s,
    )
    return EncodedRecognition(encoder, language_model, policy=policy)


def _warm_up(engine: EncoderDecoder, embedding: Embedding) -> None:
    engine.decode([DecodeRequest(embedding, SAMPLE_RATE, draft=True)])  # after a draft, a final is as quick as later
