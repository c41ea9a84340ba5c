"""Building FunASR's streaming Paraformer from a local model directory: no hub, no remote code, no pickled objects."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import yaml
from torch import Tensor, nn

from streamscribe.core.errors import ModelUnavailable
from streamscribe.models.fbank import MELS
from streamscribe.models.funasr_torch.packages import import_funasr
from streamscribe.models.lfr import STACKED, check_frontend

_MODULES = (
    "funasr.models.paraformer_streaming.model",
    "funasr.models.scama.encoder",
    "funasr.models.paraformer.decoder",
    "funasr.models.paraformer.cif_predictor",
)
_UNWRAPPED = ("state_dict", "model_state_dict", "model")


@dataclass(frozen=True, slots=True)
class StreamingModules:
    """FunASR's own modules with their weights, in evaluation mode, and what stands beside them in the directory.

    `silent_ids` are the ids that are no text: blank, start and end of sentence, and the unknown token.
    """

    encoder: Any
    predictor: Any
    decoder: Any
    tokens: tuple[str, ...]
    silent_ids: frozenset[int]


def load_streaming(files: Mapping[str, Path], device: torch.device) -> StreamingModules:
    """The modules of a directory with `config.yaml`, `model.pt` and `tokens.json`.

    Raises ModelUnavailable for a model of another class and for weights that do not fit.
    """
    config = yaml.safe_load(files["config.yaml"].read_text(encoding="utf-8"))
    tokens = tuple(json.loads(files["tokens.json"].read_text(encoding="utf-8")))
    model = build_streaming(config, tokens)
    load_weights(model, files["model.pt"])
    model.to(device).eval()
    _check(model)
    unknown = {index for index, token in enumerate(tokens) if token == "<unk>"}
    silent = frozenset((model.blank_id, model.sos, model.eos, *unknown))
    return StreamingModules(model.encoder, model.predictor, model.decoder, tokens, silent)


def build_streaming(config: Mapping[str, Any], tokens: Sequence[str]) -> Any:
    """FunASR's model of a `config.yaml`, with fresh weights; raises ModelUnavailable for one of another class."""
    if config.get("model") != "ParaformerStreaming":
        raise ModelUnavailable(f"a streaming Paraformer is needed, not {config.get('model')!r}")
    check_frontend(config)
    import_funasr(*_MODULES)
    from funasr.register import tables

    return tables.model_classes["ParaformerStreaming"](
        **{**config, **config["model_conf"]},
        input_size=STACKED * MELS,
        vocab_size=len(tokens),
        token_list=tokens,
    )


def load_weights(model: nn.Module, file: Path) -> None:
    """Fills every parameter from a file of tensors; parameters of the file that the model has not are passed over.

    A parameter that is tied to another may be missing. Raises ModelUnavailable for a file that misses one, has one of
    another shape, or holds anything but tensors.
    """
    try:
        state = torch.load(file, map_location="cpu", weights_only=True)
    except Exception as error:  # the file's edge: reading what is no such file may raise anything
        raise ModelUnavailable(f"{file.name} is no file of weights") from error
    for wrapper in _UNWRAPPED:
        state = state.get(wrapper, state) if isinstance(state, dict) else {}
    wanted = model.state_dict()
    tensors = ((name, value) for name, value in state.items() if isinstance(value, Tensor))
    weights: dict[str, Tensor] = {name.removeprefix("module."): value for name, value in tensors}
    fit = {name for name, value in wanted.items() if name in weights and weights[name].shape == value.shape}
    filled = {wanted[name].data_ptr() for name in fit}
    unfit = [name for name, value in wanted.items() if name not in fit and value.data_ptr() not in filled]
    if unfit:
        raise ModelUnavailable(f"{file.name} does not fit the model: {len(unfit)} weights, the first is {unfit[0]}")
    model.load_state_dict({name: weights[name] for name in wanted if name in fit}, strict=False)


def _check(model: Any) -> None:
    """Only what streaming models are made of is computed here; another build would be computed wrongly."""
    decoder = model.decoder
    causal = all(layer.self_attn.pad_fn.padding[1] == 0 for layer in decoder.decoders)
    pre_normalised = model.encoder.normalize_before and decoder.normalize_before
    if not (causal and pre_normalised) or decoder.num_blocks != decoder.att_layer_num or model.normalize is not None:
        raise ModelUnavailable("this streaming Paraformer is built in a way that is not supported")
