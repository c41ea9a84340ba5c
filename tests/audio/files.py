"""Audio files of every accepted kind, made when a test asks for them."""

from pathlib import Path

import av
import numpy as np
import soundfile

TONE_HZ = 440.0

SOUNDFILE = {
    "wav": ("WAV", "PCM_16", 16_000),
    "float.wav": ("WAV", "FLOAT", 44_100),
    "mulaw.wav": ("WAV", "ULAW", 8_000),
    "rf64.wav": ("RF64", "PCM_24", 48_000),
    "flac": ("FLAC", "PCM_16", 44_100),
    "mp3": ("MP3", "MPEG_LAYER_III", 44_100),
    "ogg": ("OGG", "VORBIS", 22_050),
    "opus": ("OGG", "OPUS", 48_000),
}
PYAV = {
    "m4a": ("mp4", "aac", 44_100),
    "alac.m4a": ("mp4", "alac", 48_000),
    "webm": ("webm", "libopus", 48_000),
    "aac": ("adts", "aac", 16_000),
}
KINDS = (*SOUNDFILE, *PYAV)


def tone(rate: int, seconds: float, channels: int = 1) -> np.ndarray:
    one = 0.5 * np.sin(2 * np.pi * TONE_HZ * np.arange(int(rate * seconds)) / rate)
    return np.repeat(one[:, None], channels, axis=1).astype(np.float32)


def make(folder: Path, kind: str, seconds: float = 2.0, channels: int = 1) -> Path:
    """A tone of that many seconds as a file of that kind."""
    path = folder / f"tone.{kind}"
    if kind in SOUNDFILE:
        container, codec, rate = SOUNDFILE[kind]
        soundfile.write(path, tone(rate, seconds, channels), rate, format=container, subtype=codec)
    else:
        container, codec, rate = PYAV[kind]
        encode(path, container, codec, rate, tone(rate, seconds, channels))
    return path


def encode(path: Path, container: str, codec: str, rate: int, samples: np.ndarray, **options: str) -> None:
    """Writes samples (frames, channels) with FFmpeg's libraries."""
    layout = "mono" if samples.shape[1] == 1 else "stereo"
    with av.open(str(path), "w", format=container, options=options) as output:
        stream = output.add_stream(codec, rate=rate)
        stream.layout = layout
        frame = av.AudioFrame.from_ndarray(np.ascontiguousarray(samples.T), format="fltp", layout=layout)
        frame.sample_rate, frame.pts = rate, 0
        size = stream.codec_context.frame_size or 1024
        resampler = av.AudioResampler(stream.codec_context.format, layout, rate, size)
        for piece in [*resampler.resample(frame), *resampler.resample(None)]:
            output.mux(stream.encode(piece))
        output.mux(stream.encode(None))
