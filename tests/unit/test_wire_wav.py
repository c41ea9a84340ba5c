"""WAV headers at the start of a stream: found, skipped and believed, however the bytes are cut."""

import struct
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamscribe.core.audio import AudioFormat, Encoding
from streamscribe.core.messages import Audio, End, Invalid, Start
from streamscribe.core.options import Mode
from streamscribe.wire.dialects.funasr import FunasrDialect
from streamscribe.wire.wav import MAX_HEADER_BYTES, WavReader

PCM = bytes(range(200))


def chunk(name, body):
    return name + struct.pack("<I", len(body)) + body + b"\0" * (len(body) % 2)


def fmt(tag=1, channels=1, rate=16_000, bits=16, extra=b""):
    width = channels * bits // 8
    return chunk(b"fmt ", struct.pack("<HHIIHH", tag, channels, rate, rate * width, width, bits) + extra)


def riff(*chunks):
    body = b"".join(chunks)
    return b"RIFF" + struct.pack("<I", 4 + len(body)) + b"WAVE" + body


def read(data, size=None):
    """Header and samples of a stream in frames of `size` bytes."""
    reader = WavReader()
    found, samples = None, b""
    size = size or len(data)
    for at in range(0, len(data), size):
        piece = data[at : at + size]
        if found is None:
            found = reader.sniff(piece)
            piece = found or b""
        samples += reader.samples(piece)
    if found is None:
        samples += reader.give_up()
    return reader.header, samples


@pytest.mark.parametrize("size", [None, 1, 7])
@pytest.mark.parametrize(
    ("header", "expected"),
    [
        (fmt(), AudioFormat()),
        (fmt(rate=8000), AudioFormat(Encoding.PCM_S16, 8000)),
        (fmt(tag=3, bits=32), AudioFormat(Encoding.PCM_F32)),
        (fmt(tag=6, bits=8, rate=8000), AudioFormat(Encoding.ALAW, 8000)),
        (fmt(tag=7, bits=8, rate=8000), AudioFormat(Encoding.MULAW, 8000)),
        (chunk(b"LIST", b"odd") + fmt(), AudioFormat()),
        (fmt(tag=0xFFFE, extra=struct.pack("<HHIH14s", 22, 16, 4, 1, b"")), AudioFormat()),
        (fmt(channels=2), None),
        (fmt(bits=24), None),
        (fmt(rate=96_000), None),
        (b"", None),
    ],
)
def test_the_header_says_what_the_samples_are(header, expected, size):
    found, samples = read(riff(header, chunk(b"data", PCM)), size)
    assert found is not None
    assert found.format == expected
    assert samples == PCM


@pytest.mark.parametrize("size", [None, 1, 5])
def test_chunks_behind_the_samples_are_no_audio(size):
    _, samples = read(riff(fmt(), chunk(b"data", PCM), chunk(b"LIST", b"INFO" + bytes(50))), size)
    assert samples == PCM
    _, odd = read(riff(fmt(tag=6, bits=8), chunk(b"data", PCM[:99]), chunk(b"id3 ", bytes(50))), size)
    assert odd == PCM[:99]


@pytest.mark.parametrize("size", [None, 1, 5])
@pytest.mark.parametrize("declared", [0, 20, 0x7FFF_FFFF, 0xFFFF_FFFF])
def test_a_wrong_or_unknown_size_loses_no_audio(declared, size):
    stream = riff(fmt(), b"data" + struct.pack("<I", declared)) + PCM
    assert read(stream, size)[1] == PCM


@pytest.mark.parametrize("stream", [b"", b"R", b"RIF", b"RIFX", b"RIFF1234AVI LIST", PCM, b"ID3"])
def test_a_stream_without_a_header_is_passed_on_whole(stream):
    header, samples = read(stream, 1) if stream else (None, b"")
    assert header is None
    assert samples == stream


def test_a_header_that_stops_before_its_samples_is_no_audio():
    assert read(riff(fmt())[:30], 1) == (None, b"")


@pytest.mark.timeout(20)
def test_law_7_what_a_byte_of_a_header_costs_does_not_grow_with_the_bytes_before():
    reader = WavReader()
    endless = b"RIFF\0\0\0\0WAVE" + chunk(b"JUNK", b"") * (MAX_HEADER_BYTES // 8 - 2)
    assert all(reader.sniff(endless[at : at + 1]) is None for at in range(len(endless)))


def test_a_damaged_or_endless_header_cannot_be_read():
    strange = read(riff(chunk(b"fmt ", b"short"), chunk(b"data", PCM)))[0]
    endless = read(riff(b"JUNK" + struct.pack("<I", MAX_HEADER_BYTES)) + bytes(100))[0]
    assert strange is not None
    assert endless is not None
    assert strange.format is endless.format is None


FILES = st.sampled_from(
    [
        riff(fmt(), chunk(b"data", PCM)),
        riff(chunk(b"LIST", b"xyz"), fmt(rate=8000), chunk(b"data", PCM), chunk(b"LIST", bytes(20))),
        riff(fmt(channels=2), chunk(b"data", PCM)),
        riff(fmt(), b"data" + struct.pack("<I", 30)) + PCM,
        riff(fmt())[:25],
        PCM,
        b"RIFFxxxxWAVx" + PCM,
        b"RI",
    ]
)


def heard(dialect, frames):
    """The messages of a stream, with the audio in one."""
    messages = [message for frame in frames for message in dialect.decode_binary(frame)]
    messages += dialect.decode_text('{"is_speaking":false}')
    audio = b"".join(message.data for message in messages if isinstance(message, Audio))
    others = [
        message.error.code if isinstance(message, Invalid) else message
        for message in messages
        if not isinstance(message, Audio)
    ]
    return others, audio, dialect.container


@given(FILES, st.lists(st.integers(1, 300), max_size=30), st.sampled_from(["offline", "2pass", "online"]))
def test_law_4_frames_cut_anywhere_give_the_same_messages(stream, cuts, mode):
    edges = sorted({0, len(stream), *(cut for cut in cuts if cut < len(stream))})
    frames = [stream[begin:end] for begin, end in pairwise(edges)]
    config = f'{{"mode":"{mode}"}}'
    outcomes = []
    for way in ([stream], frames, [stream[at : at + 1] for at in range(len(stream))]):
        dialect = FunasrDialect()
        dialect.decode_text(config)
        outcomes.append(heard(dialect, way))
    assert outcomes[0] == outcomes[1] == outcomes[2]


@pytest.mark.parametrize("mode", list(Mode))
def test_a_stereo_file_goes_to_the_decoder_and_a_stereo_stream_is_refused(mode):
    stream = riff(fmt(channels=2), chunk(b"data", PCM))
    dialect = FunasrDialect()
    dialect.decode_text(f'{{"mode":"{mode.value}"}}')
    messages, audio, container = heard(dialect, [stream])
    if mode is Mode.OFFLINE:
        assert isinstance(messages[0], Start)
        assert messages[0].options.audio == AudioFormat()
        assert (messages[1:], audio, container) == ([End()], stream, "wav")
    else:
        assert (messages, audio) == (["unsupported_format"], b"")
