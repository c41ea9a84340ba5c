"""`streamscribe serve`: the gateway, the bus and the worker in one process."""

import os
import sys
import threading
from dataclasses import asdict
from functools import partial
from time import monotonic
from typing import TYPE_CHECKING, Annotated

import typer

from streamscribe.cli.options import (
    ConfigOption,
    FunasrPortOption,
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
from streamscribe.cli.output import Exit, out

if TYPE_CHECKING:
    from streamscribe.bootstrap.server import Listening


def mount(app: typer.Typer) -> None:
    """Adds the command."""
    app.command()(serve)


def serve(
    host: HostOption = None,
    port: PortOption = None,
    funasr_port: FunasrPortOption = None,
    profile: ProfileOption = None,
    model: ModelOption = None,
    tenants: TenantsOption = None,
    workers: Annotated[
        int | None, typer.Option(help="Worker processes, each with its own models (default 0: none but this one).")
    ] = None,
    no_auth: NoAuthOption = False,
    log_format: LogFormatOption = None,
    config: ConfigOption = None,
    set_: SetOption = None,
    json: ListeningJsonOption = False,
) -> None:
    """Serve speech recognition: page, native WebSocket, FunASR's WebSocket, OpenAI's REST.

    Ends on SIGTERM or Ctrl-C after a drain: no new sessions, finals delivered, exit code 0. SIGHUP reads the settings
    again and replaces the models that they change, while sessions go on.

    Examples:

    ```
    streamscribe serve
    streamscribe serve --host 0.0.0.0 --tenants tenants.yaml
    streamscribe serve --port 8001 --set limits.max_session_s=7200
    streamscribe serve --workers 2
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
        worker__processes=workers,
        model__profile=profile,
        model__second_pass=model,
        observe__log_format=log_format,
    )
    settings = read()
    require_models(settings)
    import uvloop

    from streamscribe.bootstrap.server import serve as run
    from streamscribe.observe.logs import configure

    configure(settings.observe)
    uvloop.run(run(settings, started_at=started_at, announce=tell_json if json else tell, reread=read))
    leave()


def leave() -> None:
    """Ends the process with 0 at once where a model is still in a step that outlasted the drain.

    The interpreter's own end would tear its thread out of native code, which may abort the process.
    """
    from streamscribe.models.stage import THREAD_PREFIX

    if any(thread.name.startswith(THREAD_PREFIX) for thread in threading.enumerate()):
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(Exit.OK)


def tell(listening: "Listening", what: str = "StreamScribe is ready") -> None:
    """Says where it listens, for people."""
    out.print(f"{what} after {listening.ready_s:.1f} s at [bold]{listening.url}[/]  (Ctrl-C ends it)")
    out.print(f"  page            {listening.url}/")
    out.print(f"  WebSocket       {listening.url.replace('http', 'ws', 1)}/ws/asr")
    out.print(f"  OpenAI's REST   {listening.url}/v1")
    if listening.funasr_url:
        out.print(f"  FunASR clients  {listening.funasr_url}")
    if listening.everywhere:
        out.print("  other machines  by any address or name of this one: it listens on all")


def tell_json(listening: "Listening") -> None:
    """Says it for machines."""
    import msgspec

    typer.echo(msgspec.json.encode(asdict(listening)).decode())
