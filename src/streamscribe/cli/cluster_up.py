"""`streamscribe cluster up`: a small cluster on this machine, for trying it."""

import os
import shlex
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any, NoReturn, TextIO

import typer
from rich.console import Console

from streamscribe.cli.options import (
    ConfigOption,
    FunasrPortOption,
    LogFormatOption,
    ModelOption,
    PortOption,
    ProfileOption,
    SetOption,
    TenantsOption,
    require_models,
    settings_from,
)

if TYPE_CHECKING:
    from streamscribe.bootstrap.cluster.role import RoleAddress
    from streamscribe.bootstrap.cluster.up import ClusterAddress

app = typer.Typer(
    name="cluster",
    help="A cluster of gateways, workers and finalizers on one machine, for trying it.",
    no_args_is_help=True,
    rich_markup_mode="markdown",
)


NAMES = {
    "--tenants": ("setting gateway.tenants_file",),
    "--kafka": ("setting kafka.brokers", "KAFKA_BROKERS"),
    "--redis": ("setting store.redis_url", "REDIS_URL"),
}
"""What errors call that for which there is a flag."""


OTHERS = ("KAFKA_BROKERS", "REDIS_URL")
"""Variables that are no word to this command: in a shell they are of another cluster, perhaps of one in production."""


@app.callback()
def _root() -> None:
    pass


@app.command()
def up(
    gateways: Annotated[int, typer.Option(min=1, max=64, help="So many gateways, behind one address.")] = 2,
    workers: Annotated[int, typer.Option(min=1, max=64, help="So many workers, each with its own models.")] = 2,
    finalizers: Annotated[int, typer.Option(min=0, max=64, help="So many finalizers.")] = 0,
    profile: ProfileOption = None,
    model: ModelOption = None,
    kafka: Annotated[
        str | None, typer.Option(help="Kafka's brokers, as host:9092; else a small one of the cluster's own.")
    ] = None,
    redis: Annotated[str | None, typer.Option(help="Redis, as redis://host:6379/0; else one of its own.")] = None,
    port: PortOption = None,
    funasr_port: FunasrPortOption = None,
    tenants: TenantsOption = None,
    log_format: LogFormatOption = None,
    config: ConfigOption = None,
    set_: SetOption = None,
    json: Annotated[
        bool, typer.Option("--json", help="Lines of JSON: where it listens, then which roles die and come back.")
    ] = False,
) -> None:
    """Start a cluster on this machine, and keep it until Ctrl-C: all its processes, one address before the gateways.

    A Redis and a broker of its own keep all in memory, where --redis and --kafka name none (KAFKA_BROKERS and REDIS_URL
    do not: they may be of another cluster). A role that dies is started again: kill
    one under a live session and see that nothing is lost. SIGHUP lets workers and finalizers read their settings
    again. It says what to set in another shell, so that commands there are of this cluster.

    Examples:

    ```
    streamscribe cluster up --profile tiny
    streamscribe cluster up --gateways 2 --workers 3 --profile fake --port 0
    streamscribe cluster up --kafka localhost:9092 --redis redis://localhost:6379/0 --set kafka.replication=1
    ```
    """
    from time import monotonic

    started_at = monotonic()
    for name in OTHERS:
        os.environ.pop(name, None)
    settings = settings_from(
        config,
        set_,
        gateway__port=port,
        gateway__funasr_port=funasr_port,
        gateway__tenants_file=tenants,
        kafka__brokers=kafka,
        store__redis_url=redis,
        model__profile=profile,
        model__second_pass=model,
        observe__log_format=log_format,
    )
    require_models(settings)
    import uvloop

    from streamscribe.bootstrap.cluster.plan import Plan
    from streamscribe.bootstrap.cluster.up import cluster_up

    flags: dict[str, Any] = {"--config": config, "--log-format": log_format}
    common = [word for name, value in flags.items() if value is not None for word in (name, str(value))]
    common += [word for one in set_ or () for word in ("--set", one)]
    common += [] if tenants is None else ["--set", f"gateway.tenants_file={tenants}"]
    models: dict[str, Any] = {"model.profile": profile, "model.second_pass": model}
    common += [word for name, value in models.items() if value is not None for word in ("--set", f"{name}={value}")]
    plan = Plan(gateways, workers, finalizers, tuple(common))
    onlooker = _Lines() if json else _Screen()
    with _told_by_flags({"--tenants": tenants, "--kafka": kafka, "--redis": redis}):
        uvloop.run(cluster_up(settings, plan, onlooker, started_at=started_at))
    _say("The cluster has ended")


