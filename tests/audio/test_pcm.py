"""PCM intake: packets never change the samples, and every encoding means what its standard says."""

import itertools

import av
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streamscribe.audio.g711 import ALAW, MULAW
from streamscribe.audio.pcm import PcmReader, begin_before, bytes_before
from streamscribe.core.audio import AudioFormat, Encoding

RATES = (8_000, 11_025, 16_000, 22_050, 44_100, 48_000)


def everything(reader: PcmReader, packets: list[bytes]) -> list[np.ndarray]:
    parts = [reader.read(packet) for packet in packets] + [reader.flush()]
    return [np.concatenate(channel) for channel in zip(*parts, strict=True)]


def noise(audio: AudioFormat, seconds: float, seed: int) -> bytes:
    size = int(audio.sample_rate * seconds) * audio.channels * audio.encoding.sample_bytes
    return np.random.default_rng(seed).bytes(size)


def cut(data: bytes, sizes: list[int]) -> list[bytes]:
    packets, at = [], 0
    for size in itertools.cycle(sizes):
        if at >= len(data):
            return packets
        packets.append(data[at : at + size])
        at += size
    return packets


formats = st.builds(
    AudioFormat,
    encoding=st.sampled_from(Encoding),
    sample_rate=st.sampled_from(RATES),
    channels=st.sampled_from((1, 2)),
)


@settings(max_examples=60)
@given(audio=formats, seed=st.integers(0, 2**32), sizes=st.lists(st.integers(1, 9_000), min_size=1, max_size=8))
def test_law_4_packet_sizes_change_no_sample(audio: AudioFormat, seed: int, sizes: list[int]) -> None:
    data = noise(audio, 0.4, seed)
    whole = everything(PcmReader(audio), [data])
    parts = everything(PcmReader(audio), cut(data, sizes))
    assert len(whole) == audio.channels
    for one, other in zip(whole, parts, strict=True):
        assert one.dtype == np.float32
        assert np.array_equal(one, other)


@settings(max_examples=40)
@given(audio=formats, seed=st.integers(0, 2**32))
def test_every_sample_is_finite_and_within_full_scale(audio: AudioFormat, seed: int) -> None:
    for channel in everything(PcmReader(audio), [noise(audio, 0.2, seed)]):
        assert np.isfinite(channel).all()
        assert np.abs(channel).max() <= 1.0


@pytest.mark.parametrize("rate", RATES)
def test_a_second_of_audio_is_sixteen_thousand_samples(rate: int) -> None:
    (samples,) = everything(PcmReader(AudioFormat(sample_rate=rate)), [bytes(2 * rate)])
    assert abs(len(samples) - 16_000) <= 1


@pytest.mark.parametrize("rate", [8_000, 44_100, 48_000])
def test_resampling_keeps_a_tone_where_it_was(rate: int) -> None:
    tone = np.sin(2 * np.pi * 440 * np.arange(rate) / rate)
    (samples,) = everything(PcmReader(AudioFormat(sample_rate=rate)), [(tone * 16_384).astype("<i2").tobytes()])
    expected = 0.5 * np.sin(2 * np.pi * 440 * np.arange(16_000) / 16_000)
    assert np.abs(samples[800:15_200] - expected[800:15_200]).max() < 1e-3


rates = st.one_of(st.sampled_from(RATES), st.integers(8_000, 48_000))


@settings(max_examples=40, deadline=None)
@given(rate=rates, channels=st.sampled_from((1, 2)), at=st.integers(0, 30_000), seed=st.integers(0, 99))
def test_law_4_a_reader_that_begins_in_the_middle_gives_the_same_samples_at_the_same_bytes(
    rate: int, channels: int, at: int, seed: int
) -> None:
    audio = AudioFormat(sample_rate=rate, channels=channels)
    data = noise(audio, 3, seed)
    start = begin_before(audio, at)
    first = bytes_before(audio, start)
    assert start % 160 == 0
    assert at - 16_000 - 1600 <= start <= at
    whole, middle = PcmReader(audio), PcmReader(audio, start)
    heard = len(whole.read(data[:first])[0])
    samples = [np.zeros(heard, np.float32)]
    again = [np.zeros(start, np.float32)]
    for packet in cut(data[first:], [777, 2000, 9001]):
        samples.append(whole.read(packet)[0])
        again.append(middle.read(packet)[0])
        assert sum(map(len, samples)) == max(heard, sum(map(len, again))) or sum(map(len, again)) == start
    one, other = np.concatenate(samples)[at:], np.concatenate(again)[at:]
    assert len(one) == len(other)
    assert np.abs(one - other).max(initial=0) < 1e-5
    if rate == 16_000:
        assert np.array_equal(one, other)


def test_no_audio_gives_no_samples() -> None:
    for rate in RATES:
        assert [len(channel) for channel in everything(PcmReader(AudioFormat(sample_rate=rate, channels=2)), [])] == [
            0,
            0,
        ]


def test_sixteen_bit_samples_are_scaled_exactly() -> None:
    reader = PcmReader(AudioFormat())
    (samples,) = reader.read(np.array([-32768, -1, 0, 1, 32767], "<i2").tobytes())
    assert samples.tolist() == [-1.0, -1 / 32768, 0.0, 1 / 32768, 32767 / 32768]


def test_channels_are_taken_apart_and_a_cut_frame_waits_for_its_rest() -> None:
    reader = PcmReader(AudioFormat(channels=2))
    data = np.array([[1, -1], [2, -2], [3, -3]], "<i2").tobytes()
    first, second = reader.read(data[:7]), reader.read(data[7:])
    assert [len(channel) for channel in first] == [1, 1]
    left, right = (np.concatenate(pair) * 32768 for pair in zip(first, second, strict=True))
    assert left.tolist() == [1, 2, 3]
    assert right.tolist() == [-1, -2, -3]


def test_a_frame_that_is_never_completed_is_dropped() -> None:
    reader = PcmReader(AudioFormat())
    assert len(reader.read(b"\x01")[0]) == 0
    assert len(reader.flush()[0]) == 0


def test_float_input_is_made_harmless() -> None:
    reader = PcmReader(AudioFormat(Encoding.PCM_F32))
    data = np.array([np.nan, np.inf, -np.inf, 7, -7, 0.25, 1e-42], "<f4").tobytes()
    (samples,) = reader.read(data)
    assert samples.tolist()[:6] == [0, 1, -1, 1, -1, 0.25]


@pytest.mark.parametrize(("codec", "table"), [("pcm_mulaw", MULAW), ("pcm_alaw", ALAW)])
def test_g711_agrees_with_ffmpeg_on_every_code(codec: str, table: np.ndarray) -> None:
    context = av.CodecContext.create(codec, "r")
    context.sample_rate, context.layout = 8_000, "mono"
    (frame,) = context.decode(av.Packet(bytes(range(256))))
    assert np.array_equal(frame.to_ndarray()[0] / 32768, table)


def test_g711_known_codes() -> None:
    assert [MULAW[code] * 32768 for code in (0xFF, 0x7F, 0x80, 0x00)] == [0, 0, 32124, -32124]
    assert [ALAW[code] * 32768 for code in (0xD5, 0x55, 0xAA, 0x2A)] == [8, -8, 32256, -32256]
