"""The telephone prompts that accuracy is measured on."""

from pathlib import Path

import pytest

from streamscribe.bench.corpus import telephone_prompts
from streamscribe.models.registry import find

pytestmark = pytest.mark.models


def test_no_prompt_is_measured_twice_however_many_are_asked_for(model_dir: Path, tmp_path: Path) -> None:
    there = sum(file.name.endswith(".g722") for file in find("telephone-prompts").files)
    chosen = telephone_prompts(model_dir, there + 26, tmp_path)
    assert len({utterance.audio for utterance in chosen}) == len(chosen) == there
