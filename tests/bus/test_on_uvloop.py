"""The service runs on uvloop, whose transports are not asyncio's own: what links and buses promise holds there too."""

import inspect
from collections.abc import Awaitable, Callable

import pytest
import uvloop

from tests.bus import test_link, test_local_gateway
from tests.contracts import test_local_bus

Scenario = Callable[[], Awaitable[None]]


def _of(place: object) -> list[Scenario]:
    """Its tests that need no parameter."""
    tests = [value for name, value in inspect.getmembers(place, callable) if name.startswith("test_")]
    return [test for test in tests if not inspect.signature(test).parameters]


SCENARIOS = [
    scenario
    for place in (test_link, test_local_gateway, test_local_bus.TestLocalBus(), test_local_bus.TestLocalTakeover())
    for scenario in _of(place)
]


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.__qualname__)
def test_it_holds_on_uvloop(scenario: Scenario) -> None:
    uvloop.run(scenario())
