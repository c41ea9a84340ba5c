"""A result that is larger than the log takes costs its session alone."""

import asyncio
from typing import Any

import pytest

from streamscribe.core.errors import TooLarge
from streamscribe.core.records import Progress, SessionAbandoned
from streamscribe.wire.bus_records import encode_event
from tests.bus.kafka_site import A, B, Site, virtually
from tests.contracts.takeover import Listener, session

LARGE = encode_event(Progress(A, 3))


@pytest.mark.parametrize("said_by", ["librdkafka", "a broker"])
def test_a_result_that_the_log_does_not_take_fails_its_session_and_no_other(said_by: str) -> None:
    async def play(site: Site) -> None:
        bus = site.worker()
        send = bus._sender.send

        def refuse(topic: str, value: bytes, headers: Any, done: Any, **where: Any) -> None:
            if value != LARGE:
                send(topic, value, headers, done, **where)
            elif said_by == "librdkafka":
                raise TooLarge
            else:
                asyncio.get_running_loop().call_soon(done, TooLarge())

        bus._sender.send = refuse  # type: ignore[method-assign]
        listener = Listener(bus)
        site.publish(*list(session("a", 9))[:6], *session("b", 9))
        await asyncio.sleep(3)
        assert (site.finished(), site.failures(), bus.over) == ({B}, {"a": "too_large"}, False)
        assert isinstance(listener.heard[A][-1], SessionAbandoned)
        assert not bus.sessions
        assert site.committed == site.broker.end("audio-chunks", 0)

    assert [one["message"] for one in virtually(play).failures] == [
        "a session has a result that is larger than the log takes"
    ]
