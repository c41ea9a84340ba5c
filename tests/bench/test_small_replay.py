"""The small replay on the real Whisper: 136 requests for 83 clips of real speech, 32 at a time."""

import asyncio
from pathlib import Path

import pytest

from streamscribe.bench.replay_reuse import reused, serial_texts
from streamscribe.bench.replay_workload import synthetic
from streamscribe.models.registry import open_verified
from streamscribe.models.whisper.model import WhisperModel

pytestmark = [pytest.mark.models, pytest.mark.timeout(300)]


def test_whisper_encodes_each_clip_once_and_every_text_is_that_of_a_serial_run(model_dir: Path):
    model = WhisperModel(open_verified("whisper-base", model_dir), threads=2)
    asked = synthetic(model_dir, small=True)
    figures, _ = asyncio.run(reused(model, asked, serial_texts(model, asked), at_once=32, warm=1))
    assert (len(asked.order), len(asked.clips)) == (136, 83)
    assert figures["cold_misses"] == 83
    assert figures["cold_hits"] + figures["cold_merged"] == 53
    assert figures["warm_hits"] == 136
    assert figures["warm_encodes"] == 0
    assert (figures["cold_other_texts"], figures["warm_other_texts"]) == (0, 0)
    assert figures["cold_error_rate_off"] == 0
