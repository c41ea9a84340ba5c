"""Fun-ASR-Nano's parts from a local FunASR directory: audio encoder, adaptor, language model and tokenizer."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import yaml

from streamscribe.core.errors import ModelUnavailable
from streamscribe.models.fbank import MELS
from streamscribe.models.funasr_torch.load import load_weights
from streamscribe.models.funasr_torch.packages import import_funasr
from streamscribe.models.lfr import STACKED

_MODULES = ("funasr.models.fun_asr_nano.model", "funasr.models.sense_voice.model", "funasr.models.llm_asr.adaptor")
_LANGUAGE_MODEL = "Qwen3-0.6B"
"""The folder of the model's directory that the language model lies in."""
_HALVINGS = 3
"""With a low frame rate, FunASR takes an eighth of the rows, halving three times and rounding up."""


@dataclass(frozen=True, slots=True)
class NanoModules:
    """The model's parts in evaluation mode. The audio parts compute in float32, the language model in its own type.

    `halvings` is how often the rows of the adaptor are halved before the language model reads the first of them.
    """

    audio_encoder: Any
    adaptor: Any
    language_model: Any
    tokenizer: Any
    halvings: int
    before_user: str
    before_answer: str


def load_nano(files: Mapping[str, Path], device: torch.device) -> NanoModules:
    """Builds the parts with FunASR's classes and attention by `sdpa`.

    Raises ModelUnavailable for a model of another class, weights that do not fit, or a missing language model.
    """
    import_funasr(*_MODULES)
    from funasr.register import tables
    from transformers import AutoTokenizer

    directory = files["config.yaml"].parent
    config = yaml.safe_load(files["config.yaml"].read_text(encoding="utf-8"))
    if config.get("model") != "FunASRNano":
        raise ModelUnavailable(f"a Fun-ASR-Nano is needed, not {config.get('model')!r}")
    language_model = _language_model(files, directory)
    kind = "bf16" if device.type == "cuda" else "fp32"
    model = tables.model_classes["FunASRNano"](
        audio_encoder=config["audio_encoder"],
        audio_encoder_conf={name: value for name, value in config["audio_encoder_conf"].items() if name != "hub"},
        audio_adaptor=config["audio_adaptor"],
        audio_adaptor_conf=config["audio_adaptor_conf"],
        llm_conf={
            "init_param_path": str(language_model),
            "llm_dtype": kind,
            "load_kwargs": {"attn_implementation": "sdpa"},
        },
        input_size=STACKED * MELS,
    )
    load_weights(model, files["model.pt"])
    model.to(device).eval()
    prompt = config.get("dataset_conf", {})
    return NanoModules(
        model.audio_encoder,
        model.audio_adaptor,
        model.llm,
        AutoTokenizer.from_pretrained(str(language_model), local_files_only=True, trust_remote_code=False),
        halvings=_HALVINGS if model.use_low_frame_rate else 0,
        before_user="<|im_start|>system\nYou are a helpful assistant.<|im_end|>\n"
        if prompt.get("sys_prompt", True)
        else "",
        before_answer="" if prompt.get("do_think", True) else "<think>\n\n</think>\n\n",
    )


def _language_model(files: Mapping[str, Path], directory: Path) -> Path:
    """The folder of the language model's configuration and tokenizer, which must lie in the model's directory."""
    name = _LANGUAGE_MODEL
    if "configuration.json" in files:
        metas = json.loads(files["configuration.json"].read_text(encoding="utf-8")).get("file_path_metas", {})
        name = metas.get("llm_conf", {}).get("init_param_path", name)
    folder = (directory / name).resolve()
    if not folder.is_dir() or not folder.is_relative_to(directory.resolve()):
        raise ModelUnavailable(f"the model's directory has no language model {name!r}")
    return folder
