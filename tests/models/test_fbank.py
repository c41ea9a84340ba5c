"""The shared front end: Kaldi's filter bank, whatever the cuts and whoever computes beside."""

import kaldi_native_fbank as knf
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streamscribe.models.fbank import MELS, Fbank
from streamscribe.models.ports import FRAME_SHIFT_SAMPLES, Samples, frame_count


def _kaldi(samples: Samples) -> np.ndarray:
    options = knf.FbankOptions()
    options.frame_opts.dither = 0
    options.frame_opts.window_type = "hamming"
    options.mel_opts.num_bins = MELS
    computer = knf.OnlineFbank(options)
    computer.accept_waveform(16_000, samples * np.float32(1 << 15))
    return np.stack([computer.get_frame(i) for i in range(computer.num_frames_ready)])


def _sounds() -> dict[str, Samples]:
    """Two seconds each of what loud and quiet, full and empty bands are made of."""
    random, time = np.random.default_rng(5), np.arange(32_000, dtype=np.float32) / 16_000
    hiss = random.normal(0, 1, len(time)).astype(np.float32)
    tone = np.sin(2 * np.pi * 440 * time, dtype=np.float32)
    return {
        "silence": np.zeros_like(hiss),
        "constant": np.full_like(hiss, 0.25),
        "hiss": 0.1 * hiss,
        "faint hiss": 1e-4 * hiss,
        "tone in hiss": 0.5 * tone + 0.001 * hiss,
        "clipped": np.clip(2 * hiss, -1, 1),
        "sound, then silence": np.where(time < 1, 0.3 * hiss, 0).astype(np.float32),
    }


@pytest.mark.parametrize("name", _sounds())
def test_frames_are_those_of_kaldi(name):
    samples = _sounds()[name]
    frames, expected = Fbank().frames(samples), _kaldi(samples)
    # In a band 60 dB below the frame's strongest, single precision itself is no better than 1e-3.
    strong = expected > expected.max(axis=1, keepdims=True) - np.log(1e6)
    np.testing.assert_allclose(frames[strong], expected[strong], rtol=0, atol=1e-4)
    np.testing.assert_allclose(frames, expected, rtol=0, atol=1e-3)


def test_audio_shorter_than_a_frame_has_no_frames():
    for length in (0, 1, 399):
        assert Fbank().step(np.ones((2, length), np.float32)).shape == (2, 0, MELS)


@given(
    cuts=st.lists(st.integers(0, 4000), min_size=1, max_size=12),
    mates=st.integers(0, 30),
    seed=st.integers(0, 9),
)
@settings(max_examples=60)
def test_law_4_cuts_and_mates_change_no_bit(cuts, mates, seed):
    random = np.random.default_rng(seed)
    samples = random.normal(0, 0.1, sum(cuts)).astype(np.float32)
    fbank, rest, told = Fbank(), samples[:0], []
    for block in np.split(samples, np.cumsum(cuts)[:-1]):
        wave = np.concatenate((rest, block))
        beside = random.normal(0, 0.3, (mates, len(wave))).astype(np.float32)
        frames = fbank.step(np.concatenate((beside, wave[np.newaxis])))[-1]
        rest = wave[len(frames) * FRAME_SHIFT_SAMPLES :]
        told.append(frames)
    together = np.concatenate(told)
    assert len(together) == frame_count(len(samples))
    assert np.array_equal(together, fbank.frames(samples))
