"""The batched streaming Paraformer against FunASR's own streaming, one session at a time."""

import math
import struct
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from streamscribe.core.errors import BadRequest, ModelUnavailable
from streamscribe.core.tokens import Token
from streamscribe.models.fbank import Fbank
from streamscribe.models.ports import ChunkRequest

from .conftest import files_of

CHUNKS_MS = (300, 600, 1200)
FRAME, SHIFT = 400, 160


@pytest.fixture(scope="module")
def engine(talkative_directory):
    from streamscribe.models.funasr_torch.streaming import TorchStreamingParaformer

    return TorchStreamingParaformer(files_of(talkative_directory), device="cpu", threads=1)


@pytest.fixture(scope="module")
def funasr(talkative_directory, load_auto_model) -> "FunAsrStreaming":
    return FunAsrStreaming(load_auto_model(talkative_directory))


class FunAsrStreaming:
    """`AutoModel.generate` in streaming mode; it tells text only, so tokens are read where it decodes them."""

    def __init__(self, auto_model: Any) -> None:
        self._auto_model = auto_model
        model = auto_model.model
        self._tokens = auto_model.kwargs["tokenizer"].token_list
        self._silent = {model.blank_id, model.sos, model.eos, self._tokens.index("<unk>")}
        self._decoded: list[tuple[int, float]] = []
        decode = model.cal_decoder_with_predictor_chunk

        def listen(*args: Any, **kwargs: Any) -> Any:
            result = decode(*args, **kwargs)
            best, ids = result[0][0].max(dim=-1)
            self._decoded += zip(ids.tolist(), best.tolist(), strict=True)
            return result

        model.cal_decoder_with_predictor_chunk = listen

    def hear(self, samples: Any, chunk_ms: int, packet: int = 7777) -> list[tuple[str, float]]:
        """Tokens and their probabilities."""
        self._decoded.clear()
        cache: dict[str, Any] = {}
        for start in range(0, len(samples), packet):
            self._auto_model.generate(
                input=samples[start : start + packet],
                cache=cache,
                is_final=start + packet >= len(samples),
                chunk_size=[0, chunk_ms // 60, 5],
                encoder_chunk_look_back=4,
                decoder_chunk_look_back=1,
                disable_pbar=True,
            )
        return [(self._tokens[id], math.exp(best)) for id, best in self._decoded if id not in self._silent]


def samples_for(frames: int) -> int:
    """The most samples that have so many frames: FunASR then takes its tail chunk for below four last frames."""
    return SHIFT * frames + FRAME - 1


def funasrs_frames(samples: Any) -> Any:
    """What FunASR's own front end reads. Quiet bands differ from ours by more than its network forgives."""
    import torch
    from funasr.frontends.wav_frontend import kaldi

    wave = torch.from_numpy(samples)[None] * (1 << 15)
    return kaldi.fbank(wave, num_mel_bins=80, dither=0.0, energy_floor=0.0, window_type="hamming").numpy()


def requests(frames: Any, chunk_ms: int) -> list[tuple[Any, bool]]:
    """The chunks of a stream, and whether each is the last."""
    size = chunk_ms // 10
    starts = range(0, max(1, len(frames)), size)
    return [(frames[start : start + size], start + size >= len(frames)) for start in starts]


def hear(engine: Any, frames: Any, chunk_ms: int) -> list[Token]:
    """All tokens of one stream, alone."""
    state = engine.open(chunk_ms)
    found: list[Token] = []
    for chunk, last in requests(frames, chunk_ms):
        found += engine.step([ChunkRequest(state, chunk, last)])[0]
    return found


def texts(tokens: list[Token]) -> list[str]:
    return [token.text for token in tokens]


@dataclass
class Stream:
    """A stream that joins at a turn and is fed one chunk in each turn from then on."""

    joins: int
    frames: Any
    expected: list[Token]
    state: Any = None
    found: list[Token] | None = None


def together(engine: Any, streams: list[Stream], chunk_ms: int) -> None:
    """Feeds all, each turn's chunks in one step."""
    queues = [requests(stream.frames, chunk_ms) for stream in streams]
    for stream in streams:
        stream.state, stream.found = engine.open(chunk_ms), []
    for turn in range(max(stream.joins + len(queue) for stream, queue in zip(streams, queues, strict=True))):
        here = [
            (stream, queue[turn - stream.joins])
            for stream, queue in zip(streams, queues, strict=True)
            if 0 <= turn - stream.joins < len(queue)
        ]
        batch = [ChunkRequest(stream.state, *chunk) for stream, chunk in here]
        assert len({engine.group(request) for request in batch}) <= 1
        for (stream, _), tokens in zip(here, engine.step(batch), strict=True):
            stream.found += tokens


def assert_equal(found: list[Token], expected: list[Token]) -> None:
    assert texts(found) == texts(expected)
    for one, other in zip(found, expected, strict=True):
        assert abs(one.confidence - other.confidence) < 1e-4
        assert abs(one.start - other.start) <= 1
        assert abs(one.end - other.end) <= 1


@pytest.mark.parametrize("chunk_ms", CHUNKS_MS)
def test_a_stream_has_the_tokens_and_scores_of_funasr_whatever_is_left_for_its_last_chunk(
    engine, funasr, speech, chunk_ms
):
    whole = chunk_ms // 10
    heard = 0
    for last in (0, 1, 3, 4, 7, whole // 2, whole - 3, whole - 2, whole - 1):
        for chunks in (0 if last else 1, 2, 6):
            samples = speech(last + chunks, samples_for(chunks * whole + last))
            expected = funasr.hear(samples, chunk_ms)
            for frames in (Fbank().frames(samples), funasrs_frames(samples)):
                found = hear(engine, frames, chunk_ms)
                assert texts(found) == [text for text, _ in expected], (chunks, last)
            # Scores are compared where the frames are the same.
            for token, (_, probability) in zip(found, expected, strict=True):
                assert abs(token.confidence - probability) < 1e-4
            heard += len(found)
    assert heard > 100


@pytest.mark.parametrize("chunk_ms", CHUNKS_MS)
def test_a_whole_last_chunk_is_a_chunk_and_funasrs_tail(engine, funasr, speech, chunk_ms):
    for chunks in (1, 3):
        samples = speech(chunks, samples_for(chunks * chunk_ms // 10))
        expected = funasr.hear(samples, chunk_ms)
        assert texts(hear(engine, Fbank().frames(samples), chunk_ms)) == [text for text, _ in expected]


@pytest.mark.parametrize("chunk_ms", CHUNKS_MS)
@pytest.mark.parametrize("count", [1, 2, 5, 16])
def test_law_4_streams_of_unequal_age_that_join_and_leave_hear_in_one_step_what_they_hear_alone(
    engine, speech, count, chunk_ms
):
    streams = []
    for index in range(count):
        frames = Fbank().frames(speech(100 + index, samples_for(237 + 61 * (index % 7) + chunk_ms // 10 * (index % 3))))
        streams.append(Stream(joins=(3 * index) % 8, frames=frames, expected=hear(engine, frames, chunk_ms)))
    together(engine, streams, chunk_ms)
    for stream in streams:
        assert_equal(stream.found, stream.expected)
    assert sum(len(stream.expected) for stream in streams) > 4 * count


def test_sixteen_streams_in_one_step_hear_what_funasr_hears_one_by_one(engine, funasr, speech):
    streams, expected = [], []
    for index in range(16):
        samples = speech(200 + index, samples_for(250 + 23 * index))
        expected.append([text for text, _ in funasr.hear(samples, 600)])
        streams.append(Stream(joins=index % 5, frames=Fbank().frames(samples), expected=[]))
    together(engine, streams, 600)
    assert [texts(stream.found) for stream in streams] == expected


def test_law_5_token_times_follow_each_other_within_the_stream(engine, speech):
    samples = speech(1, 16_000 * 12)
    tokens = hear(engine, Fbank().frames(samples), 600)
    assert len(tokens) > 20
    until = 0
    for token in tokens:
        assert until <= token.start <= token.end <= len(samples)
        assert 0 < token.confidence <= 1
        until = token.end


@pytest.mark.parametrize("chunk_ms", CHUNKS_MS)
def test_a_restored_state_goes_on_as_the_dumped_one(engine, speech, chunk_ms):
    frames = Fbank().frames(speech(2, samples_for(chunk_ms // 10 * 9 + 20)))
    expected = hear(engine, frames, chunk_ms)
    state, found = engine.open(chunk_ms), []
    for chunk, last in requests(frames, chunk_ms):
        state = engine.restore(engine.dump(state))
        found += engine.step([ChunkRequest(state, chunk, last)])[0]
    assert found == expected


def test_law_7_a_state_has_one_size_whatever_its_age(engine, speech):
    frames = Fbank().frames(speech(3, 16_000 * 40))
    state = engine.open(600)
    size, dumped = engine.state_bytes(state), len(engine.dump(state))
    for chunk, last in requests(frames, 600)[:-1]:
        engine.step([ChunkRequest(state, chunk, last)])
    assert (engine.state_bytes(state), len(engine.dump(state))) == (size, dumped)
    assert dumped - 64 < size <= dumped


def test_bytes_that_are_no_state_of_this_model_are_refused(engine):
    good = engine.dump(engine.open(600))
    for bad in (b"", b"SPT1", good[:-1], good + b"\0", b"x" + good[1:], good[:4] + struct.pack("<H", 7) + good[6:]):
        with pytest.raises(BadRequest):
            engine.restore(bad)


def test_law_8_a_step_that_raises_has_changed_no_state(engine, speech):
    frames = Fbank().frames(speech(4, samples_for(333)))
    expected = hear(engine, frames, 600)
    state, guilty, found = engine.open(600), engine.open(600), []
    for chunk, last in requests(frames, 600):
        for wrong in (chunk[:, :79], chunk[:3] if not last else np.zeros((61, 80), np.float32)):
            with pytest.raises(BadRequest):
                engine.step([ChunkRequest(state, chunk, last), ChunkRequest(guilty, wrong, last)])
        found += engine.step([ChunkRequest(state, chunk, last)])[0]
    assert found == expected


def test_a_chunk_length_that_is_not_offered_is_refused(engine):
    with pytest.raises(BadRequest, match="chunk_ms"):
        engine.open(480)


def test_a_stream_without_a_frame_has_no_tokens(engine):
    assert hear(engine, np.zeros((0, 80), np.float32), 600) == []


def test_an_empty_batch_is_nothing(engine):
    assert engine.step([]) == []


def test_weights_that_hold_more_than_tensors_or_do_not_fit_are_refused(talkative_directory, tmp_path):
    import torch

    from streamscribe.models.funasr_torch.streaming import TorchStreamingParaformer

    files = dict(files_of(talkative_directory))
    weights = torch.load(files["model.pt"], weights_only=True)
    files["model.pt"] = tmp_path / "model.pt"
    for bad in ({**weights, "code": print}, dict(list(weights.items())[1:]), [1], torch.zeros(3)):
        torch.save(bad, files["model.pt"])
        with pytest.raises(ModelUnavailable):
            TorchStreamingParaformer(files)
    files["model.pt"].write_bytes(b"no weights")
    with pytest.raises(ModelUnavailable):
        TorchStreamingParaformer(files)


def test_a_device_that_is_not_there_is_told(talkative_directory):
    from streamscribe.models.funasr_torch.streaming import TorchStreamingParaformer

    with pytest.raises(ModelUnavailable, match="device"):
        TorchStreamingParaformer(files_of(talkative_directory), device="cuda:99")
