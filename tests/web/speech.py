"""A voice for the fake microphone: hums with pauses between them, which the fake models hear as words."""

from pathlib import Path

import numpy as np
import soundfile

RATE = 48_000
HUMS_S = (1.6, 2.2, 1.3)
PAUSE_S = 1.2


def make_speech(path: Path, *, rounds: int = 1, loudness: float = 0.2) -> Path:
    """A WAV file of three hums a round, 8.7 s."""
    hums = [loudness * _hum(seconds, 120 + 30 * pitch) for pitch, seconds in enumerate(HUMS_S)]
    pause = np.zeros(int(RATE * PAUSE_S))
    soundfile.write(path, np.concatenate([part for hum in hums for part in (hum, pause)] * rounds), RATE, "PCM_16")
    return path


def _hum(seconds: float, pitch_hz: float) -> np.ndarray:
    at = np.arange(int(RATE * seconds)) / RATE
    tone: np.ndarray = sum(np.sin(2 * np.pi * pitch_hz * k * at) / k for k in range(1, 12))
    return (0.6 + 0.4 * np.sin(2 * np.pi * 4 * at)) * tone
