"""`streamscribe serve`: the gateway, the bus and the worker in one process."""

import os
import sys
import threading
from dataclasses import asdict
from functools import partial
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Annotated

import typer

from streamscribe.cli.options import ConfigOption, ModelOption, ProfileOption, SetOption, require_models, settings_from
from streamscribe.cli.output import Exit, out

if TYPE_CHECKING:
    from streamscribe.bootstrap import Listening


def mount(app: typer.Typer) -> None:
    """Adds the command."""
    app.command()(serve)


def serve(
    host: Annotated[str | None, typer.Option(help="Address to listen on (default 127.0.0.1).")] = None,
    port: Annotated[
        int | None, typer.Option(help="Port of HTTP and WebSocket (default 8000; 0 takes a free one).")
    ] = None,
    funasr_port: Annotated[
        int | None, typer.Option(help="Port of FunASR's WebSocket (default 10095; 0 a free one, -1 none).")
    ] = None,
    profile: ProfileOption = None,
    model: ModelOption = None,
    tenants: Annotated[Path | None, typer.Option(help="Tenants file; see `streamscribe keys new`.")] = None,
    workers: Annotated[
        int | None, typer.Option(help="Worker processes, each with its own models (default 0: none but this one).")
    ] = None,
    no_auth: Annotated[bool, typer.Option("--no-auth", help="Serve without keys on any address.")] = False,
    log_format: Annotated[str | None, typer.Option(help="json or console.")] = None,
    config: ConfigOption = None,
    set_: SetOption = None,
    json: Annotated[
        bool, typer.Option("--json", help="Say where it listens as one line of JSON, once it is ready.")
    ] = False,
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

    from streamscribe import bootstrap
    from streamscribe.observe.logs import configure

    configure(settings.observe)
    uvloop.run(bootstrap.serve(settings, started_at=started_at, announce=tell_json if json else tell, reread=read))
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


def tell(listening: "Listening") -> None:
    """Says where it listens, for people."""
    out.print(f"StreamScribe is ready after {listening.ready_s:.1f} s at [bold]{listening.url}[/]  (Ctrl-C ends it)")
    out.print(f"  page            {listening.url}/")
    out.print(f"  WebSocket       {listening.url.replace('http', 'ws', 1)}/ws/asr")
    out.print(f"  OpenAI's REST   {listening.url}/v1")
    if listening.funasr_url:
        out.print(f"  FunASR clients  {listening.funasr_url}")


def tell_json(listening: "Listening") -> None:
    """Says it for machines."""
    import msgspec

    typer.echo(msgspec.json.encode(asdict(listening)).decode())
