"""Short recordings that the small models understand, for loads that must be heard right."""

import json
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import soundfile

from streamscribe.bench.corpus import Utterance
from streamscribe.models.registry import open_verified

RECORDINGS = "tiny-recordings"
KINDS = ("plain", "paused", "telephone")
QUIET = 131
"""Below this amplitude (of 32768) the synthesiser's output is silence."""


@dataclass(frozen=True, slots=True)
class Recording:
    """16 kHz mono PCM, what is said in it, and the sample after the last sound."""

    samples: npt.NDArray[np.int16]
    text: str
    speech_end: int


@dataclass(frozen=True, slots=True)
class Named:
    """A recording in which a rare name is said; `said.text` has it in the characters that a model knows."""

    said: Utterance
    name: str


def recordings(kind: str = "plain") -> list[Recording]:
    """The catalogue's recordings of one kind (`plain`, `paused`, `telephone`), in the order of their manifest."""
    return [_read(file, text) for file, text in entries(kind)]


def entries(kind: str) -> list[tuple[Path, str]]:
    """File and text of each recording of one kind."""
    files = open_verified(RECORDINGS, Path())
    manifest = _manifest(files["manifest.json"])
    return [(files[entry["file"]], entry["text"]) for entry in manifest if entry["kind"] == kind]


def utterances() -> list[Utterance]:
    """The recordings of every kind but those with rare names."""
    return [Utterance(file, text) for kind in KINDS for file, text in entries(kind)]


def named() -> list[Named]:
    """The recordings with rare names, no name twice."""
    files = open_verified(RECORDINGS, Path())
    entries = _manifest(files["hotwords.json"])
    return [Named(Utterance(files[entry["file"]], entry["text"], "zh"), entry["name"]) for entry in entries]


def _manifest(file: Path) -> list[dict[str, str]]:
    entries: list[dict[str, str]] = json.loads(file.read_text(encoding="utf-8"))
    return entries


def _read(file: Path, text: str) -> Recording:
    samples, _ = soundfile.read(file, dtype="int16")
    loud = np.flatnonzero(np.abs(samples.astype(np.int32)) > QUIET)
    return Recording(samples, text, int(loud[-1]) + 1)
