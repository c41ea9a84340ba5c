"""Whether continuous batches compute what the language model computes alone, with the packages that are installed."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import Any

import numpy as np
import torch

from streamscribe.core.errors import ModelUnavailable
from streamscribe.models.funasr_torch.generation_loop import GenerationLoop, Written
from streamscribe.models.funasr_torch.nano_dialogue import NanoDialogue
from streamscribe.models.funasr_torch.virtual_embedding import VirtualEmbedding
from streamscribe.models.ports import DecodeRequest

_ROWS = (12, 5)
_TOKENS = 4
_PARITY = 1e-3
_PARITY_HALF = 5e-2


async def check_parity(
    model: Any, dialogue: NanoDialogue, embedding: VirtualEmbedding, generation: GenerationLoop
) -> None:
    """Writes two texts side by side, which also warms up; raises ModelUnavailable where their first tokens are more or
    less probable than by the model alone."""
    allowed = _PARITY if model.dtype == torch.float32 else _PARITY_HALF
    begun = []
    for count in _ROWS:
        wave = np.sin(np.arange(count * embedding.width, dtype=np.float32)).reshape(count, -1)
        prompt, rows = dialogue.prompt(DecodeRequest(wave, 0)), embedding.hold(wave)
        ids = [*prompt.before, *rows, *prompt.after]
        end: asyncio.Future[Written] = asyncio.get_running_loop().create_future()
        if not generation.add(f"warm-up {count}", ids, _TOKENS, partial(_note, end)):
            raise ModelUnavailable("Fun-ASR-Nano's continuous batches do not run")
        begun.append((ids, rows, end))
    for ids, rows, end in begun:
        scores = model(inputs_embeds=embedding(torch.tensor([ids], device=model.device))).logits[0, -1].float()
        alone = float(torch.log_softmax(scores, -1).max())
        written = await end
        if written.error is not None:
            raise RuntimeError(written.error)
        if not abs(written.logprobs[0] - alone) <= allowed * float(scores.abs().max()):
            raise ModelUnavailable("Fun-ASR-Nano's continuous batches compute wrongly with the installed packages")
        embedding.give_back(rows)


def _note(end: asyncio.Future[Written], written: Written) -> None:
    if written.is_finished() and not end.done():
        end.set_result(written)
