"""Short runs of the measurements on the fake and the small models: what is measured, not how much."""

import json
import re
import subprocess
import sys

import pytest

from streamscribe.bench.recordings import utterances

pytestmark = pytest.mark.timeout(180)


def measured(*arguments):
    command = [sys.executable, "-m", "streamscribe.cli", "bench", *arguments, "--json"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert {bar["figure"] for bar in told["bars"]} <= told["figures"].keys()
    return told


def test_the_gateway_is_measured_alone_and_within_the_whole_server():
    told = measured("gateway", "--sessions", "20", "--seconds", "2")
    figures = told["figures"]
    for of in ("", "whole_server_"):
        assert figures[f"{of}chunks"] > 100
        assert figures[f"{of}lost_sessions"] == 0
        assert 0 < figures[f"{of}added_latency_p50_ms"] <= figures[f"{of}added_latency_p99_ms"]
        assert figures[f"{of}cores"] > 0
    assert {bar["figure"] for bar in told["bars"]} >= {
        "added_latency_p99_ms",
        "cores",
        "memory_per_connection_kib",
        "lost_sessions",
    }


def test_a_silence_has_no_text_and_the_speech_after_it_has():
    told = measured("silence", "--minutes", "1", "--profile", "fake")
    assert told["figures"]["texts_on_silence"] == 0
    assert told["figures"]["finals_of_speech"] == 1
    assert told["figures"]["cost_last_over_first"] > 0


def test_streams_are_heard_and_who_finds_no_place_is_told_to_come_back():
    told = measured("streams", "--sessions", "3", "--seconds", "5")
    figures = told["figures"]
    assert (figures["sessions"], figures["refused_sessions"], figures["lost_sessions"]) == (3, 0, 0)
    assert figures["partials"] > 0
    assert figures["finals"] > 0
    assert figures["error_rate"] <= 0.1
    assert figures["refusals"] >= 10
    assert figures["refusal_p99_ms"] > 0
    assert {bar["figure"] for bar in told["bars"]} >= {"partial_lag_p95_ms", "refusal_p99_ms"}


def test_models_are_replaced_while_streams_speak_and_nothing_is_lost():
    told = measured("swap", "--sessions", "2", "--swaps", "1")
    figures = told["figures"]
    assert (figures["swaps"], figures["refused_swaps"]) == (1, 0)
    assert figures["finals"] > 0
    assert figures["lost_finals"] == figures["doubled_finals"] == figures["session_errors"] == 0
    assert 0 < figures["memory_one_mib"] <= figures["memory_peak_mib"]
    assert figures["version_mib"] > 0
    assert figures["memory_idle_after_over_before"] > 0
    assert {bar["figure"] for bar in told["bars"]} >= {"lost_finals", "session_errors", "memory_peak_over_one"}


def test_models_that_cannot_be_replaced_are_a_wrong_use():
    command = [sys.executable, "-m", "streamscribe.cli", "bench", "swap", "--profile", "fake"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 2
    assert "fake" in done.stderr


def test_a_time_in_which_no_worker_could_be_killed_is_refused_before_anything_starts():
    command = [sys.executable, "-m", "streamscribe.cli", "bench", "cluster", "--part", "kill", "--seconds", "5"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (2, "")
    assert re.search(r"--seconds.* 10 ", done.stderr)


def test_listed_names_are_written_where_they_are_said_and_nowhere_else(tmp_path):
    clips = [{"audio": str(one.audio), "text": one.text} for one in utterances()[:4]]
    manifest = tmp_path / "clips.jsonl"
    manifest.write_text("\n".join(map(json.dumps, clips)))
    figures = measured("hotwords", "--recordings", str(manifest))["figures"]
    assert (figures["names"], figures["clips_without_names"]) == (40, 4)
    assert figures["recall_without_list_percent"] == 0
    assert figures["recall_gain_points"] >= 30
    assert figures["new_errors"] == 0


@pytest.mark.models
def test_accuracy_compares_the_service_with_the_bare_engine(model_dir):
    figures = measured("accuracy", "--prompts", "3")["figures"]
    assert {f"{rate}_{way}" for rate in ("wer", "rtf") for way in ("websocket", "rest", "bare")} <= figures.keys()
    assert figures["wer_websocket"] <= 0.2


def test_a_tenant_that_floods_is_served_and_its_neighbour_too():
    figures = measured("neighbours", "--seconds", "3")["figures"]
    assert figures["lost_sessions"] == 0
    assert figures["finals"] > 0
    assert figures["flood_finals_per_s"] > 0
    assert 0 < figures["flood_p50_ms"] <= figures["flood_p99_ms"]
