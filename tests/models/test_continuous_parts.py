"""What Fun-ASR-Nano's continuous batches need, told without PyTorch."""

import tomllib
from pathlib import Path

import pytest

from streamscribe.models.funasr_torch.generation_loop import TRANSFORMERS, Capacity

PYPROJECT = Path(__file__).parents[2] / "pyproject.toml"


def test_the_extra_asks_for_the_transformers_that_is_needed():
    extra = tomllib.loads(PYPROJECT.read_text())["project"]["optional-dependencies"]["funasr"]
    assert f"transformers>={TRANSFORMERS}" in extra


@pytest.mark.parametrize(("requests", "tokens"), [(1, 2048), (4, 2048), (8, 4096), (32, 16_384)])
def test_keys_and_values_have_room_for_as_many_as_a_batch_has(requests, tokens):
    capacity = Capacity.of(requests)
    assert (capacity.requests, capacity.tokens, capacity.pages) == (requests, tokens, tokens // 16)
