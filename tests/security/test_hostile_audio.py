"""Every hostile file gets a typed error, quickly, in bounded memory, and opens no connection."""

import socket
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import numpy as np
import pytest

from streamscribe.audio.decode import DecodeLimits, DecoderPool, decode
from streamscribe.core.errors import AudioTooLong, StreamScribeError
from tests.audio.files import make
from tests.security.audio_corpus import Hostile, hostile, opus_silence

NAMES = [entry.name for entry in hostile(0)]


@pytest.fixture
def trap() -> Iterator[socket.socket]:
    """A listener that must never be called."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.setblocking(False)
        yield listener


@pytest.fixture
async def pool() -> AsyncIterator[DecoderPool]:
    pool = DecoderPool(DecodeLimits(stall_s=600))
    yield pool
    await pool.close()


async def drain(pool: DecoderPool, path: Path) -> None:
    async for _ in pool.decode(path):
        pass


@pytest.mark.parametrize("name", NAMES)
async def test_hostile_files_get_their_error_and_reach_nothing(
    name: str, pool: DecoderPool, trap: socket.socket, tmp_path: Path
) -> None:
    entry: Hostile = next(one for one in hostile(trap.getsockname()[1]) if one.name == name)
    path = tmp_path / name
    path.write_bytes(entry.build(tmp_path))
    with pytest.raises(entry.errors) as caught:
        await drain(pool, path)
    assert str(tmp_path) not in caught.value.message
    with pytest.raises(BlockingIOError):
        trap.accept()


async def test_ten_hours_that_claim_a_second_stop_at_the_limit(tmp_path: Path) -> None:
    (tmp_path / "liar.opus").write_bytes(opus_silence(10, claimed_hours=1 / 3600))
    with pytest.raises(StreamScribeError):
        async for _ in decode(tmp_path / "liar.opus", DecodeLimits(max_decoded_s=600, stall_s=600)):
            pass


async def test_long_silence_within_the_limit_decodes_in_bounded_memory(tmp_path: Path) -> None:
    (tmp_path / "long.opus").write_bytes(opus_silence(0.5))
    decoding = decode(tmp_path / "long.opus", DecodeLimits(memory_bytes=2**25, stall_s=600))
    async for block in decoding:
        assert len(block) <= 32_000
    assert decoding.decoded_s == pytest.approx(1800, abs=1)


async def test_a_file_that_needs_more_memory_than_allowed_fails_alone(tmp_path: Path) -> None:
    """An ID3 tag that claims 200 MB makes the mp3 decoder ask for them."""
    data = b"ID3\x04\x00\x00\x60\x00\x00\x00" + bytes(64)
    (tmp_path / "tag.mp3").write_bytes(data + make(tmp_path, "mp3").read_bytes())
    with pytest.raises(StreamScribeError):
        async for _ in decode(tmp_path / "tag.mp3", DecodeLimits(memory_bytes=2**24, stall_s=600)):
            pass


@pytest.mark.parametrize("kind", ["wav", "flac", "mp3", "ogg", "opus", "m4a", "webm", "aac"])
async def test_files_with_flipped_bytes_never_do_more_than_fail(kind: str, pool: DecoderPool, tmp_path: Path) -> None:
    original = make(tmp_path, kind, 1.0).read_bytes()
    random = np.random.default_rng(len(kind))
    for number in range(4):
        data = bytearray(original)
        for at in random.integers(0, min(len(data), 600 if number % 2 else len(data)), 1 + number * 4):
            data[at] = random.integers(0, 256)
        path = tmp_path / f"flipped.{number}"
        path.write_bytes(data)
        try:
            await drain(pool, path)
        except StreamScribeError as error:
            assert error.code in {"bad_audio", "unsupported_format", "audio_too_long", "too_large"}  # noqa: PT017


async def test_ten_hours_are_refused_before_they_are_decoded(pool: DecoderPool, tmp_path: Path) -> None:
    (tmp_path / "ten.opus").write_bytes(opus_silence(10))
    decoding = pool.decode(tmp_path / "ten.opus")
    with pytest.raises(AudioTooLong):
        await anext(decoding)
    assert decoding.decoded_s == 0
