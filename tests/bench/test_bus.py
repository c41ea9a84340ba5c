"""A short run of the measurement of buses: what is measured, not how much."""

import json
import socket
import subprocess
import sys
from contextlib import asynccontextmanager

import pytest

from streamscribe.bench import bus as bench
from streamscribe.bus.memory import MemoryBus
from streamscribe.core.errors import BusUnavailable
from tests.contracts.kafka_broker import kafka_broker

pytestmark = pytest.mark.timeout(120)
COMMAND = [sys.executable, "-m", "streamscribe.cli", "bench", "bus", "--sessions", "10", "--seconds", "1", "--json"]


def measured(*arguments):
    return subprocess.run([*COMMAND, *arguments], capture_output=True, text=True)


@pytest.fixture(params=["its own", "given"])
def over_kafka(request, tmp_path):
    """What to type for either broker."""
    if request.param == "its own":
        yield ["--kafka"]
    else:
        with kafka_broker(tmp_path) as broker:
            yield ["--brokers", broker.address]


@pytest.fixture(params=["nobody listens", "nobody answers"])
def no_broker(request):
    """The address of none."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        if request.param == "nobody answers":
            taken.listen()
        yield f"127.0.0.1:{taken.getsockname()[1]}"


def test_every_bus_is_measured_against_the_one_in_memory_in_the_same_run(over_kafka):
    done = measured(*over_kafka)
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    told = json.loads(done.stdout)
    figures = told["figures"]
    for name in (*bench.WAYS, "kafka"):
        assert figures[f"{name}_records"] == 100
        assert 0 < figures[f"{name}_trip_p50_ms"] <= figures[f"{name}_trip_p99_ms"]
        assert figures[f"{name}_records_per_s"] > 0
    assert figures["local_trip_p50_ms"] > figures["memory_trip_p50_ms"]
    assert [bar["figure"] for bar in told["bars"]] == ["local_added_p99_ms", "kafka_added_p99_ms"]


def test_brokers_that_do_not_answer_end_it_with_one_line(no_broker):
    done = measured("--brokers", no_broker)
    assert done.returncode == 1
    assert done.stdout == ""
    assert f"no broker answers at {no_broker}" in done.stderr
    assert done.stderr.count("\n") == 1


async def test_a_bus_that_goes_silent_ends_it_too(monkeypatch):
    @asynccontextmanager
    async def silent():
        yield MemoryBus(bench.BACKLOG_S)

    monkeypatch.setattr(bench, "SPARE_S", 0.0)
    with pytest.raises(BusUnavailable):
        await bench._in_time({**bench.WAYS, "silent": silent}, 2, 0.1)
