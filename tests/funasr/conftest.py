"""FunASR itself, imported once, as the oracle of what is computed in batches here."""

import importlib.util
import logging
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import streamscribe.models
from streamscribe.core.batching import BatchPolicy

from .nano_kit import OPEN, IdsAsWords

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


@pytest.fixture(scope="module")
def nano(nano_directory):
    """The tiny Fun-ASR-Nano, whose answers are ids."""
    from streamscribe.models.funasr_torch.nano import FunAsrNano

    nano = FunAsrNano(files_of(nano_directory), device="cpu", threads=1)
    nano._parts = replace(nano.parts, tokenizer=IdsAsWords(nano.parts.tokenizer))
    return nano


@pytest.fixture(scope="module")
def started(nano) -> Callable[..., Any]:
    """A decoder of the model that is warm, within a `with`, and what it told: steps and errors, and ejections."""
    from streamscribe.models.funasr_torch.continuous import ContinuousDecoder
    from streamscribe.models.funasr_torch.generation_loop import Capacity

    @contextmanager
    def start(
        policy: BatchPolicy = OPEN, step_timeout_s: float = 60.0, max_failures: int = 5, **capacity: int
    ) -> Iterator[Any]:
        told: list[Any] = []
        ejections: list[tuple[str, str]] = []
        decoder = ContinuousDecoder(
            "nano",
            nano.parts,
            policy=policy,
            capacity=Capacity(**capacity),
            on_step=told.append,
            on_error=lambda name, error: told.append((name, error)),
            step_timeout_s=step_timeout_s,
            max_failures=max_failures,
            on_ejected=lambda name, cause: ejections.append((name, cause)),
        )
        decoder.told, decoder.ejections = told, ejections
        decoder.start()
        try:
            decoder.wait_ready()
            yield decoder
        finally:
            decoder.close()

    return start


@pytest.fixture
def hold(nano) -> Iterator[Callable[[Callable[[], object]], None]]:
    """Has something done at each step of the language model, before its last layer."""
    handles = []

    def before_each_step(act: Callable[[], object]) -> None:
        def hook(_module: Any, _args: Any) -> None:
            act()

        handles.append(nano.parts.language_model.lm_head.register_forward_pre_hook(hook))

    yield before_each_step
    for handle in handles:
        handle.remove()
