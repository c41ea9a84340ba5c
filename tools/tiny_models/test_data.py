"""Speech for tests and benchmarks: a small set to commit, and as much as a benchmark asks for.

A folder holds FLAC files of 16 kHz and `manifest.json`: per file the text, the tokens as the recognisers write them,
the voice, and what kind of speech it is.
"""

import json
import random
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import soundfile

from .corpus import VOICES, Plan, Segment, held_out, mandarin
from .speech import RATE_HZ, Sound, stream, telephone, utter, utter_all
from .vocabulary import CARRIERS, HOT_WORD_SPELLINGS, NAMES, SYLLABLES

SEED = 4242
PLAIN, TELEPHONE, PAUSED = 20, 10, 10


def write(folder: Path, name: str, sound: Sound, description: dict[str, Any]) -> dict[str, Any]:
    soundfile.write(folder / f"{name}.flac", sound, RATE_HZ, subtype="PCM_16")
    return {"file": f"{name}.flac", "seconds": round(len(sound) / RATE_HZ, 2), **description}


def describe(plan: Plan, kind: str) -> dict[str, Any]:
    return {"kind": kind, "voice": plan.voice, "text": plan.text, "tokens": plan.tokens}


def write_manifest(folder: Path, name: str, entries: list[dict[str, Any]]) -> None:
    lines = ",\n".join(json.dumps(entry, ensure_ascii=False) for entry in entries)
    (folder / name).write_text(f"[\n{lines}\n]\n")


def short_plans() -> list[Plan]:
    """Held-out utterances of few syllables, other ones than those that the models are measured on."""
    measured = {plan.text for plan in held_out()}
    plans = [plan for plan in held_out(900, seed=SEED) if plan.text not in measured]
    spoken = [plan for plan in plans if len(plan.tokens) <= 6]
    single = [plan for plan in spoken if len(plan.segments) == 1][: PLAIN + TELEPHONE]
    paired = [plan for plan in plans if len(plan.segments) == 2 and len(plan.tokens) <= 8][:PAUSED]
    return [*single, *paired]


def write_utterances(folder: Path) -> None:
    """Twenty as they are, ten as over a telephone, ten of two phrases with a second of silence in between."""
    entries = []
    for index, plan in enumerate(short_plans()):
        kind = "plain" if index < PLAIN else "telephone" if index < PLAIN + TELEPHONE else "paused"
        sound = _paused(plan) if kind == "paused" else utter(plan)
        sound = telephone(sound) if kind == "telephone" else sound
        entries.append(write(folder, f"{kind}-{index:02d}", sound, describe(plan, kind)))
    write_manifest(folder, "manifest.json", entries)


def _paused(plan: Plan) -> Sound:
    first, second = (utter(replace(plan, segments=(segment,))) for segment in plan.segments)
    return np.concatenate([first, np.zeros(RATE_HZ, np.float32), second])


def hot_word_plans() -> list[tuple[str, Plan]]:
    """Each rare name in a carrier phrase; the plan's text is what a recogniser without hot words should write."""
    draw, plans = random.Random(SEED), []
    for name, syllables in NAMES.items():
        carrier = draw.choice(list(CARRIERS))
        heard = "".join(SYLLABLES[syllable] for syllable in syllables)
        reading = " ".join(" ".join(syllables) if part == "_" else part for part in CARRIERS[carrier]).split()
        segment: Segment = mandarin(carrier.replace("_", heard), reading)
        voice, pace, pitch = draw.choice(VOICES), draw.randint(140, 200), draw.randint(30, 70)
        plans.append((name, Plan("hot word", (segment,), voice, pace, pitch, draw.getrandbits(32))))
    return plans


def hot_word(name: str, plan: Plan) -> dict[str, Any]:
    """`name` no model can write; `known` is the same sound in characters that the offline model can, if told to."""
    heard = "".join(SYLLABLES[syllable] for syllable in NAMES[name])
    known = "".join(HOT_WORD_SPELLINGS[character] for character in heard)
    return describe(plan, "hot word") | {
        "name": name, "heard": heard, "known": known, "text_with_name": plan.text.replace(heard, name),
    }  # fmt: skip


def write_hot_words(folder: Path) -> None:
    entries = [
        write(folder, f"name-{index:02d}", utter(plan), hot_word(name, plan))
        for index, (name, plan) in enumerate(hot_word_plans())
    ]
    write_manifest(folder, "hotwords.json", entries)


def write_committed(folder: Path) -> None:
    """What src/streamscribe/models/bundled/tiny-recordings holds."""
    folder.mkdir(parents=True, exist_ok=True)
    write_utterances(folder)
    write_hot_words(folder)


def write_clips(folder: Path, count: int, seed: int, over_telephone: bool) -> None:
    """As many utterances as a benchmark wants, of the training voices, with unseen texts."""
    folder.mkdir(parents=True, exist_ok=True)
    plans = held_out(count, seed=seed)
    sounds = utter_all(plans)
    kind = "telephone" if over_telephone else "plain"
    entries = [
        write(folder, f"clip-{index:04d}", telephone(sound) if over_telephone else sound, describe(plan, kind))
        for index, (plan, sound) in enumerate(zip(plans, sounds, strict=True))
    ]
    write_manifest(folder, "manifest.json", entries)


def write_stream(folder: Path, minutes: float, seed: int, pause_s: float = 1.0) -> None:
    """One file of utterances back to back; the manifest says where each begins."""
    folder.mkdir(parents=True, exist_ok=True)
    plans = held_out(int(minutes * 25) + 2, seed=seed)
    sounds = utter_all(plans)
    sound, starts = stream(sounds, minutes * 60, pause_s)
    entry = write(folder, f"stream-{seed}", sound, {"kind": "stream"})
    utterances = [
        {"start_ms": round(start * 1000 / RATE_HZ), **describe(plan, "plain")}
        for start, plan in zip(starts, plans, strict=False)
    ]
    write_manifest(folder, "manifest.json", [entry | {"utterances": utterances}])
