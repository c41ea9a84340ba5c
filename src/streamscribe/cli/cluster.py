"""`streamscribe gateway`, `worker` and `finalizer`: the roles of a cluster, over Kafka and Redis."""

from dataclasses import asdict
from functools import partial
from time import monotonic
from typing import TYPE_CHECKING

import typer

from streamscribe.cli.options import (
    ConfigOption,
    FinalizerPortOption,
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
    from streamscribe.bootstrap.cluster.member import Working
    from streamscribe.bootstrap.server import Listening


def mount(app: typer.Typer) -> None:
    """Adds the commands."""
    app.command()(gateway)
    app.command()(worker)
    app.command()(finalizer)


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
    KAFKA_BROKERS=kafka:9092 REDIS_URL=redis://redis:6379/0 streamscribe gateway --port 8000
    streamscribe gateway --host 0.0.0.0 --tenants tenants.yaml
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

    from streamscribe.bootstrap.server import Role, serve
    from streamscribe.observe.logs import configure

    configure(settings.observe)
    announce = tell_json if json else _tell_gateway
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
    the others, and it ends with exit code 0. SIGHUP replaces its models, as with `serve`. With finalizer.enabled it
    leaves whole segments to `streamscribe finalizer`s, and needs no model for them.

    Examples:

    ```
    KAFKA_BROKERS=kafka:9092 REDIS_URL=redis://redis:6379/0 streamscribe worker --profile zh
    streamscribe worker --profile zh --set finalizer.enabled=true
    streamscribe worker --profile tiny --health-port 8011
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
    from streamscribe.bootstrap.engines import recognizer_ids
    from streamscribe.bootstrap.sessions import need_cluster

    need_cluster(settings)
    elsewhere = recognizer_ids(settings.model) if settings.finalizer.enabled else ()
    require_models(settings, wanted=lambda model_id: model_id not in elsewhere)
    import uvloop

    from streamscribe.bootstrap.cluster.worker import serve_worker
    from streamscribe.observe.logs import configure

    configure(settings.observe)
    announce = _tell_json if json else partial(_tell, "worker")
    uvloop.run(serve_worker(settings, started_at=started_at, announce=announce, reread=read))
    leave()


def finalizer(
    profile: ProfileOption = None,
    model: ModelOption = None,
    health_port: FinalizerPortOption = None,
    log_format: LogFormatOption = None,
    config: ConfigOption = None,
    set_: SetOption = None,
    json: ListeningJsonOption = False,
) -> None:
    """Recognise whole segments for workers of a cluster that have finalizer.enabled: the second pass, or the only one.

    Needs KAFKA_BROKERS and REDIS_URL (or kafka.brokers and store.redis_url), and the workers' profile, model and
    finalizer.enabled. Of its models it loads the one that recognises segments. On SIGTERM or Ctrl-C it answers what it
    has read, leaves the rest to the others, and ends with exit code 0. SIGHUP replaces its model, as with `serve`.

    Examples:

    ```
    STREAMSCRIBE_FINALIZER__ENABLED=true streamscribe finalizer --profile zh
    streamscribe finalizer --profile zh --model nano --set finalizer.enabled=true --set model.device=cuda
    ```
    """
    started_at = monotonic()
    read = partial(
        settings_from,
        config,
        set_,
        finalizer__health_port=health_port,
        model__profile=profile,
        model__second_pass=model,
        observe__log_format=log_format,
    )
    settings = read()
    from streamscribe.bootstrap.engines import recognizer_ids
    from streamscribe.bootstrap.sessions import need_cluster

    need_cluster(settings)
    require_models(settings, wanted=lambda model_id: model_id in recognizer_ids(settings.model))
    import uvloop

    from streamscribe.bootstrap.cluster.finalizer import serve_finalizer
    from streamscribe.observe.logs import configure, get_logger

    configure(settings.observe)
    if not settings.finalizer.enabled:
        get_logger(__name__).warning(
            "finalizer.enabled is off in these settings: only workers that have it on ask finalizers; give it to all "
            "by STREAMSCRIBE_FINALIZER__ENABLED=true or the settings file"
        )
    announce = _tell_json if json else partial(_tell, "finalizer")
    uvloop.run(serve_finalizer(settings, started_at=started_at, announce=announce, reread=read))
    leave()


def _tell_gateway(listening: "Listening") -> None:
    tell(listening, "The gateway listens")
    out.print("  clients         are let in while a worker is ready: streamscribe worker  (/readyz says so)")


def _tell(role: str, working: "Working") -> None:
    out.print(
        f"The {role} is ready after {working.ready_s:.1f} s; health and metrics at {working.url}  (Ctrl-C ends it)"
    )


def _tell_json(working: "Working") -> None:
    import msgspec

    typer.echo(msgspec.json.encode(asdict(working)).decode())
