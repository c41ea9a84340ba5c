"""The committed tiny models are whole, small and described."""

import hashlib
import json
from pathlib import Path

import pytest

import streamscribe.models

BUNDLED = Path(streamscribe.models.__file__).parent / "bundled"
SPEECH = BUNDLED / "tiny-recordings"
MODELS = {
    "tiny-paraformer-streaming": {"model.pt", "model.onnx", "decoder.onnx", "tokens.json", "tokens.txt", "am.mvn"},
    "tiny-paraformer": {"model.pt", "model.onnx", "model_eb.onnx", "tokens.json", "am.mvn", "seg_dict"},
    "tiny-sensevoice": {"model.pt", "model.onnx", "tokens.json", "am.mvn"},
    "tiny-punc": {"model.pt", "model.onnx", "tokens.json"},
    "tiny-punc-realtime": {"model.pt", "model.onnx", "tokens.json"},
    "tiny-fun-asr-nano": {"model.pt", "configuration.json"},
}
LIMIT_BYTES = 16_000_000


@pytest.mark.parametrize("name", MODELS)
def test_every_file_of_a_model_has_its_sum_and_every_sum_its_file(name: str) -> None:
    folder = BUNDLED / name
    lines = (folder / "SHA256SUMS").read_text().splitlines()
    sums = {path: digest for digest, path in (line.split("  ", 1) for line in lines)}
    files = {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}
    assert files - {"SHA256SUMS"} == set(sums)
    assert {path: hashlib.sha256((folder / path).read_bytes()).hexdigest() for path in sums} == sums


@pytest.mark.parametrize(("name", "files"), MODELS.items())
def test_a_model_directory_holds_what_funasr_and_the_engines_look_for_and_a_card(name: str, files: set[str]) -> None:
    held = {path.name for path in (BUNDLED / name).iterdir()}
    assert files | {"config.yaml", "README.md"} <= held
    assert "## Making it again" in (BUNDLED / name / "README.md").read_text()


def test_all_models_together_stay_under_sixteen_megabytes() -> None:
    files = [path for name in MODELS for path in (BUNDLED / name).rglob("*") if path.is_file()]
    assert sum(path.stat().st_size for path in files) < LIMIT_BYTES


def percent(name: str, part: str) -> dict[str, float]:
    figures = json.loads((BUNDLED / name / "figures.json").read_text())
    return {case: value[part] for case, value in figures.items() if isinstance(value, dict) and part in value}


def test_streamed_token_errors_stay_within_two_percent_and_five_over_a_telephone() -> None:
    errors = percent("tiny-paraformer-streaming", "token_error_percent")
    for mode in ("torch [0,10,5], look-back 4/1", "as ONNX: [5,10,5], no look-back"):
        assert errors[f"clean, {mode}"] <= 2
        assert errors[f"telephone, {mode}"] <= 5
        assert errors[f"session of 10 min, reset at endpoints, {mode}"] <= 2


def test_offline_token_errors_stay_within_one_percent_on_known_words_and_five_over_a_telephone() -> None:
    for name in ("tiny-paraformer", "tiny-sensevoice"):
        words, everything = percent(name, "words_percent"), percent(name, "token_error_percent")
        assert max(value for case, value in words.items() if case.startswith("clean")) <= 1
        assert max(value for case, value in everything.items() if case.startswith("telephone")) <= 5


@pytest.mark.parametrize("manifest", ["manifest.json", "hotwords.json"])
def test_the_test_speech_is_forty_described_clips(manifest: str) -> None:
    clips = json.loads((SPEECH / manifest).read_text())
    assert len(clips) == 40
    assert all((SPEECH / clip["file"]).exists() and clip["tokens"] for clip in clips)
