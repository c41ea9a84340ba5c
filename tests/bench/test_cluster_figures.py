"""Each part of a cluster's measurement makes the figures that it has bars for: parts as they are, over no cluster."""

from contextlib import asynccontextmanager, contextmanager
from types import SimpleNamespace

import pytest

from streamscribe.bench import cluster, cluster_faults, cluster_kafka, cluster_load, cluster_proxy, cluster_streams
from streamscribe.bench.chaos_voice import held_against
from streamscribe.bench.cluster_load import Crowd
from streamscribe.bench.kinds import KAFKA_PARTS, LOCAL_PARTS

HARM_ONCE = ("without_redis", "without_broker")
"""What is harmed once, and measured meanwhile; the others go on until the last session is over."""


@contextmanager
def no_server(arguments):
    yield SimpleNamespace(address=SimpleNamespace(websocket="ws://nowhere", http="http://nowhere:1"))


@asynccontextmanager
async def nothing():
    yield


class Process:
    """A gateway or a worker that ends when it is told to."""

    async def stop(self):
        return 0


class Cluster:
    """One of which nothing runs."""

    urls = ("ws://nowhere",)
    redis = SimpleNamespace(frozen=nothing, killed=nothing)
    broker = SimpleNamespace(frozen=nothing)

    def __init__(self):
        self.gateways = {0: Process(), 1: Process()}
        self.workers = [Process(), Process()]

    async def add_gateway(self, number):
        pass

    async def add_workers(self, count):
        self.workers += [Process()] * count

    async def settled(self):
        pass


@asynccontextmanager
async def no_cluster(gateways, workers):
    yield Cluster()


def giving(value):
    async def given(*arguments, **more):
        return value

    return given


@pytest.fixture
def no_processes(monkeypatch):
    """Nothing is started and nobody speaks; what the parts make of it is theirs."""

    async def held_under(harm, *arguments, **more):
        if harm.func.__qualname__.startswith(HARM_ONCE):
            await harm()
        return held_against([], []), []

    async def crowd(server, scripts, per_s, *, seconds):
        one = Crowd(per_s, seconds)
        one.finals, one.waits_s, one.memory, one.refusals_s = 10, [1.0], [1.0], [0.01]
        return one

    for module in (cluster_faults, cluster_kafka, cluster_load, cluster_proxy):
        monkeypatch.setattr(module, "LocalServer", no_server)
        monkeypatch.setattr(module, "allow_files", lambda wanted: None)
    for module in (cluster_faults, cluster_kafka):
        monkeypatch.setattr(module, "held_under", held_under)
        monkeypatch.setattr(module, "undisturbed", giving([]))
    for module in (cluster_faults, cluster_load):
        monkeypatch.setattr(module, "until_ready", giving(None))
    monkeypatch.setattr(cluster_faults, "counted", giving(1.0))
    monkeypatch.setattr(cluster_load, "_crowd", crowd)
    monkeypatch.setattr(cluster_load, "_flood", giving(1))
    monkeypatch.setattr(cluster_proxy, "all_say", giving([]))
    monkeypatch.setattr(cluster_proxy, "_through", giving((1, [])))
    monkeypatch.setattr(cluster_streams, "_holds", giving(False))
    for name in ("AWAY_S", "CALM_S"):
        monkeypatch.setattr(cluster_kafka, name, 0.0)
    monkeypatch.setattr(cluster_kafka, "kafka_cluster", no_cluster)
    for name in ("_answered_s", "_first_text_s"):
        monkeypatch.setattr(cluster_kafka, name, giving(0.1))


@pytest.mark.parametrize(
    ("part", "kafka"), [*((part, False) for part in LOCAL_PARTS), *((part, True) for part in KAFKA_PARTS)]
)
def test_every_bar_of_a_part_has_its_figure(no_processes, part, kafka):
    made = cluster.run(parts=[part], sessions=0, rolled=0, seconds=1.0, kafka=kafka)
    assert made.bars
    assert {bar.figure for bar in made.bars} - made.figures.keys() == set()
