"""How many segments of a tenant are on their way to finalizers, without a broker."""

import asyncio

import pytest

from streamscribe.bus.kafka.finals.tenants import TenantPlaces
from streamscribe.core.errors import Overloaded


async def turns() -> None:
    for _ in range(10):
        await asyncio.sleep(0)


class Crowd:
    """Who asks for places, and who has one, in the order of getting it; each stays until its gate opens."""

    def __init__(self, places: TenantPlaces) -> None:
        self.places = places
        self.inside: list[str] = []
        self.gates: dict[str, asyncio.Event] = {}

    def come(self, name: str, audio_s: float = 1.0) -> "asyncio.Task[None]":
        """Its tenant is its first letter."""
        return asyncio.ensure_future(self._be(name, audio_s))

    async def _be(self, name: str, audio_s: float) -> None:
        gate = self.gates[name] = asyncio.Event()
        async with self.places.place(name[0], audio_s, patient=True):
            self.inside.append(name)
            await gate.wait()


async def test_what_a_tenant_has_over_its_bound_waits_in_order_and_no_other_tenant_does() -> None:
    places = TenantPlaces(2, 100.0)
    crowd = Crowd(places)
    tasks = {name: crowd.come(name) for name in ("a1", "a2", "a3", "a4", "b1")}
    await turns()
    assert crowd.inside == ["a1", "a2", "b1"]
    with pytest.raises(Overloaded):
        async with places.place("a", 1.0, patient=False):
            pass
    places.check_integrity()
    tasks["a3"].cancel()  # who waits and is given up is passed over
    crowd.gates["a2"].set()
    await turns()
    assert crowd.inside == ["a1", "a2", "b1", "a4"]
    for gate in crowd.gates.values():
        gate.set()
    await asyncio.wait(tasks.values())
    assert not places._tenants


async def test_audio_is_bounded_too_but_one_segment_may_have_any_length() -> None:
    places = TenantPlaces(10, 3.0)
    crowd = Crowd(places)
    tasks = [crowd.come("a1", 9.0), crowd.come("a2", 1.0), crowd.come("a3", 1.0)]
    await turns()
    assert crowd.inside == ["a1"]
    crowd.gates["a1"].set()
    await turns()
    assert crowd.inside == ["a1", "a2", "a3"]
    for one in tasks:
        one.cancel()
    await asyncio.wait(tasks)
    assert not places._tenants
