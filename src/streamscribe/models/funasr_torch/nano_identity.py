"""What Fun-ASR-Nano's embeddings and texts depend on besides inputs and weights, for the keys of what is kept."""

from importlib.metadata import version
from typing import Any

import torch

from streamscribe.models.funasr_torch.nano_modules import NanoModules
from streamscribe.models.lfr import FRONT_END
from streamscribe.models.ports import Identity

_SCHEMA = 3


def encoder_identity(parts: NanoModules, device: torch.device) -> Identity:
    """Of the encoder and the adaptor in FunASR's code, whose attention has one backend.

    Reads the versions of installed packages, which takes milliseconds: to be asked for once.
    """
    return (
        *("fun-asr-nano encoder", _SCHEMA, torch.__version__, version("funasr"), device.type),
        *(field for module in (parts.audio_encoder, parts.adaptor) for field in _of_module(module)),
        *("halvings", parts.halvings),
        *FRONT_END,
    )


def decoder_identity(parts: NanoModules, device: torch.device) -> Identity:
    """Of the language model in transformers' code, with greedy decoding; to be asked for once."""
    libraries = (torch.__version__, version("transformers"))
    return ("fun-asr-nano decoder", _SCHEMA, *libraries, device.type, *_of_module(parts.language_model))


def _of_module(module: Any) -> Identity:
    """Class, type of numbers, attention's backend, and adapters by name."""
    dtype = next((str(weight.dtype) for weight in module.parameters()), "none")
    attention = getattr(getattr(module, "config", None), "_attn_implementation", None) or "its own"
    adapters = sorted(getattr(module, "peft_config", None) or ())
    return (type(module).__qualname__, dtype, attention, len(adapters), *adapters)
