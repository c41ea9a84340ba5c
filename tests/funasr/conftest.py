"""FunASR itself, imported once, as the oracle of what is computed in batches here."""

import importlib.util
import logging
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import streamscribe.models

BUNDLED = Path(streamscribe.models.__file__).parent / "bundled"
MISSING = [name for name in ("torch", "funasr", "transformers") if importlib.util.find_spec(name) is None]
REQUIRED = os.environ.get("STREAMSCRIBE_TEST_FUNASR") == "1"
"""CI sets it: there the extra is installed, and a missing package is a failure."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    here = [item for item in items if Path(item.path).parent == Path(__file__).parent]
    for item in here:
        item.add_marker(pytest.mark.funasr)
        item.add_marker(pytest.mark.timeout(240))
        if MISSING and not REQUIRED:
            item.add_marker(pytest.mark.skip(reason=f"the funasr extra is not installed: no {', '.join(MISSING)}"))


def files_of(directory: Path) -> Mapping[str, Path]:
    return {str(file.relative_to(directory)): file for file in directory.rglob("*") if file.is_file()}


@pytest.fixture(scope="session")
def streaming_directory() -> Path:
    return BUNDLED / "tiny-paraformer-streaming"


@pytest.fixture(scope="session")
def nano_directory() -> Path:
    return BUNDLED / "tiny-fun-asr-nano"


@pytest.fixture(scope="session")
def bundled() -> Path:
    return BUNDLED


@pytest.fixture(scope="session")
def load_auto_model() -> Callable[[Path], Any]:
    """FunASR's own way to load a local directory, without the import of all its models."""
    from streamscribe.models.funasr_torch.packages import import_funasr

    import_funasr(
        "funasr.auto.auto_model",
        "funasr.models.paraformer_streaming.model",
        "funasr.models.scama.encoder",
        "funasr.models.sense_voice.model",
        "funasr.models.fun_asr_nano.model",
        "funasr.models.llm_asr.adaptor",
        "funasr.frontends.wav_frontend",
        "funasr.tokenizer.char_tokenizer",
        "funasr.tokenizer.hf_tokenizer",
    )
    import funasr

    def load(directory: Path) -> Any:
        level = logging.getLogger().level
        try:
            return funasr.AutoModel(
                model=str(directory), device="cpu", ncpu=1, disable_update=True, disable_pbar=True, log_level="ERROR"
            )
        finally:
            logging.getLogger().setLevel(level)

    return load


@pytest.fixture(scope="session")
def speech() -> Callable[[int, int], Any]:
    """Noise whose loudness changes like syllables, repeatable by its seed: (seed, samples) to float32 samples."""

    def make(seed: int, samples: int) -> Any:
        rng = np.random.default_rng(seed)
        loudness = np.repeat(rng.uniform(0, 0.3, samples // 2400 + 1), 2400)[:samples]
        return (rng.standard_normal(samples) * loudness).astype(np.float32)

    return make


@pytest.fixture(scope="session")
def talkative_directory(streaming_directory, tmp_path_factory) -> Path:
    """The tiny streaming Paraformer, made to hear all kinds of tokens in any noise."""
    import shutil

    import torch

    directory = tmp_path_factory.mktemp("talkative")
    for name in ("config.yaml", "tokens.json", "am.mvn"):
        shutil.copy(streaming_directory / name, directory)
    weights = torch.load(streaming_directory / "model.pt", weights_only=True)
    weights["predictor.cif_output.weight"] *= 0.1
    weights["predictor.cif_output.bias"].fill_(-0.5)
    output = weights["decoder.output_layer.weight"]
    output.copy_(0.3 * torch.randn(output.shape, generator=torch.Generator().manual_seed(0)))
    weights["decoder.output_layer.bias"][:3] = -100
    torch.save(weights, directory / "model.pt")
    return directory


@pytest.fixture(scope="session")
def syllables() -> Callable[[int, int], Any]:
    """Voiced syllables with formants that move, in which trained models hear words: (seed, samples) to samples."""

    def make(seed: int, samples: int) -> Any:
        rng = np.random.default_rng(seed)
        time = np.arange(samples) / 16_000
        wave = np.zeros(samples)
        for harmonic in range(1, 25):
            frequency = harmonic * 140
            loudness = sum(
                np.exp(
                    -(((frequency - np.interp(time, np.linspace(0, time[-1], 12), rng.uniform(*band, 12))) / 150) ** 2)
                )
                for band in ((250, 900), (900, 2300))
            )
            wave += loudness * np.sin(2 * np.pi * frequency * time)
        envelope = np.abs(np.sin(np.pi * 3.5 * time)) ** 0.7
        return (0.1 * wave * envelope).astype(np.float32)

    return make
