"""How a finalizer's process ends, without its cluster."""

import asyncio

import pytest

from streamscribe.bootstrap.cluster import finalizer
from streamscribe.bootstrap.cluster.finalizer import Hearing
from streamscribe.bus.kafka.finals import answering
from streamscribe.core.errors import BusUnavailable, StreamScribeError
from streamscribe.settings import Settings, load

SETTINGS = load(
    overrides={
        "model.profile": "fake",
        "kafka.brokers": "127.0.0.1:1",
        "store.redis_url": "redis://127.0.0.1:1/0",
        "finalizer.enabled": True,
        "finalizer.health_port": 0,
        "worker.hang_timeout_s": 600,  # else a slow machine would end the tests
    }
)


class Failing(answering.KafkaFinalizer):
    """One that no broker has, and that is of no use any more."""

    done: list[str]

    joined = asyncio.Event()

    async def start(self) -> None:
        """It is connected."""

    async def failed(self) -> StreamScribeError:
        return BusUnavailable("of no use")

    async def close(self, drain_s: float = 0.0) -> None:
        self.done.append("left the group")


async def test_it_leaves_the_group_before_it_waits_for_the_threads_of_its_model(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    done = Failing.done = list[str]()
    monkeypatch.setattr(answering, "KafkaFinalizer", Failing)
    close = Hearing.close

    def closing(hearing: Hearing) -> None:
        done.append("joins threads")
        close(hearing)

    monkeypatch.setattr(Hearing, "close", closing)

    def reread() -> Settings:
        return SETTINGS

    with pytest.raises(BaseExceptionGroup) as told:
        await finalizer.serve_finalizer(SETTINGS, started_at=0.0, announce=lambda working: None, reread=reread)
    assert told.group_contains(BusUnavailable, match="of no use")
    assert done.index("left the group") < done.index("joins threads")
