"""What all FunASR models need: to be built from a configuration without a hub, and to be written as a directory."""

import json
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
import yaml
from torch import nn

from .training import Weights

Configuration = dict[str, Any]

FRONT_END = {
    "fs": 16000, "window": "hamming", "n_mels": 80, "frame_length": 25, "frame_shift": 10, "lfr_m": 7, "lfr_n": 6,
    "dither": 0.0,
}  # fmt: skip


def build(configuration: Configuration, tokens: Sequence[str], normalisation: Path | None, work: Path) -> nn.Module:
    """A model with fresh weights; FunASR reads the token list from a file, which is left in `work`."""
    from funasr import AutoModel

    work.mkdir(parents=True, exist_ok=True)
    token_list = work / "tokens.json"
    token_list.write_text(json.dumps(list(tokens), ensure_ascii=False))
    settings = json.loads(json.dumps(configuration))
    settings["tokenizer_conf"]["token_list"] = str(token_list)
    if normalisation is not None:
        settings["frontend_conf"]["cmvn_file"] = str(normalisation)
    model, _ = AutoModel.build_model(**settings, device="cpu", disable_update=True)
    return model


def go_on(model: nn.Module, folder: Path) -> None:
    """Loads the weights of a directory written before; what it lacks keeps its fresh weights."""
    model.load_state_dict(torch.load(folder / "model.pt", weights_only=True), strict=False)


def write(
    folder: Path, configuration: Configuration, tokens: Sequence[str], normalisation: Path | None, weights: Weights
) -> None:
    """A directory that `AutoModel(model=folder)` loads: weights as 16-bit floats, which loading widens again."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.yaml").write_text(yaml.safe_dump(configuration, allow_unicode=True, sort_keys=False))
    (folder / "tokens.json").write_text(json.dumps(list(tokens), ensure_ascii=False))
    if normalisation is not None:
        shutil.copy(normalisation, folder / "am.mvn")
    torch.save({name: value.clone().half() for name, value in weights.items()}, folder / "model.pt")
