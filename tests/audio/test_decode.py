"""Files decode to 16 kHz in a child: every accepted kind, streamed, ended with its reader."""

import asyncio
import os
import subprocess
import sys
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import soundfile

from streamscribe.audio.decode import DecodeLimits, DecoderPool, decode
from streamscribe.core.errors import AudioTooLong, BadAudio, Overloaded, StreamScribeError, TooLarge, UnsupportedFormat
from tests.audio.files import KINDS, TONE_HZ, encode, make, tone

LIMITS = DecodeLimits(stall_s=600)  # however busy this machine is


@pytest.fixture
async def pool() -> AsyncIterator[DecoderPool]:
    pool = DecoderPool(LIMITS)
    await pool.start()
    yield pool
    await pool.close()


async def samples(path: Path, limits: DecodeLimits = LIMITS, channels: int | None = 1) -> np.ndarray:
    data = b"".join([block async for block in decode(path, limits, channels=channels)])
    return np.frombuffer(data, "<i2").astype(np.float32) / 32768


async def failure(path: Path, limits: DecodeLimits = LIMITS) -> StreamScribeError:
    with pytest.raises(StreamScribeError) as caught:
        await samples(path, limits)
    return caught.value


def strongest_hz(audio: np.ndarray) -> float:
    return float(np.argmax(np.abs(np.fft.rfft(audio[: 16_000 * (len(audio) // 16_000)]))) / (len(audio) // 16_000))


def test_a_child_loads_what_decodes_and_no_settings() -> None:
    code = "import sys, streamscribe.audio.decode_child; print({'av', 'pydantic', 'asyncio'} & sys.modules.keys())"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout.strip() == "{'av'}"


@pytest.mark.parametrize("channels", [1, 2])
@pytest.mark.parametrize("kind", KINDS)
async def test_every_kind_decodes_to_its_length_pitch_and_level(kind: str, channels: int, tmp_path: Path) -> None:
    audio = await samples(make(tmp_path, kind, 2.0, channels))
    assert len(audio) / 16_000 == pytest.approx(2.0, abs=0.12)  # bare AAC cannot say how much of it is padding
    assert strongest_hz(audio) == pytest.approx(TONE_HZ, abs=1)
    assert np.abs(audio[4_000:-4_000]).max() == pytest.approx(0.5, abs=0.05)


async def test_sixteen_bit_wav_at_16_khz_passes_bit_for_bit(tmp_path: Path) -> None:
    original = np.random.default_rng(1).integers(-32768, 32768, 50_001).astype(np.int16)
    soundfile.write(tmp_path / "noise.wav", original, 16_000)
    assert np.array_equal(await samples(tmp_path / "noise.wav"), original.astype(np.float32) / 32768)


async def test_two_channels_are_mixed_down_or_kept_apart(tmp_path: Path) -> None:
    left = tone(16_000, 1.0)[:, 0]
    soundfile.write(tmp_path / "two.wav", np.stack([left, np.zeros_like(left)], 1), 16_000)
    mixed = await samples(tmp_path / "two.wav")
    assert np.abs(mixed - left / 2).max() < 1e-4
    apart = (await samples(tmp_path / "two.wav", channels=None)).reshape(-1, 2)
    assert np.abs(apart[:, 0] - left).max() < 1e-4
    assert not apart[:, 1].any()


async def test_six_channels_are_mixed_down_even_where_channels_are_kept(tmp_path: Path) -> None:
    soundfile.write(tmp_path / "six.wav", np.zeros((16_000, 6), np.float32), 16_000)
    decoding = decode(tmp_path / "six.wav", LIMITS, channels=None)
    assert sum([len(block) async for block in decoding]) == 32_000
    assert decoding.channels == 1


async def test_float_samples_out_of_range_are_clipped_and_nan_is_silence(tmp_path: Path) -> None:
    soundfile.write(tmp_path / "odd.wav", np.array([np.nan, np.inf, -np.inf, 3.0, 0.5], "f4"), 16_000, subtype="FLOAT")
    assert (await samples(tmp_path / "odd.wav")).tolist() == [0.0, 32767 / 32768, -1.0, 32767 / 32768, 0.5]


async def test_progress_and_the_declared_duration_are_known(pool: DecoderPool, tmp_path: Path) -> None:
    decoding = pool.decode(make(tmp_path, "flac", 3.0))
    first = await anext(decoding)
    assert (len(first), decoding.decoded_s, decoding.duration_s) == (32_000, 1.0, 3.0)
    await decoding.aclose()


async def test_a_wav_that_was_streamed_has_no_length_and_is_read_to_its_end(tmp_path: Path) -> None:
    data = bytearray(make(tmp_path, "wav", 2.0).read_bytes())
    data[4:8] = data[40:44] = b"\xff" * 4
    (tmp_path / "streamed.wav").write_bytes(data)
    assert len(await samples(tmp_path / "streamed.wav")) == 32_000


async def test_a_flac_that_was_streamed_has_no_length_and_keeps_its_last_samples(tmp_path: Path) -> None:
    data = bytearray(make(tmp_path, "flac", 2.0).read_bytes())
    data[21:26] = bytes([data[21] & 0xF0, 0, 0, 0, 0])
    (tmp_path / "streamed.flac").write_bytes(data)
    decoding = decode(tmp_path / "streamed.flac", LIMITS)
    assert sum([len(block) async for block in decoding]) == 64_000
    assert decoding.duration_s == 0


@pytest.mark.parametrize("kind", ["wav", "flac", "mp3", "ogg", "opus", "webm", "aac"])
@pytest.mark.parametrize("cut", [0, 1])
async def test_a_file_that_was_cut_off_gives_what_it_holds(kind: str, cut: int, tmp_path: Path) -> None:
    data = make(tmp_path, kind, 20.0).read_bytes()
    (tmp_path / "cut").write_bytes(data[: len(data) // 2 + cut])
    assert 6.0 < len(await samples(tmp_path / "cut")) / 16_000 < 12.0


async def test_an_m4a_with_its_index_in_front_gives_what_it_holds_when_cut(tmp_path: Path) -> None:
    encode(tmp_path / "whole", "mp4", "aac", 44_100, tone(44_100, 20.0), movflags="faststart")
    data = (tmp_path / "whole").read_bytes()
    (tmp_path / "cut").write_bytes(data[: len(data) // 2])
    assert 6.0 < len(await samples(tmp_path / "cut")) / 16_000 < 12.0


@pytest.mark.parametrize("kind", ["flac", "m4a"])
async def test_a_file_damaged_inside_is_bad_audio_and_not_a_shorter_text(kind: str, tmp_path: Path) -> None:
    data = make(tmp_path, kind, 30.0).read_bytes()
    half = len(data) // 2
    (tmp_path / "damaged").write_bytes(data[:half] + np.random.default_rng(3).bytes(8_000) + data[half + 8_000 :])
    assert isinstance(await failure(tmp_path / "damaged"), BadAudio)


@pytest.mark.parametrize("between", [b"", b"TAG" + bytes(125)])
async def test_mp3_files_joined_end_to_end_are_all_heard(between: bytes, tmp_path: Path) -> None:
    data = make(tmp_path, "mp3", 2.0).read_bytes()
    (tmp_path / "joined.mp3").write_bytes(data + between + data + between)
    assert len(await samples(tmp_path / "joined.mp3")) / 16_000 == pytest.approx(4.0, abs=0.1)


async def test_chained_ogg_streams_are_refused_rather_than_half_heard(tmp_path: Path) -> None:
    soundfile.write(tmp_path / "one.ogg", np.random.default_rng(0).normal(0, 0.1, 480_000), 16_000, format="OGG")
    data = (tmp_path / "one.ogg").read_bytes()
    (tmp_path / "chained.ogg").write_bytes(data + data)
    assert isinstance(await failure(tmp_path / "chained.ogg"), UnsupportedFormat)


async def test_the_audio_of_a_video_is_read(tmp_path: Path) -> None:
    import av

    with av.open(str(tmp_path / "video.mp4"), "w", format="mp4") as output:
        video = output.add_stream("mpeg4", rate=25)
        video.width = video.height = 64
        video.pix_fmt = "yuv420p"
        audio = output.add_stream("aac", rate=16_000)
        audio.layout = "mono"
        for number in range(25):
            picture = av.VideoFrame(64, 64, "yuv420p")
            picture.pts = number
            output.mux(video.encode(picture))
        frame = av.AudioFrame.from_ndarray(np.ascontiguousarray(tone(16_000, 1.024).T), format="fltp", layout="mono")
        frame.sample_rate, frame.pts = 16_000, 0
        resampler = av.AudioResampler("fltp", "mono", 16_000, 1024)
        for piece in [*resampler.resample(frame), *resampler.resample(None)]:
            output.mux(audio.encode(piece))
        output.mux([*audio.encode(None), *video.encode(None)])
    assert len(await samples(tmp_path / "video.mp4")) / 16_000 == pytest.approx(1.024, abs=0.1)


async def test_without_the_media_extra_an_m4a_error_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "absent").mkdir()
    (tmp_path / "absent" / "av.py").write_text("raise ImportError")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path / "absent"))
    error = await failure(make(tmp_path, "m4a"))
    assert isinstance(error, UnsupportedFormat)
    assert error.message == "m4a files need the media extra; in the checkout, type: pip install -e '.[media]'"
    assert len(await samples(make(tmp_path, "mp3"))) > 0


async def test_limits_are_counted_while_decoding(tmp_path: Path) -> None:
    path = make(tmp_path, "mp3", 4.0)
    assert isinstance(await failure(path, replace(LIMITS, max_decoded_s=3.0)), AudioTooLong)
    assert isinstance(await failure(path, replace(LIMITS, max_decoded_bytes=300_000)), TooLarge)
    assert isinstance(await failure(path, replace(LIMITS, max_file_bytes=1_000)), TooLarge)
    assert len(await samples(path, replace(LIMITS, max_decoded_s=4.0, max_decoded_bytes=4 * 88_200))) == 64_000


async def test_a_missing_file_or_one_that_is_no_file_is_bad_audio(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.wav")
    for path in (tmp_path / "none.wav", tmp_path, tmp_path / "pipe.wav"):
        error = await failure(path)
        assert isinstance(error, BadAudio)
        assert str(tmp_path) not in error.message


async def test_a_reader_that_leaves_early_ends_its_child(pool: DecoderPool, tmp_path: Path) -> None:
    async with pool.decode(make(tmp_path, "wav", 600.0)) as decoding:
        await anext(decoding)
        (pid,) = [child.pid for child in pool._running]
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)
    assert [block async for block in decoding] == []


async def test_cancelling_a_reader_ends_its_child(pool: DecoderPool, tmp_path: Path) -> None:
    decoding = pool.decode(make(tmp_path, "wav", 600.0))
    started = asyncio.Event()

    async def read() -> None:
        async for _ in decoding:
            started.set()

    reader = asyncio.create_task(read())
    await started.wait()
    (pid,) = [child.pid for child in pool._running]
    reader.cancel()
    with pytest.raises(asyncio.CancelledError):
        await reader
    await decoding.aclose()
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


async def test_a_child_that_gives_nothing_is_killed(tmp_path: Path) -> None:
    error = await failure(make(tmp_path, "wav"), DecodeLimits(stall_s=0.0))
    assert isinstance(error, BadAudio)
    assert "stalled" in error.message


async def test_decodes_beyond_the_bound_wait_and_are_then_refused(tmp_path: Path) -> None:
    path = make(tmp_path, "wav", 3.0)
    pool = DecoderPool(LIMITS, max_children=1, wait_s=0.05)
    holder = pool.decode(path)
    await anext(holder)
    with pytest.raises(Overloaded):
        await anext(pool.decode(path))
    await holder.aclose()
    assert [len(block) async for block in pool.decode(path)] == [32_000] * 3
    await pool.close()


async def test_many_files_at_once_keep_their_own_audio(pool: DecoderPool, tmp_path: Path) -> None:
    async def length(number: int) -> int:
        path = tmp_path / f"{number}.wav"
        soundfile.write(path, np.zeros(8_000 + number, np.float32), 16_000)
        return sum([len(block) async for block in pool.decode(path)])

    assert await asyncio.gather(*map(length, range(12))) == [16_000 + 2 * number for number in range(12)]


async def test_the_child_sees_no_secret_of_the_server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STREAMSCRIBE_SECRET", "canary")
    pool = DecoderPool(LIMITS)
    await pool.start()
    assert pool._spare is not None
    assert b"canary" not in Path(f"/proc/{pool._spare.pid}/environ").read_bytes()
    await pool.close()
