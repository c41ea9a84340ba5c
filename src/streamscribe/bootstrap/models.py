"""The models of a profile, each with a thread of its own."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from math import inf
from typing import TypeVar

import numpy as np
from prometheus_client import CollectorRegistry

from streamscribe.bootstrap.caches import Caches, open_caches
from streamscribe.bootstrap.engines import engines_of, recognizer_id, writes_continuously
from streamscribe.bootstrap.recognition import Hooks, encoded_recognition
from streamscribe.bootstrap.weights import weights_digest
from streamscribe.core.audio import SAMPLE_RATE, to_samples
from streamscribe.core.batching import BatchPolicy
from streamscribe.core.errors import BadRequest
from streamscribe.models.encoder_decoder import EncoderDecoderRecognizer
from streamscribe.models.fbank import MELS
from streamscribe.models.pool import FirstPass, Models, Punctuation
from streamscribe.models.ports import (
    FRAME_SHIFT_SAMPLES,
    ChunkRequest,
    Hypothesis,
    Punctuator,
    Samples,
    SegmentRecognizer,
    SegmentRequest,
    StreamingRecognizer,
    VadOptions,
    VadRequest,
    VoiceActivityDetector,
)
from streamscribe.models.replica import Replica, StepReport
from streamscribe.models.stage import Stage
from streamscribe.observe.logs import get_logger
from streamscribe.settings import CacheSettings, ModelSettings

VAD_WAIT_MS = 20.0
"""How long a step of voice activity detection waits for others to join, whatever `batch_wait_ms` is: all other steps
come after it, so the wait is to be short, and of its cost most is the same for one block and for many. With 100
streams, 20 ms take a fifth of the cores less than 5 ms do. A session alone does not wait."""

_SEED = 0
_NOISE_RMS = 0.1
"""-20 dBFS: as loud as speech, so that no guard takes it for silence."""
_WARM_UP_TEXT = "好的"
"""A text whose characters every punctuation model knows."""

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
    """Loads the profile's engines and gives each its thread; `start` and `wait_ready` come next. Blocks.

    What an encoder made is kept in `caches`, by default in some of its own, and counted in `registry`.

    Raises ModelUnavailable where a model is not installed or its files have changed.
    """
    engines = engines_of(settings)
    segments = BatchPolicy(
        max_batch_size=settings.max_batch_size,
        max_batch_s=settings.max_batch_s,
        wait_ms=settings.batch_wait_ms,
        max_waiting_s=settings.max_waiting_s,
        max_inflight=settings.max_inflight,
    )
    chunks = replace(segments, max_batch_size=settings.max_chunk_batch_size, max_batch_s=inf)
    blocks = replace(chunks, wait_ms=VAD_WAIT_MS)

    def replica(
        name: str, step: Callable[[Sequence[Req]], Sequence[Res]], policy: BatchPolicy, warm_up: Callable[[], object]
    ) -> Replica[Req, Res]:
        return Replica(
            name,
            step,
            policy=policy,
            on_step=on_step,
            on_error=_failed,
            warm_up=[warm_up],
            step_timeout_s=settings.step_timeout_s,
        )

    def recognition(recognizer: SegmentRecognizer) -> Stage[SegmentRequest, Hypothesis]:
        if not isinstance(recognizer, EncoderDecoderRecognizer):
            return replica("recognizer", recognizer.recognize, segments, lambda: _warm_recognizer(recognizer))
        return encoded_recognition(
            recognizer.engine,
            weights=weights_digest(settings, recognizer_id(settings)),
            policy=segments,
            caches=caches or open_caches(CacheSettings()),
            registry=registry or CollectorRegistry(),
            hooks=Hooks(on_step, _failed, settings.step_timeout_s),
            continuous=writes_continuously(settings),
        )

    vad, recognizer, streaming, punctuator = engines.vad, engines.recognizer, engines.streaming, engines.punctuator
    return Models(
        vad=vad,
        vad_replica=replica("vad", vad.step, blocks, lambda: _warm_vad(vad)),
        recognizer=recognizer,
        recognizer_replica=recognition(recognizer),
        first_pass=None
        if streaming is None
        else FirstPass(streaming, replica("first-pass", streaming.step, chunks, lambda: _warm_streaming(streaming))),
        punctuation=None
        if punctuator is None
        else Punctuation(
            punctuator, replica("punctuation", punctuator.punctuate, segments, lambda: _warm_punctuator(punctuator))
        ),
    )


def warm_up_audio() -> Samples:
    """A second of noise: no engine decodes silence, and what the warm-up does not run, the first client waits for."""
    return np.random.default_rng(_SEED).normal(0, _NOISE_RMS, SAMPLE_RATE).astype(np.float32)


def _warm_vad(vad: VoiceActivityDetector) -> None:
    vad.step([VadRequest(vad.open(VadOptions()), warm_up_audio()[: vad.block_samples], last=True)])


def _warm_recognizer(recognizer: SegmentRecognizer) -> None:
    recognizer.recognize([SegmentRequest(warm_up_audio(), draft=True)])  # after a draft, a final is as quick as later


def _warm_streaming(streaming: StreamingRecognizer) -> None:
    """A whole chunk and a last one, of each length that sessions may ask for."""
    for chunk_ms in streaming.chunk_choices_ms:
        state = streaming.open(chunk_ms)
        count = to_samples(chunk_ms) // FRAME_SHIFT_SAMPLES
        frames = np.random.default_rng(_SEED).normal(0, 1, (count, MELS)).astype(np.float32)
        streaming.step([ChunkRequest(state, frames)])
        streaming.step([ChunkRequest(state, frames[: count // 2], last=True)])


def _warm_punctuator(punctuator: Punctuator) -> None:
    punctuator.punctuate([_WARM_UP_TEXT])


def _failed(name: str, error: BaseException) -> None:
    if not isinstance(error, BadRequest):  # which is its client's affair, and told there
        _log.error("a model step failed", model=name, exc_info=error)
