"""The header of a WAV file at the start of an audio stream: what it says, and where the samples are."""

import struct
from dataclasses import dataclass

from streamscribe.core.audio import AudioFormat, Encoding

MAX_HEADER_BYTES = 64 * 2**10
"""A header whose samples begin later is not looked through."""

_RIFF, _WAVE = b"RIFF", b"WAVE"
_RIFF_BYTES = 12
_CHUNK = struct.Struct("<4sI")
_FMT = struct.Struct("<HHIIHH")
_FMT_SIZES = range(16, 65)
_EXTENSIBLE = 0xFFFE
_ENCODINGS = {
    (1, 16): Encoding.PCM_S16,
    (3, 32): Encoding.PCM_F32,
    (6, 8): Encoding.ALAW,
    (7, 8): Encoding.MULAW,
}
_UNSIZED = 0x7FFF_0000
"""Data sizes from here on, and 0, are what streaming writers put for 'unknown'."""

_TRAILING_CHUNKS = {b"LIST", b"id3 ", b"ID3 ", b"JUNK", b"bext", b"iXML", b"cue ", b"fact", b"smpl", b"PEAK", b"_PMX"}


@dataclass(frozen=True, slots=True)
class WavHeader:
    """`format` is None where the samples cannot be read as they are: not mono, an odd encoding, or a damaged header."""

    format: AudioFormat | None
    size_bytes: int
    data_bytes: int | None = None


class WavReader:
    """Takes the samples out of a stream that may begin with a WAV header, however its bytes are cut.

    First `sniff` until it gives the bytes back, then `header` is settled; then every byte goes through `samples`.
    """

    def __init__(self) -> None:
        self.header: WavHeader | None = None
        self._head = bytearray()
        self._at = 0
        self._format: AudioFormat | None = None
        self._skip = 0
        self._left: int | None = None
        self._tail = b""
        self._over = False

    def sniff(self, data: bytes) -> bytes | None:
        """All bytes so far once it is clear whether there is a header; None before."""
        self._head += data
        found = self._find_header()
        if found is None:
            return None
        if isinstance(found, WavHeader):
            self.header = found
            self._skip = found.size_bytes
            self._left = found.data_bytes
        head, self._head = bytes(self._head), bytearray()
        return head

    def _find_header(self) -> WavHeader | bool | None:
        """The header; False for a stream without one; None while more bytes are needed.

        Goes on at the chunk that it could not read the last time: what bytes cost does not grow with those before.
        """
        head = self._head
        if not self._at:
            if head[:4] != _RIFF[: len(head)] or head[8:12] != _WAVE[: max(0, len(head) - 8)]:
                return False
            if len(head) < _RIFF_BYTES:
                return None
            self._at = _RIFF_BYTES
        while self._at + _CHUNK.size <= len(head):
            name, size = _CHUNK.unpack_from(head, self._at)
            body = self._at + _CHUNK.size
            if name == b"data":
                return WavHeader(self._format, body, None if size == 0 or size >= _UNSIZED else size)
            if name == b"fmt ":
                if size not in _FMT_SIZES:
                    return WavHeader(None, body)
                if body + size > len(head):
                    return None
                self._format = _read_format(bytes(head[body : body + size]))
            self._at = body + size + size % 2
            if self._at > MAX_HEADER_BYTES:
                return WavHeader(None, self._at)
        return None

    def give_up(self) -> bytes:
        """No more bytes come and `sniff` was never sure: short audio, or a header that has no samples (then b"")."""
        head, self._head = bytes(self._head), bytearray()
        return b"" if head[8:12] == _WAVE else head

    def samples(self, data: bytes) -> bytes:
        """The bytes of `data` that are samples: without the header, and without the chunks behind the samples."""
        if self._skip:
            skipped = min(self._skip, len(data))
            self._skip -= skipped
            data = data[skipped:]
        if self._left is None:
            return data
        inside = data[: self._left]
        self._left -= len(inside)
        return inside + self._behind(data[len(inside) :])

    def _behind(self, data: bytes) -> bytes:
        """Drops what follows if it is a chunk; else the header's size was wrong, and it is audio."""
        if self._over or not data:
            return b""
        self._tail += data
        pad = (self.header.data_bytes or 0) % 2 if self.header else 0
        if len(self._tail) < pad + 4:
            return b""
        if self._tail[pad : pad + 4] in _TRAILING_CHUNKS:
            self._over, self._tail = True, b""
            return b""
        tail, self._tail, self._left = self._tail, b"", None
        return tail


def _read_format(fmt: bytes) -> AudioFormat | None:
    tag, channels, rate, _, _, bits = _FMT.unpack_from(fmt)
    if tag == _EXTENSIBLE and len(fmt) >= 26:
        tag = int.from_bytes(fmt[24:26], "little")
    encoding = _ENCODINGS.get((tag, bits))
    if encoding is None or channels != 1:
        return None
    try:
        return AudioFormat(encoding, rate)
    except ValueError:
        return None
