"""Whisper through the encoder service: to the letter what its two steps give one after the other."""

import asyncio
from pathlib import Path

import numpy as np
import pytest
import soundfile

from streamscribe.bootstrap.models import load_models
from streamscribe.core.batching import Priority
from streamscribe.core.options import Hotword
from streamscribe.models.ports import SegmentRequest
from streamscribe.settings import ModelSettings

pytestmark = [pytest.mark.models, pytest.mark.timeout(300)]


@pytest.fixture(scope="module")
def models(model_dir: Path):
    models = load_models(ModelSettings(dir=model_dir))
    models.start()
    models.wait_ready()
    yield models
    models.close()


@pytest.fixture(scope="module")
def requests(model_dir: Path) -> list[SegmentRequest]:
    """Real clips in two languages, one that is only noise, of which the model is not sure, and silence."""
    paths = sorted((model_dir / "demo-recordings").glob("*/*.wav"))
    clips = [soundfile.read(path, dtype="float32")[0] for path in paths]
    clips.append(np.random.default_rng(0).normal(0, 0.1, 24_000).astype(np.float32))
    clips.append(np.zeros(16_000, np.float32))
    return [
        SegmentRequest(clip, words=True, hotwords=(Hotword("ComfyUI"),) * (at % 2)) for at, clip in enumerate(clips)
    ]


async def recognised(models, requests):
    async def one(request):
        audio_s = len(request.samples) / 16_000
        return await models.recognition.current.stage.submit(request, priority=Priority.BULK, audio_s=audio_s)

    return await asyncio.gather(*map(one, requests))


def compared(hypothesis):
    return hypothesis.text, hypothesis.language, hypothesis.words


async def test_law_4_texts_with_the_service_are_those_without_it_also_from_the_cache(models, requests):
    encoder = models.recognition.current.stage.parts[0]
    cold = await recognised(models, [*requests, *requests])
    warm = await recognised(models, requests)
    alone = [compared(models.recognition.current.recognizer.recognize([request])[0]) for request in requests]
    assert [compared(hypothesis) for hypothesis in cold] == alone * 2
    assert [compared(hypothesis) for hypothesis in warm] == alone
    assert sum(bool(text) for text, *_ in alone) == len(requests) - 2
    assert encoder.batches


def test_the_encoder_and_the_language_model_are_parts_of_their_own(models):
    assert [part.name for part in models.replicas] == ["vad", "encoder", "language-model"]
    assert models.ready
    assert all(seconds > 0 for seconds in models.warmup_s.values())
