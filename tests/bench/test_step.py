"""How the turns of a step bench become figures, and short runs of the benches of the streaming model."""

import pytest

from streamscribe.bench.report import report
from streamscribe.bench.speech import unbroken, with_pauses
from streamscribe.bench.step import figures_of
from tests.bench.test_commands import measured


def test_gains_are_medians_of_neighbours_in_time_and_not_ratios_of_medians():
    rounds = [{"1": 10.0, "16": 2.0}, {"1": 30.0, "16": 5.0}, {"1": 20.0, "16": 5.0}]
    figures = figures_of(rounds, [1, 16])
    assert figures == {"1_ms": 20.0, "16_ms": 5.0, "gain_16": 5.0}


def test_the_oracle_is_compared_with_every_batch():
    figures = figures_of([{"4": 10.0, "16": 5.0, "generate": 100.0}], [4, 16])
    assert figures["over_generate_4"] == 10
    assert figures["over_generate_16"] == 20
    assert "gain_16" not in figures


def test_small_models_are_not_held_to_the_bars_of_the_real_size():
    assert report("step", {}, {"tiny_torch_gain_16": 1.0}, ["tiny_torch"]).bars == ()
    assert not report("step", {}, {"real_torch_gain_16": 1.0}, ["real_torch"]).holds


def test_voices_speak_without_a_pause_for_as_long_as_is_asked():
    voices = unbroken(3, 20)
    assert [len(voice) for voice in voices] == [20 * 16000] * 3
    assert len({voice[:16000].tobytes() for voice in voices}) == 3
    assert with_pauses(60).size == 60 * 16000


@pytest.mark.timeout(180)
def test_a_step_is_measured_for_each_number_of_sessions():
    figures = measured("step", "--batches", "2,1", "--rounds", "1")["figures"]
    assert figures.keys() == {"tiny_onnx_1_ms", "tiny_onnx_2_ms", "tiny_onnx_gain_2"}
    assert min(figures.values()) > 0


@pytest.mark.timeout(180)
def test_the_stack_and_the_bare_loop_hear_the_same_segments():
    figures = measured("stack", "--sessions", "2", "--seconds", "3", "--rounds", "1")["figures"]
    assert figures["tiny_finals_per_session"] == 1
    assert figures["tiny_stack_over_loop"] > 0


@pytest.mark.timeout(180)
def test_every_minute_of_an_endurance_run_is_heard():
    told = measured("endurance", "--minutes", "2", "--profile", "fake")
    figures = told["figures"]
    assert figures["finals_first_minute"] == figures["finals_last_minute"] > 1
    assert {bar["figure"] for bar in told["bars"]} == {"cost_last_over_first", "memory_last_over_first"}
