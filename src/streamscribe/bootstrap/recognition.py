"""The stage of a recogniser that encodes apart: the encoder service, and its language model behind it."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from math import inf
from typing import cast

from streamscribe.bootstrap.caches import Caches
from streamscribe.core.batching import BatchPolicy
from streamscribe.encoder.recognition import EncodedRecognition, LanguageModelStage
from streamscribe.encoder.service import EncoderService
from streamscribe.models.ports import Embedding, EncoderDecoder
from streamscribe.models.replica import Replica, StepReport
from streamscribe.models.warm_up import decoder_runs
from streamscribe.observe.encoder_metrics import EncoderMetrics

_LANGUAGE_MODEL = "language-model"


@dataclass(frozen=True, slots=True)
class Hooks:
    """Who hears of a model's steps failures and ejections, when a step hangs, and how many may fail."""

    on_step: Callable[[StepReport], None]
    on_error: Callable[[str, BaseException], None]
    on_ejected: Callable[[str, str], None]
    step_timeout_s: float
    max_failures: int


def encoded_recognition(
    engine: EncoderDecoder,
    *,
    weights: str,
    policy: BatchPolicy,
    caches: Caches,
    metrics: EncoderMetrics,
    hooks: Hooks,
    continuous: bool,
) -> EncodedRecognition:
    """The stage, which tells `metrics` what it does; runs the encoder a few times to see that it may batch.

    `continuous` says that the engine is Fun-ASR-Nano, whose language model takes in requests while it writes others.
    Its door keeps the bounds of `policy`; behind it no queue refuses anything.
    """
    inside = replace(policy, max_waiting_s=inf, max_inflight=2 * policy.max_inflight)
    encoder = EncoderService(
        engine,
        weights=weights,
        fingerprints=caches.fingerprints,
        keys=caches.keys,
        cache=caches.embeddings,
        features=caches.features,
        purges=caches.purges,
        observer=metrics,
        policy=inside,
        on_step=hooks.on_step,
        on_error=hooks.on_error,
        step_timeout_s=hooks.step_timeout_s,
        max_failures=hooks.max_failures,
        on_ejected=hooks.on_ejected,
    )
    language_model = (
        _continuous(engine, inside, hooks) if continuous else _in_steps(engine, inside, hooks, encoder.sample)
    )
    return EncodedRecognition(encoder, language_model, policy=policy)


def _in_steps(engine: EncoderDecoder, policy: BatchPolicy, hooks: Hooks, sample: Embedding) -> LanguageModelStage:
    """Steps in order of arrival: to the decoder all segments are as long as its window, and to look for those of like
    length only lets others wait longer."""
    return Replica(
        _LANGUAGE_MODEL,
        engine.decode,
        policy=replace(policy, max_batch_s=inf),
        on_step=hooks.on_step,
        on_error=hooks.on_error,
        warm_up=decoder_runs(engine, sample),
        step_timeout_s=hooks.step_timeout_s,
        max_failures=hooks.max_failures,
        on_ejected=hooks.on_ejected,
    )


def _continuous(engine: EncoderDecoder, policy: BatchPolicy, hooks: Hooks) -> LanguageModelStage:
    from streamscribe.models.funasr_torch.continuous import ContinuousDecoder
    from streamscribe.models.funasr_torch.generation_loop import Capacity
    from streamscribe.models.funasr_torch.nano import FunAsrNano

    return ContinuousDecoder(
        _LANGUAGE_MODEL,
        cast(FunAsrNano, engine).parts,
        policy=policy,
        capacity=Capacity.of(policy.max_batch_size),
        on_step=hooks.on_step,
        on_error=hooks.on_error,
        step_timeout_s=hooks.step_timeout_s,
        max_failures=hooks.max_failures,
        on_ejected=hooks.on_ejected,
    )
