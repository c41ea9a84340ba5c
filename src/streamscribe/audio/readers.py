"""Decoders of open files: blocks of float32 (frames, channels) at the file's own rate, from a descriptor only.

Neither reader ever sees a name, so nothing in a file or its name can make it open another file or a socket. A file
that ends early gives what it holds; one that is damaged inside raises BadAudio.
"""

import io
import os
from collections.abc import Iterator
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import soundfile

from streamscribe.audio.sniff import HEAD_BYTES, Container, sniff
from streamscribe.core.errors import BadAudio, UnsupportedFormat
from streamscribe.core.extras import install_extra

try:
    import av
except ImportError:
    av = None  # type: ignore[assignment]

Block = npt.NDArray[np.float32]

_READ_FRAMES = 4096
_ID3V1_BYTES = 128
_OGG_READ_AHEAD_BYTES = 2**16
_SOUNDFILE_NAMES = {
    Container.WAV: {"WAV", "WAVEX", "RF64"},
    Container.FLAC: {"FLAC"},
    Container.MP3: {"MP3"},
    Container.OGG: {"OGG"},
}
_AV_NAMES = {Container.MP4: "mp4", Container.MATROSKA: "matroska", Container.AAC: "aac"}


class Reader(Protocol):
    """An opened file. `duration_s` is what the file says of itself, None where it does not."""

    sample_rate: int
    channels: int
    duration_s: float | None

    def blocks(self) -> Iterator[Block]:
        """The samples, in blocks of any length."""
        ...


def open_reader(container: Container, descriptor: int) -> Reader:
    """Opens a file as `container` and as nothing else. Raises BadAudio, UnsupportedFormat."""
    if container in _SOUNDFILE_NAMES:
        return _SoundFileReader(container, descriptor)
    if av is None:
        raise UnsupportedFormat(f"{container} files need the media extra; {install_extra('media')}")
    return _AvReader(container, descriptor)


def warm_up() -> None:
    """Makes PyAV load what it loads at its first use: a confined process can open no file any more."""
    if av is not None:
        silence = io.BytesIO()
        soundfile.write(silence, np.zeros(64, np.float32), 16_000, format="WAV")
        silence.seek(0)
        with av.open(silence, "r", format="wav") as opened:
            for frame in opened.decode(audio=0):
                _to_float(frame, 1)


class _ForwardFile(soundfile.SoundFile):  # type: ignore[misc]
    """Reads on without seeking after each block, which fails on FLAC streams of unknown length."""

    def seekable(self) -> bool:
        return False


class _SoundFileReader:
    """libsndfile: wav, flac, mp3, and Vorbis, Opus or FLAC in Ogg."""

    def __init__(self, container: Container, descriptor: int) -> None:
        self._container = container
        self._descriptor = descriptor
        self._size = os.fstat(descriptor).st_size
        self._file = self._open()
        self.sample_rate: int = self._file.samplerate
        self.channels: int = self._file.channels
        known = 0 < self._file.frames < 2**62
        self.duration_s = self._file.frames / self.sample_rate if known else None

    def _open(self) -> Any:
        try:
            file = _ForwardFile(self._descriptor, closefd=False)
        except soundfile.LibsndfileError:
            raise BadAudio(f"the {self._container} file's header cannot be read") from None
        if file.format not in _SOUNDFILE_NAMES[self._container]:
            raise UnsupportedFormat(f"the {self._container} file holds another format")
        return file

    def blocks(self) -> Iterator[Block]:
        yield from self._stream()
        if self._container is Container.OGG and self._left() > _OGG_READ_AHEAD_BYTES:
            raise UnsupportedFormat("the ogg file chains several streams; only one is supported")
        while self._container is Container.MP3 and self._next_mp3():
            self._file = self._open()
            if (self._file.samplerate, self._file.channels) != (self.sample_rate, self.channels):
                raise UnsupportedFormat("the mp3 file joins recordings of different rates or channels")
            yield from self._stream()

    def _stream(self) -> Iterator[Block]:
        while True:
            block = np.empty((_READ_FRAMES, self.channels), np.float32)
            try:
                frames = self._file.buffer_read_into(block, "float32")
            except soundfile.LibsndfileError:
                if self._left() > 0:
                    raise BadAudio(f"the {self._container} file is damaged") from None
                return
            if frames == 0:
                return
            yield block[:frames]

    def _left(self) -> int:
        """Bytes of the file that libsndfile has not read."""
        return self._size - os.lseek(self._descriptor, 0, os.SEEK_CUR)

    def _next_mp3(self) -> bool:
        """Whether another recording follows, as in files joined by `cat`; its length tag ends each at its own end."""
        head = os.read(self._descriptor, _ID3V1_BYTES)
        if head.startswith(b"TAG"):
            head = os.read(self._descriptor, HEAD_BYTES)
        os.lseek(self._descriptor, -len(head), os.SEEK_CUR)
        return sniff(head) is Container.MP3


class _AvReader:
    """FFmpeg's libraries: AAC and ALAC in m4a, Opus and Vorbis in webm, bare AAC. Reads the first audio stream."""

    def __init__(self, container: Container, descriptor: int) -> None:
        self._container = container
        try:
            self._input = av.open(os.fdopen(descriptor, "rb", closefd=False), "r", format=_AV_NAMES[container])
        except (av.FFmpegError, ValueError):
            raise BadAudio(f"the {container} file's header cannot be read or is cut off") from None
        if not self._input.streams.audio:
            raise BadAudio(f"the {container} file holds no audio")
        self._audio = self._input.streams.audio[0]
        self._audio.codec_context.thread_count = 1
        self._decoded = self._frames()
        first = next(self._decoded, None)
        if first is None:
            raise BadAudio(f"the {container} file holds no audio that can be decoded")
        self._first = first
        self.sample_rate = int(first.sample_rate)
        self.channels = len(first.layout.channels)
        duration = self._input.duration
        self.duration_s = duration / av.time_base if duration and container is not Container.AAC else None

    def blocks(self) -> Iterator[Block]:
        yield _to_float(self._first, self.channels)
        for frame in self._decoded:
            if (frame.sample_rate, len(frame.layout.channels)) != (self.sample_rate, self.channels):
                raise UnsupportedFormat(f"the {self._container} file changes its rate or channels")
            yield _to_float(frame, self.channels)

    def _frames(self) -> Iterator[Any]:
        damaged = False
        packets = self._input.demux(self._audio)
        while True:
            try:
                packet = next(packets, None)
                if packet is None:
                    return
                if damaged and packet.size:
                    raise BadAudio(f"the {self._container} file is damaged")
                yield from packet.decode()
            except av.FFmpegError:
                damaged = True  # the last packet of a file that was cut off; an error only if more follows


def _to_float(frame: Any, channels: int) -> Block:
    """Samples of any of FFmpeg's formats as (frames, channels) in [-1, 1)."""
    data: npt.NDArray[Any] = frame.to_ndarray()
    data = data.T if frame.format.is_planar else data.reshape(-1, channels)
    if data.dtype.kind == "u":
        return np.asarray((data - 128.0) / 128, np.float32)
    if data.dtype.kind == "i":
        return np.asarray(data / -float(np.iinfo(data.dtype).min), np.float32)
    return np.asarray(data, np.float32)
