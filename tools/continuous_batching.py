"""Writes 16 answers one by one, as one padded batch, and in continuous batches: seconds, and whether tokens are equal.

    OMP_NUM_THREADS=1 python tools/continuous_batching.py [--runs 3]

Needs the `funasr` extra. The language model is a random Qwen3 of 29 million parameters, the prompts are 40 to 160 rows
of noise, the answers 8 to 48 tokens. What it showed is in docs/experiments/continuous-batching.md.
"""

import argparse
import asyncio
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
import torch

from streamscribe.models.funasr_torch.generation_loop import Capacity, GenerationLoop, Written
from streamscribe.models.funasr_torch.nano import left_padded
from streamscribe.models.funasr_torch.virtual_embedding import VirtualEmbedding, with_embedding
from streamscribe.models.ports import Embedding

REQUESTS = 16
Job = tuple[Embedding, int]
Tokens = list[int]


def main() -> None:
    """Prints a line for each way and run."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--runs", type=int, default=3)
    runs = parser.parse_args().runs
    torch.set_num_threads(1)
    model, jobs = random_qwen3(), random_jobs()
    ways: dict[str, Callable[[Any, Sequence[Job]], list[Tokens]]] = {
        "one by one": one_by_one,
        "padded batch": padded_batch,
        "continuous": continuous,
        "continuous, 8 side by side": lambda model, jobs: continuous(model, jobs, 8),
    }
    with torch.inference_mode():
        expected = one_by_one(model, jobs)
        for run in range(runs):
            for name, way in ways.items():
                began, worked = time.perf_counter(), time.process_time()
                written = way(model, jobs)
                seconds, cpu = time.perf_counter() - began, time.process_time() - worked
                equal = sum(map(list.__eq__, written, expected))
                print(f"run {run + 1}  {name:28} {seconds:6.2f} s  {cpu:6.2f} CPU s  equal {equal}/{REQUESTS}")


def random_qwen3() -> Any:
    """The language model, with attention by `sdpa`."""
    from transformers import Qwen3Config, Qwen3ForCausalLM

    torch.manual_seed(0)
    config = Qwen3Config(
        vocab_size=20_000,
        hidden_size=512,
        intermediate_size=1536,
        num_hidden_layers=6,
        num_attention_heads=8,
        num_key_value_heads=4,
        head_dim=64,
        tie_word_embeddings=True,
        eos_token_id=None,
        pad_token_id=0,
        attn_implementation="sdpa",
    )
    model = Qwen3ForCausalLM(config).eval()
    print(f"{sum(weight.numel() for weight in model.parameters()) / 1e6:.1f} million parameters")
    return model


def random_jobs() -> list[Job]:
    """Rows of noise, and how many tokens to write behind them."""
    rng = np.random.default_rng(0)
    lengths, limits = rng.integers(40, 161, REQUESTS), rng.integers(8, 49, REQUESTS)
    return [
        (rng.normal(0, 0.02, (length, 512)).astype(np.float32), int(limit))
        for length, limit in zip(lengths, limits, strict=True)
    ]


def one_by_one(model: Any, jobs: Sequence[Job]) -> list[Tokens]:
    """Each by `generate`, alone."""
    return [padded_batch(model, [job])[0] for job in jobs]


def padded_batch(model: Any, jobs: Sequence[Job]) -> list[Tokens]:
    """All by one `generate`, which ends with the longest answer."""
    limits = [limit for _, limit in jobs]
    written = model.generate(
        **left_padded([torch.from_numpy(rows) for rows, _ in jobs]),
        max_new_tokens=max(limits),
        do_sample=False,
    )
    return [row[:limit] for row, limit in zip(written.tolist(), limits, strict=True)]


def continuous(model: Any, jobs: Sequence[Job], side_by_side: int = REQUESTS) -> list[Tokens]:
    """All at once to transformers' manager."""
    return asyncio.run(_continuous(model, jobs, Capacity(side_by_side, 4096, 4096, 256)))


async def _continuous(model: Any, jobs: Sequence[Job], capacity: Capacity) -> list[Tokens]:
    embedding = VirtualEmbedding(model.get_input_embeddings(), capacity.rows)
    generation = GenerationLoop(with_embedding(model, embedding), [], capacity)
    generation.start()
    ends: list[asyncio.Future[Written]] = []
    for number, (rows, limit) in enumerate(jobs):
        end: asyncio.Future[Written] = asyncio.get_running_loop().create_future()
        generation.add(str(number), embedding.hold(rows), limit, partial(_note, end))
        ends.append(end)
    written = [(await end).generated_tokens for end in ends]
    generation.stop(10.0)
    return written


def _note(end: "asyncio.Future[Written]", written: Written) -> None:
    if written.is_finished():
        end.set_result(written)


if __name__ == "__main__":
    main()
