"""What is run before a model is ready: the shapes that clients will ask for, so that none of them waits for the first.

Each engine gets short and long inputs, alone and in a full step: it allocates, plans and touches its weights then.
Nothing of it is cached or counted, for the runs go to the engine and not through its queue. The first run of each list
is the cheapest; it also tells whether an engine that has failed works again.
"""

from collections.abc import Callable, Sequence
from functools import partial

import numpy as np

from streamscribe.core.audio import SAMPLE_RATE, to_samples
from streamscribe.core.batching import BatchPolicy
from streamscribe.models.embedding import checked
from streamscribe.models.fbank import MELS
from streamscribe.models.ports import (
    FRAME_SHIFT_SAMPLES,
    AudioEncoder,
    ChunkRequest,
    DecodeRequest,
    Embedding,
    EncoderDecoder,
    Frames,
    Punctuator,
    Samples,
    SegmentRecognizer,
    SegmentRequest,
    StreamingRecognizer,
    VadOptions,
    VadRequest,
    VoiceActivityDetector,
)

Run = Callable[[], object]

SHORT = SAMPLE_RATE
LONGEST = 30 * SAMPLE_RATE
"""No segment is longer, whatever the recording: it is cut before."""

_SEED = 0
_NOISE_RMS = 0.1
"""-20 dBFS: as loud as speech, so that no guard takes it for silence, which no engine decodes."""
_TEXTS = ("好的", "好的" * 40)
"""Characters that every punctuation model knows: a short answer, and what is said in half a minute."""


def shapes(policy: BatchPolicy, max_samples: int) -> list[tuple[int, int]]:
    """Samples of a segment and segments in a step: a second alone and in a full step, and the longest.

    As measured, an engine's first step takes twice as long as its next ones and that of the longest segment up to 1.4
    times; a first full step costs a tenth more on a processor, and on a GPU plans of its own. A full step of the
    longest gains nothing then.
    """
    full = int(min(policy.max_batch_size, policy.max_batch_s * SAMPLE_RATE / SHORT))
    return [*((SHORT, count) for count in sorted({1, max(1, full)})), (min(LONGEST, max_samples), 1)]


def recognizer_runs(recognizer: SegmentRecognizer, policy: BatchPolicy) -> Sequence[Run]:
    """Of a recogniser of one step."""
    return [partial(_recognise, recognizer, *shape) for shape in shapes(policy, recognizer.max_samples)]


def encoder_runs(encoder: AudioEncoder, policy: BatchPolicy) -> Sequence[Run]:
    """Of the first half of one that encodes apart."""
    return [partial(_encode, encoder, *shape) for shape in shapes(policy, encoder.max_samples)]


def decoder_runs(engine: EncoderDecoder, sample: Embedding) -> Sequence[Run]:
    """Of the second half, a second and the longest; `sample` is the embedding of a second.

    No full step: what is written of noise is long, and more of it is dear.
    """
    return [partial(_decode, engine, sample, samples) for samples in (SHORT, min(LONGEST, engine.max_samples))]


def vad_runs(vad: VoiceActivityDetector, policy: BatchPolicy) -> Sequence[Run]:
    """Of voice activity detection: a block of one stream, and of as many as share a step."""
    return [partial(_hear, vad, count) for count in sorted({1, policy.max_batch_size})]


def streaming_runs(recognizer: StreamingRecognizer, policy: BatchPolicy) -> Sequence[Run]:
    """Of a first pass: each length of chunk that sessions may ask for, and the shortest of as many as share a step."""
    lengths = recognizer.chunk_choices_ms
    return [
        *(partial(_stream, recognizer, chunk_ms, 1) for chunk_ms in lengths),
        partial(_stream, recognizer, lengths[0], policy.max_batch_size),
    ]


def punctuator_runs(punctuator: Punctuator) -> Sequence[Run]:
    """Of punctuation: a short text and a long one."""
    return [partial(punctuator.punctuate, [text]) for text in _TEXTS]


def noise(samples: int) -> Samples:
    """What no engine takes for silence."""
    return np.random.default_rng(_SEED).normal(0, _NOISE_RMS, samples).astype(np.float32)


def _recognise(recognizer: SegmentRecognizer, samples: int, count: int) -> None:
    """As drafts, which are cheaper: after one a final is as quick as later."""
    recognizer.recognize([SegmentRequest(noise(samples), draft=True)] * count)


def _encode(encoder: AudioEncoder, samples: int, count: int) -> None:
    """A run whose outputs are no embeddings has failed: an encoder that gives no numbers raises nothing by itself."""
    rows = encoder.num_tokens(samples)
    for given in encoder.encode([encoder.features(noise(samples))] * count):
        checked(given, rows, encoder.width)


def _decode(engine: EncoderDecoder, sample: Embedding, samples: int) -> None:
    embedding = np.resize(sample, (engine.num_tokens(samples), engine.width))
    engine.decode([DecodeRequest(embedding, samples, draft=True)])


def _hear(vad: VoiceActivityDetector, count: int) -> None:
    block = noise(vad.block_samples)
    vad.step([VadRequest(vad.open(VadOptions()), block, last=True) for _ in range(count)])


def _stream(recognizer: StreamingRecognizer, chunk_ms: int, count: int) -> None:
    """A whole chunk and a last one of each stream."""
    states = [recognizer.open(chunk_ms) for _ in range(count)]
    frames = _frames(to_samples(chunk_ms) // FRAME_SHIFT_SAMPLES)
    recognizer.step([ChunkRequest(state, frames) for state in states])
    recognizer.step([ChunkRequest(state, frames[: len(frames) // 2], last=True) for state in states])


def _frames(count: int) -> Frames:
    return np.random.default_rng(_SEED).normal(0, 1, (count, MELS)).astype(np.float32)
