"""Between what recognisers take and give and what the log carries. All of it computes: not for an event loop."""

from hashlib import blake2b

import numpy as np

from streamscribe.core.batching import Priority
from streamscribe.core.errors import BadRequest
from streamscribe.core.fair_share import Share
from streamscribe.core.tokens import HypothesisWord
from streamscribe.models.ports import Hypothesis, Samples, SegmentRequest
from streamscribe.wire.final_requests import FinalHeard, FinalRequest, SampleFormat, decode_request

_SCALE = np.float32(2**15)
_FINGERPRINT_BYTES = 16


def question(
    request: SegmentRequest,
    *,
    priority: Priority,
    share: Share,
    asked_by: str,
    number: int,
    reply_to: int,
    patience_ms: int,
) -> FinalRequest:
    """The request for the log. Its frames are left out: who recognises makes equal ones of the samples."""
    if request.origin is None:
        raise AssertionError("what is asked of a finalizer is about a segment")
    sample_format, audio = _packed(request.samples)
    asked = repr((request.language, request.task.value, request.hotwords, request.words, request.itn, request.context))
    fingerprint = blake2b(audio, digest_size=_FINGERPRINT_BYTES)
    fingerprint.update(f"{sample_format}{asked}".encode())
    return FinalRequest(
        request.origin.session_id,
        request.origin.segment_id,
        request.origin.trace_id,
        asked_by,
        number,
        reply_to,
        patience_ms,
        fingerprint.hexdigest(),
        sample_format,
        audio,
        live=priority < Priority.BULK,
        weight=share.weight,
        tenant_id=request.tenant_id,
        language=request.language,
        task=request.task,
        hotwords=request.hotwords,
        words=request.words,
        itn=request.itn,
        store=request.store,
        context=request.context,
    )


def read_question(data: bytes) -> tuple[FinalRequest, SegmentRequest]:
    """The request of the log, and what a recogniser is asked. Raises BadRequest."""
    asked = decode_request(data)
    return asked, SegmentRequest(
        _unpacked(asked.sample_format, asked.audio),
        language=asked.language,
        task=asked.task,
        hotwords=asked.hotwords,
        words=asked.words,
        itn=asked.itn,
        tenant_id=asked.tenant_id,
        store=asked.store,
        context=asked.context,
    )


def heard_of(hypothesis: Hypothesis) -> FinalHeard:
    """What was heard, for the log: numbers as Python has them."""
    words = tuple(
        HypothesisWord(word.text, int(word.start), int(word.end), float(word.confidence)) for word in hypothesis.words
    )
    return FinalHeard(
        hypothesis.text,
        hypothesis.language,
        float(hypothesis.confidence),
        words,
        bool(hypothesis.punctuated),
        hypothesis.emotion,
        hypothesis.events,
    )


def hypothesis_of(heard: FinalHeard) -> Hypothesis:
    """What was heard, of the log."""
    return Hypothesis(
        heard.text,
        heard.language,
        heard.confidence,
        heard.words,
        heard.punctuated,
        heard.emotion,
        heard.events,
    )


def _packed(samples: Samples) -> tuple[SampleFormat, bytes]:
    """In 16 bits, where all samples come back equal: those of most clients."""
    scaled = samples * _SCALE
    with np.errstate(invalid="ignore"):  # beyond 16 bits: then the rounding shows it
        whole = np.clip(scaled, -_SCALE, _SCALE - 1).astype("<i2")
    if np.array_equal(whole.astype(np.float32), scaled):
        return SampleFormat.S16, whole.tobytes()
    return SampleFormat.F32, samples.astype("<f4", copy=False).tobytes()


def _unpacked(sample_format: SampleFormat, audio: bytes) -> Samples:
    if sample_format is SampleFormat.S16:
        return np.frombuffer(audio, "<i2").astype(np.float32) / _SCALE
    samples = np.frombuffer(audio, "<f4").astype(np.float32)
    if not np.isfinite(samples).all():
        raise BadRequest("the audio must be finite numbers", field="audio")
    return samples
