"""The replay's workload, and what it counts over a small model."""

import asyncio
import json
from collections import Counter

import numpy as np
import pytest
import soundfile

from streamscribe.bench.corpus import telephone_prompts
from streamscribe.bench.kinds import Part
from streamscribe.bench.replay_levels import levels
from streamscribe.bench.replay_load import drive, requests_of
from streamscribe.bench.replay_reuse import Engines, replayed, serial_texts, unique
from streamscribe.bench.replay_stub import alone, hits, hops, together
from streamscribe.bench.replay_workload import arrivals, from_file
from streamscribe.bench.report import report
from streamscribe.core.errors import BadRequest
from streamscribe.models.ports import SegmentRequest
from tests.bench.replay_kit import Model, workload
from tests.bench.test_commands import measured


@pytest.fixture
def engines():
    return Engines(apart=Model(), whole=Model())


@pytest.mark.parametrize(("distinct", "requests"), [(666, 1088), (83, 136), (1, 1)])
def test_each_clip_arrives_and_the_rest_are_repeats(distinct, requests):
    order = arrivals(distinct, requests)
    assert len(order) == requests
    assert set(order) == set(range(distinct))
    assert order == arrivals(distinct, requests)


def test_half_of_the_repeats_come_soon():
    order = arrivals(666, 1088)
    last, gaps = {}, []
    for at, clip in enumerate(order):
        if clip in last:
            gaps.append(at - last[clip])
        last[clip] = at
    soon = sum(gap <= 32 for gap in gaps)
    assert len(gaps) == 422
    assert 0.4 < soon / len(gaps) < 0.7


def test_lines_of_equal_audio_ask_for_one_clip(tmp_path):
    noise = np.random.default_rng(0).normal(0, 0.1, 16000)
    for name, samples in (("a", noise), ("b", noise[:8000]), ("copy", noise)):
        soundfile.write(tmp_path / f"{name}.wav", samples, 16000)
    lines = [{"audio": f"{name}.wav", "text": "said"} for name in ("a", "b", "copy", "b")]
    (tmp_path / "requests.jsonl").write_text("\n".join(map(json.dumps, lines)))
    asked = from_file(tmp_path / "requests.jsonl")
    assert asked.order == (0, 1, 0, 1)
    assert [len(clip.samples) for clip in asked.clips] == [16000, 8000]
    assert asked.repeats == 2


def test_a_workload_without_requests_is_refused(tmp_path):
    (tmp_path / "none.jsonl").write_text("\n")
    with pytest.raises(BadRequest):
        from_file(tmp_path / "none.jsonl")


async def test_so_many_are_asked_at_a_time_and_the_texts_are_in_order():
    waiting = Counter()

    async def recognise(request: SegmentRequest) -> str:
        waiting["now"] += 1
        waiting["most"] = max(waiting["most"], waiting["now"])
        for _ in range(len(request.samples) // 1600 % 5):
            await asyncio.sleep(0)
        waiting["now"] -= 1
        return str(len(request.samples))

    requests = requests_of(workload())
    done = await drive(recognise, requests, at_once=4)
    assert list(done.texts) == [str(len(request.samples)) for request in requests]
    assert waiting["most"] == 4
    assert len(done.latencies_s) == len(requests)


async def test_a_replay_encodes_each_clip_once_and_then_none(engines):
    asked = workload()
    figures = await replayed(engines, asked, serial_texts(engines.whole, asked), at_once=8)
    assert figures["cold_misses"] == 12
    assert figures["cold_hits"] + figures["cold_merged"] == 8
    assert figures["warm_hits"] == 20
    for nothing in (
        "cold_misses_off",
        "cold_reuse_off",
        "cold_other_texts",
        "cold_error_rate_off",
        "warm_not_hits",
        "warm_encodes",
        "warm_other_texts",
    ):
        assert figures[nothing] == 0
    assert 0 < figures["encode_share"] < 1
    assert figures["warm_gain_bound"] > 1


async def test_texts_that_differ_from_the_serial_ones_are_told(engines):
    asked = workload()
    serial = list(serial_texts(engines.whole, asked))
    serial[3] = "another"
    figures = await replayed(engines, asked, serial, at_once=8)
    assert figures["cold_other_texts"] == 1


async def test_unique_clips_are_measured_on_both_sides_with_nothing_reused(engines):
    figures = await unique(engines, workload(), at_once=8, rounds=2)
    assert figures["unique_reused"] == 0
    assert {"unique_throughput_over_after", "unique_p99_over_after", "unique_cache_on_over_off"} <= figures.keys()
    assert min(figures[name] for name in figures if name.endswith(("per_s", "p99_ms"))) > 0


async def test_every_level_is_measured(engines):
    figures = await levels(Model, engines, workload())
    measured_levels = {name.removesuffix("_per_s") for name in figures if name.endswith("_per_s")}
    assert measured_levels == {
        "load_per_request",
        "model",
        "model_again",
        *(f"{level}_{state}" for level in ("features", "encodings", "transcripts") for state in ("cold", "warm")),
    }
    assert min(figures.values()) > 0
    held = {bar.figure for bar in report("replay-levels", {}, figures).bars}
    assert held == {name for name in figures if name.endswith("_over_below")}
    assert len(held) == 7


@pytest.mark.models
@pytest.mark.timeout(300)
def test_whisper_hears_each_clip_once_and_the_same_as_alone(model_dir, tmp_path):
    prompts = telephone_prompts(model_dir, 3, tmp_path)
    lines = [{"audio": str(prompts[at].audio), "text": prompts[at].text, "language": "en"} for at in (0, 1, 0, 2)]
    (tmp_path / "requests.jsonl").write_text("\n".join(map(json.dumps, lines)))
    told = measured("replay", "--workload", str(tmp_path / "requests.jsonl"), "--part", "reuse")
    figures = told["figures"]
    assert (figures["cold_misses"], figures["cold_hits"] + figures["cold_merged"]) == (3, 1)
    assert figures["cold_other_texts"] == figures["cold_error_rate_off"] == 0
    assert (figures["warm_hits"], figures["warm_encodes"]) == (4, 0)
    assert figures["cold_error_rate"] <= 0.2
    assert "warm_gain_over_bound" in {bar["figure"] for bar in told["bars"]}


async def test_the_service_is_measured_over_an_encoder_of_known_cost():
    figures = await together(at_once=32, rounds=1) | await alone() | await hits(rounds=1) | await hops()
    told = report("replay", {}, figures, [Part.STUB])
    assert figures.keys() >= {bar.figure for bar in told.bars}
    assert {bar.figure for bar in told.bars} == {
        "stub_batch_over_limit",
        "stub_throughput_over_ideal",
        "alone_added_ms",
        "hit_p99_ms",
    }
    assert 1 <= figures["stub_mean_batch"] <= 8
    assert 0 < figures["hit_p50_ms"] <= figures["hit_p99_ms"]
