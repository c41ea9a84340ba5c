"""Who is to be in a small cluster on this machine, and by which words and environment each is of it."""

from dataclasses import dataclass

from streamscribe.bootstrap.cluster import services
from streamscribe.bootstrap.threads import step_threads
from streamscribe.settings import KafkaSettings, Settings

COUNTS = ("replication", "audio_partitions", "result_partitions", "finalize_partitions")
"""The settings of topics; all must agree on them."""


@dataclass(frozen=True, slots=True)
class Plan:
    """How many of each role there are, and the options that each gets: those of the settings, and of the models."""

    gateways: int
    workers: int
    finalizers: int
    options: tuple[str, ...]


def gateway_words(settings: Settings, plan: Plan) -> list[str]:
    """What starts a gateway, on ports of its own."""
    funasr = "-1" if settings.gateway.funasr_port < 0 else "0"
    return ["gateway", "--host", services.HOST, "--port", "0", "--funasr-port", funasr, *plan.options]


def worker_words(settings: Settings, plan: Plan) -> list[str]:
    """What starts a worker; where there are finalizers it leaves whole segments to them."""
    return ["worker", "--health-port", "0", *plan.options, *_elsewhere(plan), *_threads(settings, plan)]


def finalizer_words(settings: Settings, plan: Plan) -> list[str]:
    """What starts a finalizer."""
    return ["finalizer", "--health-port", "0", *plan.options, *_elsewhere(plan), *_threads(settings, plan)]


def _elsewhere(plan: Plan) -> list[str]:
    return ["--set", "finalizer.enabled=true"] if plan.finalizers else []


def _threads(settings: Settings, plan: Plan) -> list[str]:
    """Each has its share of the cores."""
    return ["--set", f"model.threads={step_threads(settings.model, plan.workers + plan.finalizers)}"]


def kafka_flags(kafka: KafkaSettings) -> list[str]:
    """What all must agree on."""
    return [word for name in ("brokers", *COUNTS) for word in ("--set", f"kafka.{name}={getattr(kafka, name)}")]


def surroundings(settings: Settings, plan: Plan) -> dict[str, str]:
    """The environment in which other commands are of this cluster; without a Redis whose address has a password."""
    kafka, tenants_file = settings.kafka, settings.gateway.tenants_file
    around = {"KAFKA_BROKERS": kafka.brokers}
    redis_url = settings.store.redis_url.get_secret_value() if settings.store.redis_url else ""
    if redis_url and not {"@", "?"}.intersection(redis_url):  # where an address may have one
        around["REDIS_URL"] = redis_url
    around |= {f"STREAMSCRIBE_KAFKA__{name.upper()}": str(getattr(kafka, name)) for name in COUNTS}
    around["STREAMSCRIBE_MODEL__PROFILE"] = settings.model.profile
    if tenants_file is not None:
        around["STREAMSCRIBE_GATEWAY__TENANTS_FILE"] = str(tenants_file.absolute())
    if plan.finalizers:
        around["STREAMSCRIBE_FINALIZER__ENABLED"] = "true"
    return around
