"""Fun-ASR-Nano behind the encoder service: the same texts, and embeddings that do not know their batch."""

import asyncio

import numpy as np
import pytest

from streamscribe.core.audio import to_samples
from streamscribe.core.batching import Priority
from streamscribe.core.errors import BadRequest, ModelUnavailable
from streamscribe.core.options import Hotword
from streamscribe.encoder.encoding import Lookup
from streamscribe.models.fbank import Fbank
from streamscribe.models.ports import SegmentRequest
from streamscribe.settings import ModelSettings


@pytest.fixture(scope="module")
def models():
    from streamscribe.bootstrap.models import load_models

    models = load_models(ModelSettings.model_validate({"profile": "tiny", "second_pass": "nano"}))
    models.start()
    models.wait_ready()
    yield models
    models.close()


@pytest.fixture
def requests(speech) -> list[SegmentRequest]:
    clips = [speech(seed, to_samples(300 + 450 * seed)) for seed in range(8)]
    asked = [SegmentRequest(clip, hotwords=(Hotword("一二三"),) * (at % 2)) for at, clip in enumerate(clips)]
    asked.append(SegmentRequest(clips[3], frames=Fbank().frames(clips[3])))
    return [*asked, SegmentRequest(np.zeros(to_samples(900), np.float32)), SegmentRequest(clips[0][:399])]


async def submit(models, request):
    audio_s = len(request.samples) / 16_000
    return await models.recognition.current.stage.submit(request, priority=Priority.BULK, audio_s=audio_s)


async def test_law_4_texts_with_the_service_are_those_without_it_also_from_the_cache(models, requests):
    cold = await asyncio.gather(*(submit(models, request) for request in [*requests, *requests]))
    warm = await asyncio.gather(*(submit(models, request) for request in requests))
    alone = [models.recognition.current.recognizer.recognize([request])[0].text for request in requests]
    assert [heard.text for heard in cold] == alone * 2
    assert [heard.text for heard in warm] == alone
    assert len(set(alone)) > 3


async def test_embeddings_are_those_of_single_segments_to_rounding(models, speech):
    encoder, engine = models.recognition.current.stage.parts[0], models.recognition.current.recognizer.engine
    assert encoder.batches
    clips = [speech(100 + seed, to_samples(200 + 900 * seed)) for seed in range(8)]
    encodings = await asyncio.gather(*(encoder.encode(SegmentRequest(clip), priority=Priority.BULK) for clip in clips))
    for clip, encoding in zip(clips, encodings, strict=True):
        [alone] = engine.encode([engine.features(clip)])
        assert encoding.lookup is Lookup.MISS
        assert np.abs(encoding.embedding - alone).max() <= 1e-5
        assert len(encoding.embedding) == engine.num_tokens(len(clip)) == encoding.num_audio_tokens


async def test_law_8_a_broken_clip_fails_alone(models, requests):
    broken = requests[2].samples.copy()
    broken[100] = np.inf
    asked = [*requests[:4], SegmentRequest(broken)]
    *heard, failure = await asyncio.gather(*(submit(models, request) for request in asked), return_exceptions=True)
    assert isinstance(failure, BadRequest)
    assert [one.text for one in heard] == [
        one.text for one in models.recognition.current.recognizer.recognize(requests[:4])
    ]


async def test_a_step_of_the_language_model_that_fails_costs_no_more_than_what_was_in_it(models, requests):
    head, failures = models.recognition.current.recognizer.engine.parts.language_model.lm_head, ["gone"]

    def fail_once(_module, _inputs) -> None:
        if failures:
            raise RuntimeError(failures.pop())

    handle = head.register_forward_pre_hook(fail_once)
    try:
        with pytest.raises(ModelUnavailable) as lost:
            await submit(models, requests[0])
        assert lost.value.retry_after_s
        alone = models.recognition.current.recognizer.recognize([requests[0]])[0].text
        assert (await submit(models, requests[0])).text == alone
        assert models.ready
    finally:
        handle.remove()


async def test_segments_of_sessions_are_encoded_whole_by_the_frames_that_the_platform_has(speech):
    from streamscribe.bench.recordings import recordings
    from streamscribe.bootstrap.models import load_models
    from streamscribe.core.options import Mode, SessionOptions
    from tests.worker.kit import rig, silence

    models = load_models(ModelSettings.model_validate({"profile": "tiny", "second_pass": "nano"}))
    audio = silence(137) + b"".join(one.samples.astype(np.int16).tobytes() + silence(900) for one in recordings()[:3])
    async with rig(models) as running:
        finals = await running.transcribe("s", audio, SessionOptions(mode=Mode.OFFLINE), sizes=1234)
    assert len(finals) >= 3


def test_an_encoder_that_takes_company_amiss_encodes_one_by_one_and_serves(monkeypatch, capsys):
    from streamscribe.bootstrap.models import load_models
    from streamscribe.models.funasr_torch.nano import FunAsrNano

    encode = FunAsrNano._encode

    def worse_in_company(self, batch):
        rows, lengths = encode(self, batch)
        return (rows if len(batch) == 1 else 1.01 * rows), lengths

    monkeypatch.setattr(FunAsrNano, "_encode", worse_in_company)
    models = load_models(ModelSettings.model_validate({"profile": "tiny", "second_pass": "nano"}))
    assert not models.recognition.current.stage.parts[0].batches
    assert "batching is off" in capsys.readouterr().out
    models.close()
