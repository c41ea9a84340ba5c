"""`streamscribe doctor`: what is here, what is missing, and what to type."""

import importlib.metadata
import importlib.util
import platform
import shutil
import socket
import sys
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from streamscribe.bootstrap.finding import Finding
from streamscribe.cli.options import ConfigOption, JsonOption, ProfileOption, SetOption, settings_from
from streamscribe.cli.output import Exit, err, out, print_json
from streamscribe.core.extras import install_extra

if TYPE_CHECKING:
    from streamscribe.settings import Settings

MIN_PYTHON = (3, 11)
SPARE_BYTES = 2**28
"""Free disk beyond the models that are still to be pulled."""


def mount(app: typer.Typer) -> None:
    """Adds the command."""
    app.command()(doctor)


def doctor(
    profile: ProfileOption = None, config: ConfigOption = None, set_: SetOption = None, json: JsonOption = False
) -> None:
    """Say what is installed, what is missing, and what to type; exits 1 where something needed is missing.

    Kafka and Redis are looked at where they are named; where both are, who of the cluster runs.

    Examples:

    ```
    streamscribe doctor
    streamscribe doctor --json --set gateway.port=8001
    KAFKA_BROKERS=kafka:9092 REDIS_URL=redis://redis:6379/0 streamscribe doctor --profile zh
    ```
    """
    settings = settings_from(config, set_, model__profile=profile)
    with err.status("looking"):
        findings = list(_examine(settings))
    healthy = all(finding.ok for finding in findings if finding.needed)
    if json:
        print_json({"healthy": healthy, "findings": [asdict(finding) for finding in findings]})
    else:
        _print(findings)
    raise typer.Exit(Exit.OK if healthy else Exit.FAILED)


def _print(findings: list[Finding]) -> None:
    for number, finding in enumerate(findings, 1):
        mark, style = ("✓", "green") if finding.ok else ("✗", "red") if finding.needed else ("-", "yellow")
        out.print(f"[{style}]{mark}[/]", end=" ")
        out.print(f"{finding.name}: {finding.detail}", markup=False)
        again = any(later.type_this == finding.type_this and not later.ok for later in findings[number:])
        if finding.type_this and not finding.ok and not again:
            out.print(f"    type: {finding.type_this}", style="bold", markup=False)


def _examine(settings: "Settings") -> Iterator[Finding]:
    yield Finding(
        "Python", sys.version_info >= MIN_PYTHON, platform.python_version(), "make clean setup PYTHON=python3.11"
    )
    for package in ("onnxruntime", "ctranslate2", "soundfile", "soxr", "wetext"):
        yield _package(package, f"pip install {package}", needed=True)
    yield _package("av", install_extra("media"), needed=False)
    yield from _models(settings)
    yield from _redis(settings)
    yield from _session_store(settings)
    yield from _kafka(settings)
    in_cluster = bool(settings.kafka.brokers) and settings.store.redis_url is not None
    if not in_cluster:
        yield _no_cluster(settings)
    gateway, command = settings.gateway, "gateway" if in_cluster else "serve"
    yield _port("gateway.port", gateway.host, gateway.port, f"{command} --port")
    yield _port("gateway.funasr_port", gateway.host, gateway.funasr_port, f"{command} --funasr-port")
    if in_cluster:
        worker, finalizer = settings.worker, settings.finalizer
        yield _port("worker.health_port", worker.health_host, worker.health_port, "worker --health-port")
        if finalizer.enabled:
            at = finalizer.health_host, finalizer.health_port
            yield _port("finalizer.health_port", *at, "finalizer --health-port")


def _package(name: str, type_this: str, *, needed: bool) -> Finding:
    if importlib.util.find_spec(name) is None:
        return Finding(name, False, "not installed", type_this, needed)
    try:
        detail = importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        detail = "installed"
    return Finding(name, True, detail, needed=needed)


