"""By its trace what became of a session is found in headers, dead letters and logs, whatever it ended by."""

import asyncio
import json

import pytest
from prometheus_client import CollectorRegistry
from structlog.testing import capture_logs

from streamscribe.bus.kafka.envelope import NO_TRACE, Headers, read_trace, record_headers
from streamscribe.observe.fleet_metrics import FleetMetrics
from streamscribe.observe.logs import ATTRIBUTES
from streamscribe.wire.bus_records import encode_record
from tests.bus.kafka_site import TOPICS, A, Site, virtually
from tests.contracts.bus import opened
from tests.contracts.takeover import Listener, session


@pytest.mark.parametrize("trace", [None, "t", b"\xff", b"", b"x" * 1000, b"a b"])
def test_a_trace_that_none_of_ours_wrote_is_unknown_and_costs_nothing(trace: str | bytes | None) -> None:
    assert read_trace([("trace", trace)]) == NO_TRACE
    assert read_trace([]) == NO_TRACE
    assert read_trace(record_headers(0, 0, "trace-a")) == "trace-a"


@pytest.mark.parametrize("reason", ["value", "header"])
def test_a_reference_to_a_record_that_nobody_can_read_names_its_trace(reason: str) -> None:
    async def play(site: Site) -> None:
        Listener(site.worker())
        headers: Headers = record_headers(0 if reason == "value" else 99, 0, "trace-a")
        site.broker.append(TOPICS.audio, 0, "a", b"none of ours", headers)
        await asyncio.sleep(3)
        (letter,) = site.broker.read(TOPICS.dead_letter, 0, 0, 100)
        told = json.loads(letter.value())
        assert (told["session_id"], told["trace_id"], told["v"]) == ("a", "trace-a", 1)

    virtually(play)


def test_a_session_that_fails_before_it_is_opened_fails_under_its_trace() -> None:
    async def play(site: Site) -> None:
        for record in list(session("a", 5))[2:]:
            site.broker.append(TOPICS.audio, 0, A, encode_record(record), record_headers(0, 0, "trace-a"))
        Listener(site.worker())
        await asyncio.sleep(3)
        assert site.failures() == {"a": "store_unavailable"}
        assert {read_trace(one.headers()) for one in site.broker.read(TOPICS.results, 0, 0, 100) if one.key()} == {
            "trace-a"
        }

    virtually(play)


def test_what_becomes_of_sessions_between_processes_is_a_line_with_all_their_names_each() -> None:
    metrics, of = FleetMetrics(CollectorRegistry()), opened("a")
    with capture_logs() as lines:
        metrics.taken_over(of)
        metrics.quarantined(of, 7)
    names = {"tenant_id": of.tenant_id, "session_id": "a", "trace_id": "trace-a"}
    assert [{name: line.get(name) for name in names} for line in lines] == [names, names]
    assert lines[1]["record"] == 7
    assert all(line.keys() - {"event", "log_level"} <= ATTRIBUTES for line in lines)
