"""What a process of a cluster says that it waits for."""

import asyncio

from structlog.testing import capture_logs

from streamscribe.bootstrap.cluster.health import Health, Readiness
from streamscribe.bootstrap.cluster.working import Working, announce_in_group
from streamscribe.core.errors import BusUnavailable


class Brokers:
    """A bus that answers, or says why not."""

    def __init__(self) -> None:
        self.error: BusUnavailable | None = None

    async def check(self) -> None:
        if self.error is not None:
            raise self.error


async def test_what_does_not_answer_is_named_and_where_only_a_part_of_it_is_missing_that_part() -> None:
    brokers = Brokers()
    health = Health({"bus": brokers.check})
    told = []
    with capture_logs() as logs:
        for error in (None, BusUnavailable("away"), BusUnavailable("no t", field="topic t"), None):
            brokers.error = error
            await health.look()
            told.append(health.lacking())
    assert told == [[], ["bus"], ["topic t"], []]
    assert [line["event"] for line in logs] == ["no answer", "answers again"]


async def test_a_process_is_ready_when_its_models_are_and_its_group_has_given_it_a_share() -> None:
    models, joined = ["vad"], asyncio.Event()
    readiness = Readiness(lambda: models, Health({}), joined)
    assert readiness.waiting_for() == ["model vad", "group"]
    models.clear()
    assert readiness.waiting_for() == ["group"]
    joined.set()
    assert readiness.waiting_for() == []
    readiness.leaving = True
    assert readiness.waiting_for() == ["drain"]


async def test_a_process_says_that_it_works_when_its_group_has_given_it_a_share_and_not_before() -> None:
    said: list[Working] = []
    joined = asyncio.Event()
    telling = asyncio.ensure_future(
        announce_in_group(joined, said.append, url="http://h:1", started_at=0.0, warmup_s={"vad": 0.5})
    )
    await asyncio.sleep(0)
    assert said == []
    joined.set()
    await telling
    assert [(one.url, one.warmup_s) for one in said] == [("http://h:1", {"vad": 0.5})]
