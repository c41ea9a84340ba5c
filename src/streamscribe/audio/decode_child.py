"""The decoding child: reads one job from stdin, writes frames to stdout, exits. Started by `audio.decode` only.

Hostile input meets it with nothing in reach: no environment, no descriptor to be had after the file is open (hence no
socket, no other file), bounded memory and processor time, nothing written to disk.
"""

import os
import resource
import stat
import sys
import traceback
from collections.abc import Iterator
from typing import BinaryIO

import numpy as np
import soxr

from streamscribe.audio.decode_protocol import (
    BLOCK_SAMPLES,
    HEADER,
    INFO,
    MAX_CHANNELS,
    MAX_RATE,
    MIN_RATE,
    SAMPLE_BYTES,
    DecodeLimits,
    Job,
    Tag,
)
from streamscribe.audio.readers import Block, Reader, open_reader, warm_up
from streamscribe.audio.sniff import HEAD_BYTES, Container, sniff
from streamscribe.core.audio import SAMPLE_RATE
from streamscribe.core.errors import AudioTooLong, BadAudio, StreamScribeError, TooLarge, UnsupportedFormat


def main() -> None:
    """Decodes the job; a parent that goes away ends it."""
    warm_up()
    line = sys.stdin.buffer.readline()
    if not line:
        return
    out = sys.stdout.buffer
    try:
        _decode(Job.from_line(line), out)
    except StreamScribeError as error:
        _send(out, Tag.ERROR, f"{error.code}\n{error.message}".encode())
    except MemoryError:
        _send(out, Tag.ERROR, b"too_large\ndecoding the file needs more memory than is allowed")
    except BrokenPipeError:
        os._exit(1)
    except Exception as error:  # noqa: BLE001 - the process' edge: the parent must learn that it was our defect
        _send(out, Tag.ERROR, f"internal\n{type(error).__name__} in the decoder ({_where(error)})".encode())
    out.flush()
    os._exit(0)


def _where(error: Exception) -> str:
    """File and line, without a word of what the error says: that may be of the file."""
    *_, (frame, line) = traceback.walk_tb(error.__traceback__)
    return f"{os.path.basename(frame.f_code.co_filename)}:{line}"


def _decode(job: Job, out: BinaryIO) -> None:
    limits = job.limits
    descriptor, container = _open(job.path, limits)
    _confine(limits)
    reader = open_reader(container, descriptor)
    _check(reader, container, limits)
    channels = 1 if job.channels == 1 or reader.channels > 2 else reader.channels
    _send(out, Tag.INFO, INFO.pack(channels, reader.duration_s or 0.0))
    pending = bytearray()
    block_bytes = BLOCK_SAMPLES * SAMPLE_BYTES * channels
    empty = True
    for data in _resampled(_counted(reader, limits), reader.sample_rate, channels):
        pending += data
        while len(pending) >= block_bytes:
            empty = False
            _send(out, Tag.DATA, bytes(pending[:block_bytes]))
            del pending[:block_bytes]
    if empty and not pending:
        raise BadAudio("the file holds no audio")
    if pending:
        _send(out, Tag.DATA, bytes(pending))
    _send(out, Tag.END, b"")


def _open(path: str, limits: DecodeLimits) -> tuple[int, Container]:
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        raise BadAudio(f"the file cannot be read: {error.strerror}") from None
    status = os.fstat(descriptor)
    if not stat.S_ISREG(status.st_mode):
        raise BadAudio("this is not a regular file")
    if status.st_size == 0:
        raise BadAudio("the file is empty")
    if status.st_size > limits.max_file_bytes:
        raise TooLarge(f"the file is larger than {limits.max_file_bytes} bytes")
    container = sniff(os.pread(descriptor, HEAD_BYTES, 0))
    if container is None:
        names = ", ".join(Container)
        raise UnsupportedFormat(f"this is none of the accepted formats: {names} (with PCM, Vorbis, Opus, AAC, ...)")
    return descriptor, container


def _confine(limits: DecodeLimits) -> None:
    """Takes from this process what decoding does not need, for good."""
    with open("/proc/self/statm", "rb") as statm:
        own_bytes = int(statm.read().split()[0]) * resource.getpagesize()
    used = resource.getrusage(resource.RUSAGE_SELF)
    cpu_s = int(used.ru_utime + used.ru_stime) + 1 + limits.cpu_s
    for kind, bound in (
        (resource.RLIMIT_AS, own_bytes + limits.memory_bytes),
        (resource.RLIMIT_CPU, cpu_s),
        (resource.RLIMIT_FSIZE, 0),
        (resource.RLIMIT_CORE, 0),
        (resource.RLIMIT_NOFILE, 0),
    ):
        resource.setrlimit(kind, (bound, bound))


def _check(reader: Reader, container: Container, limits: DecodeLimits) -> None:
    if not MIN_RATE <= reader.sample_rate <= MAX_RATE:
        raise UnsupportedFormat(f"the sample rate must be {MIN_RATE} to {MAX_RATE} Hz")
    if not 1 <= reader.channels <= MAX_CHANNELS:
        raise UnsupportedFormat(f"there must be 1 to {MAX_CHANNELS} channels")
    # mp3 does not declare its length, libsndfile guesses it
    if container is not Container.MP3 and (reader.duration_s or 0) > limits.max_decoded_s:
        raise _too_long(limits)


def _too_long(limits: DecodeLimits) -> AudioTooLong:
    return AudioTooLong(f"the audio is longer than {limits.max_decoded_s:.0f} s")


def _counted(reader: Reader, limits: DecodeLimits) -> Iterator[Block]:
    """The reader's blocks, for as long as they keep the limits."""
    frames = 0
    for block in reader.blocks():
        frames += len(block)
        if frames > limits.max_decoded_s * reader.sample_rate:
            raise _too_long(limits)
        if frames * reader.channels * SAMPLE_BYTES > limits.max_decoded_bytes:
            raise TooLarge(f"the file decodes to more than {limits.max_decoded_bytes} bytes")
        yield block


def _resampled(blocks: Iterator[Block], sample_rate: int, channels: int) -> Iterator[bytes]:
    resampler = soxr.ResampleStream(sample_rate, SAMPLE_RATE, channels, "float32")
    for block in blocks:
        mixed = block.mean(axis=1, keepdims=True) if block.shape[1] > channels else block
        finite = np.nan_to_num(mixed, nan=0.0, posinf=1.0, neginf=-1.0)
        yield _to_s16(finite if sample_rate == SAMPLE_RATE else resampler.resample_chunk(finite))
    if sample_rate != SAMPLE_RATE:
        yield _to_s16(resampler.resample_chunk(np.empty((0, channels), np.float32), last=True))


def _to_s16(samples: Block) -> bytes:
    return np.rint(samples * 32768).clip(-32768, 32767).astype("<i2").tobytes()


def _send(out: BinaryIO, tag: Tag, payload: bytes) -> None:
    out.write(HEADER.pack(tag.value, len(payload)) + payload)
    out.flush()


if __name__ == "__main__":
    main()
