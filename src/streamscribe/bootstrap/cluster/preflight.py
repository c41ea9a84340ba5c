"""What a small cluster is given, looked at once before anything of it is started; else each role fails at it."""

import asyncio
import resource
from collections.abc import Callable

from streamscribe.bootstrap.cluster import services
from streamscribe.bootstrap.cluster.plan import Plan
from streamscribe.bootstrap.extras import need_extras
from streamscribe.bootstrap.kafka import ensure_topics, kafka_told_too
from streamscribe.bootstrap.sessions import check_shared_sessions
from streamscribe.bootstrap.tenants import open_tenants
from streamscribe.settings import Settings, SettingsError

LEAST_OPEN_FILES = 256
"""Of one process, connections too: with fewer a cluster starts badly or not at all, each time elsewhere."""


def check_here(settings: Settings, plan: Plan) -> None:
    """Raises SettingsError, with what to do, for what this machine lacks and for what a cluster cannot be."""
    allowed, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if 0 <= allowed < LEAST_OPEN_FILES:
        raise SettingsError(
            f"a process may have {allowed} files open here, a cluster needs {LEAST_OPEN_FILES}; type: ulimit -n 1024"
        )
    kafka = settings.kafka
    if not kafka.brokers:
        services.broker_command(0)
    need_extras("a cluster", "kafka", "redis")
    if settings.store.redis_url is None:
        services.redis_command(0)
    if kafka.brokers and plan.gateways > kafka.result_partitions:
        raise SettingsError(
            f"--gateways {plan.gateways}: each needs a partition of its own, and kafka.result_partitions is "
            f"{kafka.result_partitions}; start fewer, or give them more: docs/kafka.md, More partitions"
        )
    if kafka.gateway_number >= 0 and plan.gateways > 1:
        raise SettingsError(
            f"setting kafka.gateway_number: {plan.gateways} gateways cannot all be {kafka.gateway_number}; leave "
            "it out, or start one by --gateways 1"
        )
    if kafka.instance_id and max(plan.workers, plan.finalizers) > 1:
        raise SettingsError(
            f"setting kafka.instance_id: all workers and finalizers would be {kafka.instance_id}, and each needs a "
            "name of its own; leave it out"
        )
    open_tenants(settings)


async def check_there(settings: Settings, step: Callable[[str], None]) -> None:
    """Whether Redis and Kafka answer where they are named, and makes the topics there; `step` is told what is done.

    Raises SettingsError, StoreUnavailable and BusUnavailable.
    """
    if settings.store.redis_url is not None:
        step("asking Redis")
        async with kafka_told_too(settings):
            await check_shared_sessions(settings.store)
    if settings.kafka.brokers:
        step("making the topics")
        await asyncio.to_thread(ensure_topics, settings)