def _models(settings: "Settings") -> Iterator[Finding]:
    """Each model of the profile, whole and unchanged; and room for those that are missing."""
    from streamscribe.models.registry import installed, of_profile, verify

    directory = settings.model.dir.expanduser()
    missing_bytes = 0
    pull = f"streamscribe models pull --profile {settings.model.profile}"  # leaves what is whole alone
    for model in of_profile(settings.model.profile):
        here = installed(model, directory)
        problems = verify(model, directory) if here else ["not installed"]
        missing_bytes += 0 if here else model.size_bytes
        yield Finding(f"model {model.id}", not problems, "; ".join(problems) or f"whole, in {directory}", pull)
    free_bytes = shutil.disk_usage(_existing(directory)).free
    enough = free_bytes >= 2 * missing_bytes + (SPARE_BYTES if missing_bytes else 0)
    yield Finding("disk", enough, f"{free_bytes / 1e9:.1f} GB free in {directory}", f"df -h {_existing(directory)}")


def _redis(settings: "Settings") -> Iterator[Finding]:
    """The Redis that the settings name, if one is; a server runs without it."""
    if settings.cache.redis_url is None:
        return
    from streamscribe.bootstrap.caches import redis_trouble
    from streamscribe.settings import SettingsError

    try:
        trouble, needed = redis_trouble(settings.cache), False
    except SettingsError as error:  # a server with these settings does not start
        trouble, needed = str(error), True
    yield Finding("Redis", trouble is None, trouble or "answers", needed=needed)


def _session_store(settings: "Settings") -> Iterator[Finding]:
    """The Redis that gateways and workers share, if one is named."""
    if settings.store.redis_url is None:
        return
    import asyncio

    from streamscribe.bootstrap.sessions import examine, explain, place_of
    from streamscribe.core.errors import StoreUnavailable
    from streamscribe.settings import SettingsError

    name = "session store"
    try:
        server = asyncio.run(examine(settings.store))
    except SettingsError as error:
        yield Finding(name, False, str(error))
    except StoreUnavailable as error:
        from streamscribe.store.redis_link import NOT_REACHED

        told = explain(error)
        look = "redis-server" if told == NOT_REACHED else 'redis-cli -u "$REDIS_URL" ping'
        yield Finding(name, False, f"{told} ({place_of(settings.store)})", look)
    else:
        room = f"of {server.max_memory_bytes / 1e6:,.0f} MB" if server.max_memory_bytes else "without a bound"
        well = f"Redis {server.version}, {server.used_bytes / 1e6:,.1f} MB used {room}"
        change = 'redis-cli -u "$REDIS_URL" config set maxmemory-policy noeviction'
        yield Finding(name, server.trouble is None, server.trouble or well, change if server.evicts else "")


def _kafka(settings: "Settings") -> Iterator[Finding]:
    """The log between gateways and workers, if one is named, and who of them runs."""
    from streamscribe.bootstrap.cluster.roster import cluster_findings
    from streamscribe.bootstrap.kafka import TOPICS, kafka_findings

    of_kafka = kafka_findings(settings)
    as_set = any(found.ok for found in of_kafka if found.name == TOPICS)
    yield from (*of_kafka, *cluster_findings(settings, topics_as_set=as_set))


def _no_cluster(settings: "Settings") -> Finding:
    """Which of Kafka and Redis is not named: well where neither is, for then nobody wants a cluster."""
    lacking = [] if settings.kafka.brokers else ["Kafka (KAFKA_BROKERS)"]
    lacking += [] if settings.store.redis_url is not None else ["Redis (REDIS_URL)"]
    told = f"{' and '.join(lacking)} not set: `serve` needs none, gateways and workers need both"
    return Finding("cluster", len(lacking) == 2, told, needed=False)


def _existing(directory: Path) -> Path:
    return next(folder for folder in (directory.absolute(), *directory.absolute().parents) if folder.exists())


def _port(name: str, host: str, port: int, take_another: str) -> Finding:
    if port <= 0:
        return Finding(name, True, "chosen by the system" if port == 0 else "off", needed=False)
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        socket.create_server((host, port), family=family).close()
    except OSError as error:
        reason, _, _ = (error.strerror or str(error)).partition(" (while")  # what follows is the address again
        other = f"streamscribe {take_another} {port + 1}"
        return Finding(name, False, f"{host}:{port}: {reason.lower()}", other, needed=False)
    return Finding(name, True, f"{host}:{port} is free", needed=False)
