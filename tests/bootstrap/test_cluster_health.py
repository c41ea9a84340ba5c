"""What a process of a cluster says that it waits for."""

import asyncio
from itertools import count

from structlog.testing import capture_logs

from streamscribe.bootstrap.cluster.health import Health, Readiness
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


async def test_a_single_call_without_an_answer_is_not_told_and_counts_all_the_same() -> None:
    brokers, seconds = Brokers(), count()
    health = Health({"bus": brokers.check}, lambda: next(seconds))
    with capture_logs() as logs:
        for error in (BusUnavailable("slow start"), None, BusUnavailable("slow"), None):
            brokers.error = error
            await health.look()
            assert bool(health.lacking()) == (error is not None)
        assert not logs
        brokers.error = BusUnavailable("away")
        for _ in range(3):
            await health.look()
        assert health.away_s("bus") > 0
    assert [(line["event"], line["detail"]) for line in logs] == [("no answer", "away")]


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
