"""Speaks the plans with espeak-ng; sound is mono float32 at 16 kHz in -1..1."""

import random
import subprocess
from collections.abc import Iterable, Sequence
from multiprocessing import Pool

import numpy as np
from numpy.typing import NDArray
from scipy.signal import resample_poly

from .corpus import Plan, Segment

RATE_HZ = 16_000
Sound = NDArray[np.float32]

_VOICES = {"zh": "cmn-latn-pinyin", "en": "en-us"}
_AUDIBLE = 0.004


def say(segment: Segment, voice: str, words_per_minute: int, pitch: int) -> Sound:
    """One segment, cut 10 ms before and 30 ms after what is audible."""
    wave = subprocess.run(
        ["espeak-ng", "-v", f"{_VOICES[segment.language]}+{voice}", "-s", str(words_per_minute), "-p", str(pitch),
         "--stdout", segment.reading],
        capture_output=True,
        check=True,
    ).stdout  # fmt: skip
    samples = wave[wave.index(b"data") + 8 :]
    native = np.frombuffer(samples[: len(samples) // 2 * 2], np.int16).astype(np.float32) / 32768
    sound = resample_poly(native, 320, 441).astype(np.float32)  # espeak-ng speaks at 22050 Hz
    audible = np.flatnonzero(np.abs(sound) > _AUDIBLE)
    if not len(audible):
        raise ValueError(f"espeak-ng said nothing for {segment.reading!r}")
    return sound[max(0, audible[0] - 160) : audible[-1] + 480]


def utter(plan: Plan) -> Sound:
    """The utterance with silence around its segments; a plan without segments is 0.6 to 2 s of silence."""
    draw = random.Random(plan.seed)

    def pause(shortest_s: float, longest_s: float) -> Sound:
        return np.zeros(int(RATE_HZ * draw.uniform(shortest_s, longest_s)), np.float32)

    if not plan.segments:
        return pause(0.6, 2.0)
    parts = [pause(0.05, 0.9)]
    for index, segment in enumerate(plan.segments):
        if index:
            parts.append(pause(0.03, 0.7))
        parts.append(say(segment, plan.voice, plan.words_per_minute, plan.pitch))
    parts.append(pause(0.05, 1.0))
    return np.concatenate(parts)


def utter_all(plans: Sequence[Plan], processes: int = 2) -> list[Sound]:
    with Pool(processes) as pool:
        return pool.map(utter, plans, chunksize=16)


def telephone(sound: Sound) -> Sound:
    """The sound after a telephone line: 8 kHz, 8-bit mu-law (ITU-T G.711), and back to 16 kHz."""
    narrow = np.clip(resample_poly(sound, 1, 2), -1, 1)
    steps = np.round(np.log1p(255 * np.abs(narrow)) / np.log(256) * 127) / 127
    decoded = np.sign(narrow) * (np.power(256, steps) - 1) / 255
    return resample_poly(decoded, 2, 1).astype(np.float32)


def stream(sounds: Iterable[Sound], length_s: float, pause_s: float) -> tuple[Sound, list[int]]:
    """Utterances back to back until `length_s` is reached, and the sample at which each begins."""
    gap, parts, starts, position = np.zeros(int(RATE_HZ * pause_s), np.float32), [], [], 0
    for sound in sounds:
        if position >= length_s * RATE_HZ:
            break
        starts.append(position)
        parts += [sound, gap]
        position += len(sound) + len(gap)
    return np.concatenate(parts), starts
