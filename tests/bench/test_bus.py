"""A short run of the measurement of buses: what is measured, not how much."""

import json
import subprocess
import sys

import pytest

from streamscribe.bench.bus import WAYS
from tests.contracts.kafka_broker import kafka_broker


@pytest.mark.timeout(120)
def test_every_bus_is_measured_against_the_one_in_memory_in_the_same_run(tmp_path):
    command = [sys.executable, "-m", "streamscribe.cli", "bench", "bus", "--sessions", "10", "--seconds", "1", "--json"]
    with kafka_broker(tmp_path) as broker:
        done = subprocess.run([*command, "--kafka", broker.address], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    told = json.loads(done.stdout)
    figures = told["figures"]
    for name in (*WAYS, "kafka"):
        assert figures[f"{name}_records"] == 100
        assert 0 < figures[f"{name}_trip_p50_ms"] <= figures[f"{name}_trip_p99_ms"]
        assert figures[f"{name}_records_per_s"] > 0
    assert figures["local_trip_p50_ms"] > figures["memory_trip_p50_ms"]
    assert [bar["figure"] for bar in told["bars"]] == ["local_added_p99_ms", "kafka_added_p99_ms"]
