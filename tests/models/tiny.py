"""The tiny models of the package and the speech that they know."""

import json
from pathlib import Path

import numpy as np
import soundfile

import streamscribe.models
from streamscribe.models.ports import Samples

BUNDLED = Path(streamscribe.models.__file__).parent / "bundled"
SPEECH = Path(streamscribe.models.__file__).parent / "bundled/tiny-recordings"
GOLDEN = Path(__file__).parents[1] / "golden"


def files(name: str) -> dict[str, Path]:
    return {file.name: file for file in (BUNDLED / name).iterdir()}


def samples(file: str) -> Samples:
    return np.ascontiguousarray(soundfile.read(SPEECH / file, dtype="float32")[0])


def golden(name: str) -> dict:
    return json.loads((GOLDEN / name).read_text())
