"""A replica whose model fails: taken out of service by a trial, brought back by another."""

import asyncio
from collections.abc import Callable, Iterator

import pytest

from streamscribe.core.batching import BatchPolicy, Priority
from streamscribe.core.errors import InternalError, ModelUnavailable, TooLarge
from streamscribe.models import replica as replica_module
from streamscribe.models.replica import Replica
from tests.models.replica_kit import HUGE, POISON, REFUSED, Doubler


class Sick:
    """A running replica of a doubler that fails while it is `ill`, in its trials too."""

    def __init__(self) -> None:
        self.engine = Doubler()
        self.engine.gate.set()
        self.ill = False
        self.trials = 0
        self.ejected: list[str] = []
        self.replica: Replica[int, int] = Replica(
            "doubler",
            self._step,
            policy=BatchPolicy(),
            on_step=lambda report: None,
            warm_up=[self._trial],
            max_failures=3,
            on_ejected=lambda name, cause: self.ejected.append(cause),
        )
        self.replica.start()
        self.replica.wait_ready()

    def _step(self, batch):  # type: ignore[no-untyped-def]
        if self.ill:
            raise ZeroDivisionError
        return self.engine.step(batch)

    def _trial(self) -> None:
        self.trials += 1
        if self.ill:
            raise ZeroDivisionError

    async def ask(self, number: int) -> int | BaseException:
        try:
            return await self.replica.submit(number, priority=Priority.NORMAL, audio_s=1)
        except (InternalError, ModelUnavailable, TooLarge) as error:
            return error

    async def until(self, holds: Callable[[], bool]) -> None:
        while not holds():
            await asyncio.sleep(0.001)


@pytest.fixture
def sick(monkeypatch: pytest.MonkeyPatch) -> Iterator[Sick]:
    monkeypatch.setattr(replica_module, "RETRY_S", 0.05)
    sick = Sick()
    yield sick
    sick.replica.close()


async def test_a_model_that_fails_again_and_again_is_ejected_and_returns_by_itself(sick: Sick) -> None:
    sick.ill = True
    for _ in range(3):
        assert type(await sick.ask(1)) is InternalError
    await sick.until(lambda: bool(sick.ejected))
    assert not sick.replica.ready
    assert isinstance(sick.replica.outage(), ModelUnavailable)
    refused = await sick.ask(1)
    assert isinstance(refused, ModelUnavailable)
    assert refused.retry_after_s
    sick.ill = False
    while not sick.replica.ready:
        await asyncio.sleep(0.01)
    assert await sick.ask(1) == 2
    assert sick.ejected == ["failed"]


async def test_requests_that_no_model_could_answer_eject_nobody(sick: Sick) -> None:
    for _ in range(9):
        assert type(await sick.ask(POISON)) is InternalError
    await sick.until(lambda: sick.trials >= 2 and sick.replica.ready)
    for _ in range(9):
        assert type(await sick.ask(REFUSED)) is TooLarge
    assert await sick.ask(4) == 8
    assert sick.ejected == []


@pytest.fixture
def never_tried(monkeypatch: pytest.MonkeyPatch) -> Iterator[Sick]:
    """Nothing but a request brings it back."""
    monkeypatch.setattr(replica_module, "RETRY_S", 3600)
    sick = Sick()
    yield sick
    sick.replica.close()


async def test_out_of_memory_takes_it_out_of_readiness_until_a_step_succeeds(never_tried: Sick) -> None:
    sick = never_tried
    answer = await sick.ask(HUGE)
    assert isinstance(answer, ModelUnavailable)
    assert not sick.replica.ready
    assert sick.replica.outage() is None
    assert await sick.ask(3) == 6
    assert sick.replica.ready
    assert sick.ejected == ["out_of_memory"]


async def test_without_requests_a_trial_brings_it_back(sick: Sick) -> None:
    await sick.ask(HUGE)
    while not sick.replica.ready:
        await asyncio.sleep(0.01)
    assert sick.trials == 2
