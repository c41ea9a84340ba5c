"""`streamscribe gateway` and `streamscribe worker`: the roles of a cluster, over Kafka and Redis."""

from dataclasses import asdict
from functools import partial
from time import monotonic
from typing import TYPE_CHECKING

import typer

from streamscribe.cli.options import (
    ConfigOption,
    FunasrPortOption,
    HealthPortOption,
    HostOption,
    ListeningJsonOption,
    LogFormatOption,
    ModelOption,
    NoAuthOption,
    PortOption,
    ProfileOption,
    SetOption,
    TenantsOption,
    require_models,
    settings_from,
)
from streamscribe.cli.output import out
from streamscribe.cli.serve import leave, tell, tell_json

if TYPE_CHECKING:
    from streamscribe.bootstrap.cluster.worker import Working


def mount(app: typer.Typer) -> None:
    """Adds the commands."""
    app.command()(gateway)
    app.command()(worker)


def gateway(
    host: HostOption = None,
    port: PortOption = None,
    funasr_port: FunasrPortOption = None,
    tenants: TenantsOption = None,
    no_auth: NoAuthOption = False,
    log_format: LogFormatOption = None,
    config: ConfigOption = None,
    set_: SetOption = None,
    json: ListeningJsonOption = False,
) -> None:
    """Serve clients in a cluster: sessions here, recognised by workers that share its Kafka and Redis.

    Needs KAFKA_BROKERS and REDIS_URL (or kafka.brokers and store.redis_url), and the topics of `streamscribe topics
    ensure`. Ends on SIGTERM or Ctrl-C after a drain, exit code 0.

    Examples:

    ```
    streamscribe gateway --port 8000
    KAFKA_BROKERS=kafka:9092 REDIS_URL=redis://redis:6379/0 streamscribe gateway --host 0.0.0.0 --tenants tenants.yaml
    ```
    """
    started_at = monotonic()
    read = partial(
        settings_from,
        config,
        set_,
        gateway__host=host,
        gateway__port=port,
        gateway__funasr_port=funasr_port,
        gateway__tenants_file=tenants,
        gateway__no_auth=no_auth or None,
        observe__log_format=log_format,
    )
    settings = read()
    import uvloop

    from streamscribe.bootstrap import Role, serve
    from streamscribe.observe.logs import configure

    configure(settings.observe)
    announce = tell_json if json else tell
    uvloop.run(serve(settings, started_at=started_at, announce=announce, reread=read, role=Role.GATEWAY))


def worker(
    profile: ProfileOption = None,
    model: ModelOption = None,
    health_port: HealthPortOption = None,
    log_format: LogFormatOption = None,
    config: ConfigOption = None,
    set_: SetOption = None,
    json: ListeningJsonOption = False,
) -> None:
    """Recognise sessions of a cluster: those of the partitions that the group of workers gives to this one.

    Needs KAFKA_BROKERS and REDIS_URL (or kafka.brokers and store.redis_url). On SIGTERM or Ctrl-C its sessions go to
    the others, and it ends with exit code 0. SIGHUP replaces its models, as with `serve`.

    Examples:

    ```
    streamscribe worker --profile zh
    streamscribe worker --profile tiny --health-port 8011 --set kafka.instance_id=worker-1
    ```
    """
    started_at = monotonic()
    read = partial(
        settings_from,
        config,
        set_,
        worker__health_port=health_port,
        model__profile=profile,
        model__second_pass=model,
        observe__log_format=log_format,
    )
    settings = read()
    require_models(settings)
    import uvloop

    from streamscribe.bootstrap.cluster.worker import serve_worker
    from streamscribe.observe.logs import configure

    configure(settings.observe)
    announce = _tell_json if json else _tell
    uvloop.run(serve_worker(settings, started_at=started_at, announce=announce, reread=read))
    leave()


def _tell(working: "Working") -> None:
    out.print(
        f"The worker is ready after {working.ready_s:.1f} s; health and metrics at {working.url}  (Ctrl-C ends it)"
    )


def _tell_json(working: "Working") -> None:
    import msgspec

    typer.echo(msgspec.json.encode(asdict(working)).decode())
