"""Hostile and broken uploads, made when a test asks for them; every entry that takes files must refuse each alike."""

import struct
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from streamscribe.core.errors import AudioTooLong, BadAudio, StreamScribeError, UnsupportedFormat
from tests.audio.files import make


@dataclass(frozen=True)
class Hostile:
    """File name, how its bytes are made from an empty folder, and the errors that may answer it."""

    name: str
    build: Callable[[Path], bytes]
    errors: tuple[type[StreamScribeError], ...]


_REVERSED = bytes(int(f"{value:08b}"[::-1], 2) for value in range(256))


def _ogg_crc(data: bytes) -> int:
    """Ogg's CRC-32, which is zlib's with all bits mirrored and no inversion."""
    mirrored = zlib.crc32(data.translate(_REVERSED), 0xFFFFFFFF) ^ 0xFFFFFFFF
    return int(f"{mirrored:032b}"[::-1], 2)


def _page(kind: int, granule: int, number: int, packets: list[bytes]) -> bytes:
    head = struct.pack("<4sBBqIIIB", b"OggS", 0, kind, granule, 7, number, 0, len(packets))
    page = head + bytes(len(packet) for packet in packets) + b"".join(packets)
    return page[:22] + struct.pack("<I", _ogg_crc(page)) + page[26:]


def opus_silence(hours: float, claimed_hours: float | None = None) -> bytes:
    """Silence in the fewest bytes: two per 120 ms. `claimed_hours` is what its last page says."""
    head = b"OpusHead" + struct.pack("<BBHIhB", 1, 1, 0, 48_000, 0, 0)
    pages = [_page(2, 0, 0, [head]), _page(0, 0, 1, [b"OpusTags" + struct.pack("<I4sI", 4, b"none", 0)])]
    packets = int(hours * 3600 / 0.12)
    scale = 1.0 if claimed_hours is None else claimed_hours / hours
    for start in range(0, packets, 255):
        count = min(255, packets - start)
        kind = 4 if start + count >= packets else 0
        pages.append(_page(kind, int((start + count) * 5760 * scale), len(pages), [b"\xfb\x06"] * count))
    return b"".join(pages)


def _forged_flac(folder: Path) -> bytes:
    """STREAMINFO that claims 655350 Hz and 8 channels."""
    data = bytearray(make(folder, "flac").read_bytes())
    info = int.from_bytes(data[18:26], "big") & (1 << 41) - 1
    data[18:26] = (655_350 << 44 | 7 << 41 | info).to_bytes(8, "big")
    return bytes(data)


def _wav(rate: int, channels: int, data: bytes, bits: int = 16) -> bytes:
    block = channels * bits // 8
    form = struct.pack("<HHIIHH", 1, channels, rate, rate * block & 0xFFFFFFFF, block & 0xFFFF, bits)
    body = b"WAVEfmt " + struct.pack("<I", 16) + form + b"data" + struct.pack("<I", len(data)) + data
    return b"RIFF" + struct.pack("<I", len(body)) + body


def _damaged(kind: str) -> Callable[[Path], bytes]:
    def build(folder: Path) -> bytes:
        data = make(folder, kind, 4.0).read_bytes()
        return data[:64] + np.random.default_rng(5).bytes(len(data) - 64)

    return build


def _cut(kind: str, size: int) -> Callable[[Path], bytes]:
    return lambda folder: make(folder, kind).read_bytes()[:size]


def _text(text: str) -> Callable[[Path], bytes]:
    return lambda folder: text.encode()


SDP = "v=0\no=- 0 0 IN IP4 127.0.0.1\ns=x\nc=IN IP4 127.0.0.1\nt=0 0\nm=audio {port} RTP/AVP 0\n"
HLS = "#EXTM3U\n#EXT-X-TARGETDURATION:10\n#EXTINF:10,\nhttp://127.0.0.1:{port}/a.ts\n#EXT-X-ENDLIST\n"
CONCAT = "ffconcat version 1.0\nfile 'http://127.0.0.1:{port}/a.wav'\nfile '/etc/passwd'\n"

REFUSED = (UnsupportedFormat,)
BROKEN = (BadAudio,)
EITHER = (BadAudio, UnsupportedFormat)


def hostile(port: int) -> list[Hostile]:
    """The corpus; files that try to fetch something try 127.0.0.1:`port`."""
    playlists = [
        Hostile(f"{title}.{ending}", _text(text.format(port=port)), REFUSED)
        for title, text in (("sdp", SDP), ("hls", HLS), ("concat", CONCAT))
        for ending in ("wav", "mp3", "m3u8")
    ]
    return [
        *playlists,
        Hostile("empty.wav", lambda folder: b"", BROKEN),
        Hostile("one_byte.wav", lambda folder: b"R", REFUSED),
        Hostile("text.wav", _text("This is not audio.\n" * 100), REFUSED),
        Hostile("page.mp3", _text("<!doctype html><title>404</title>"), REFUSED),
        Hostile("zeros.wav", lambda folder: bytes(2**20), REFUSED),
        Hostile("random.wav", lambda folder: b"\x01" + np.random.default_rng(4).bytes(2**16), REFUSED),
        Hostile("program.wav", lambda folder: b"\x7fELF" + bytes(4096), REFUSED),
        Hostile("archive.wav", lambda folder: b"PK\x03\x04" + bytes(4096), REFUSED),
        Hostile("pickle.wav", lambda folder: b"\x80\x04cos\nsystem\n(S'true'\ntR.", REFUSED),
        Hostile("header_only.wav", lambda folder: _wav(16_000, 1, b""), BROKEN),
        Hostile("no_rate.wav", lambda folder: _wav(0, 1, bytes(320)), EITHER),
        Hostile("no_channels.wav", lambda folder: _wav(16_000, 0, bytes(320)), EITHER),
        Hostile("many_channels.wav", lambda folder: _wav(16_000, 1000, bytes(2000 * 50)), EITHER),
        Hostile("absurd_rate.wav", lambda folder: _wav(4_000_000_000, 1, bytes(320)), EITHER),
        Hostile("forged.flac", _forged_flac, EITHER),
        Hostile("magic_only.flac", lambda folder: b"fLaC", BROKEN),
        Hostile("magic_only.ogg", lambda folder: b"OggS", BROKEN),
        Hostile("tag_only.mp3", lambda folder: b"ID3\x04\x00\x00\x00\x00\x00\x00", BROKEN),
        Hostile("magic_only.m4a", lambda folder: b"\x00\x00\x00\x18ftypM4A " + bytes(12), BROKEN),
        Hostile("magic_only.webm", lambda folder: b"\x1aE\xdf\xa3", BROKEN),
        Hostile("cut_before_its_index.m4a", _cut("m4a", 4_000), BROKEN),
        Hostile("huge_box.m4a", lambda folder: b"\x00\x00\x00\x18ftypM4A " + b"\xff" * 4096, BROKEN),
        *(Hostile(f"damaged.{kind}", _damaged(kind), EITHER) for kind in ("flac", "ogg", "opus", "m4a", "webm")),
        Hostile("ten_hours.opus", lambda folder: opus_silence(10), (AudioTooLong,)),
    ]