@contextmanager
def _told_by_flags(flags: Mapping[str, Any]) -> Iterator[None]:
    """Lets errors name the flags that were typed, not the settings for which they stand."""
    from streamscribe.core.errors import BusUnavailable, StoreUnavailable
    from streamscribe.settings import SettingsError

    try:
        yield
    except (SettingsError, StoreUnavailable, BusUnavailable) as error:
        told = str(error)
        for flag in (name for name, value in flags.items() if value is not None):
            for name in NAMES[flag]:
                told = told.replace(name, flag)
        raise type(error)(told) from None


class _Console(Console):
    """Leaves a broken pipe to who prints: Rich ends standard output and the command, whichever stream it was."""

    def on_broken_pipe(self) -> NoReturn:
        raise BrokenPipeError


_out, _err = (_Console(stderr=stderr, soft_wrap=True, highlight=False, emoji=False) for stderr in (False, True))


def _say(line: str, style: str | None = None) -> None:
    """To people, if their terminal is still there: while it goes, the cluster ends in order."""
    with _heard_or_not(sys.stderr):
        _err.print(line, style=style, markup=False)


@contextmanager
def _heard_or_not(stream: TextIO) -> Iterator[None]:
    """Who reads `stream` may go away: the cluster goes on, and nothing is said there any more."""
    try:
        yield
    except OSError:
        with open(os.devnull, "w") as nowhere:
            os.dup2(nowhere.fileno(), stream.fileno())


class _Screen:
    """Tells people: what happens, and the roles' logs with their names before."""

    def step(self, what: str) -> None:
        _say(f"{what} …", style="dim")

    def said(self, name: str, line: str) -> None:
        _say(f"{name:<12}| {line}")

    def role_ready(self, role: "RoleAddress") -> None:
        _say(f"{role.name:<12}| ready at {role.url}, process {role.pid}")

    def role_ended(self, name: str, exit_code: int, again_in_s: float) -> None:
        how = f"by signal {-exit_code}" if exit_code < 0 else f"with exit code {exit_code}"
        _say(f"{name:<12}| ended {how}; it starts again in {again_in_s:g} s", style="yellow")

    def ready(self, cluster: "ClusterAddress") -> None:
        with _heard_or_not(sys.stdout):
            self._tell_all(cluster)

    def _tell_all(self, cluster: "ClusterAddress") -> None:
        _out.print(f"The cluster is ready after {cluster.ready_s:.1f} s at [bold]{cluster.url}[/]  (Ctrl-C ends it)")
        _out.print(f"  page            {cluster.url}/")
        _out.print(f"  WebSocket       {cluster.url.replace('http', 'ws', 1)}/ws/asr")
        _out.print(f"  OpenAI's REST   {cluster.url}/v1")
        if cluster.funasr_url:
            _out.print(f"  FunASR clients  {cluster.funasr_url}")
        for role in cluster.roles:
            _out.print(f"  {role.name:<16}{role.url}  process {role.pid}")
        _out.print("In another shell, for `sessions list`, `doctor`, `topics ensure`, one more `worker`:")
        words = [f"{name}={shlex.quote(value)}" for name, value in cluster.environment.items()]
        _out.print(f"  export {' '.join(words)}", markup=False)
        if "REDIS_URL" not in cluster.environment:
            _out.print("  and REDIS_URL as you have it: it may hold a password, which is not shown")


class _Lines(_Screen):
    """Tells machines by lines of JSON: the first says that all is ready. Logs and steps are on standard error."""

    def __init__(self) -> None:
        self._is_ready = False

    def role_ready(self, role: "RoleAddress") -> None:
        self._tell("role_ready", **asdict(role))

    def role_ended(self, name: str, exit_code: int, again_in_s: float) -> None:
        self._tell("role_ended", name=name, exit_code=exit_code, again_in_s=again_in_s)

    def ready(self, cluster: "ClusterAddress") -> None:
        self._is_ready = True
        self._tell("ready", **asdict(cluster))

    def _tell(self, event: str, **facts: Any) -> None:
        """What happens before all is ready is not told."""
        import msgspec

        if self._is_ready:
            with _heard_or_not(sys.stdout):
                typer.echo(msgspec.json.encode({"event": event, **facts}).decode())
