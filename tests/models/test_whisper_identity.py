"""What a Whisper's embeddings depend on besides its weights and the audio is in the keys of what is kept of it."""

from pathlib import Path

import ctranslate2
import numpy as np
import pytest

from streamscribe.models.registry import open_verified
from streamscribe.models.whisper import model
from streamscribe.models.whisper.model import WhisperModel


@pytest.fixture(scope="module")
def whisper(model_dir: Path) -> WhisperModel:
    return WhisperModel(open_verified("whisper-base", model_dir), threads=1)


@pytest.mark.parametrize(
    ("of", "name", "other"),
    [(ctranslate2, "__version__", "0.0.0"), (np, "__version__", "0.0.0"), (model, "_TAIL_FRAMES", 1)],
    ids=["the library", "what computes features", "how much silence is read behind"],
)
def test_what_changes_an_embedding_changes_its_key(
    whisper: WhisperModel, monkeypatch: pytest.MonkeyPatch, of: object, name: str, other: object
) -> None:
    before = whisper.encoder_identity
    monkeypatch.setattr(of, name, other)
    assert whisper.encoder_identity != before


def test_its_class_device_arithmetic_and_front_end_are_in_the_key(whisper: WhisperModel, model_dir: Path) -> None:
    assert {"whisper", "cpu", *whisper.front_end} <= set(whisper.encoder_identity)
    exact = WhisperModel(open_verified("whisper-base", model_dir), threads=1, compute_type="float32")
    assert exact.encoder_identity != whisper.encoder_identity
    assert exact.front_end == whisper.front_end
