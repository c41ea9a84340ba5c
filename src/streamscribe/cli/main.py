"""The `streamscribe` command: mounts the subcommands, and turns errors into one line and an exit code.

Subcommands import what they use when they run, so that help and mistakes of usage are told at once.
"""

import os
from typing import Annotated, Any

import typer
import typer.main

from streamscribe import __version__
from streamscribe.cli import (
    bench,
    cache,
    cluster,
    cluster_up,
    demo,
    doctor,
    keys,
    models,
    serve,
    sessions,
    stream,
    topics,
    transcribe,
    warmup,
)
from streamscribe.cli.output import Exit, complain, fail, first

HELP = "Speech recognition fit for production: serve it, stream to it, transcribe with it, measure it."
EPILOG = "Exit codes: 0 done, 1 failed, 2 usage or settings, 3 a model is not installed, 130 interrupted."
HELP_FLAGS = ["-h", "--help"]
TRACEBACK_VARIABLE = "STREAMSCRIBE_TRACEBACK"
NUMPY_THREADS = "OPENBLAS_NUM_THREADS"
"""Read when numpy is imported. Its threads wait by spinning: beside two threads of a model they doubled its step."""

app = typer.Typer(
    name="streamscribe",
    help=HELP,
    epilog=EPILOG,
    no_args_is_help=True,
    rich_markup_mode="markdown",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": HELP_FLAGS},
)
serve.mount(app)
cluster.mount(app)
transcribe.mount(app)
stream.mount(app)
demo.mount(app)
warmup.mount(app)
doctor.mount(app)
app.add_typer(cluster_up.app, name="cluster")
app.add_typer(models.app, name="models")
app.add_typer(keys.app, name="keys")
app.add_typer(cache.app, name="cache")
app.add_typer(sessions.app, name="sessions")
app.add_typer(topics.app, name="topics")
app.add_typer(bench.app, name="bench")


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(__version__)
        raise typer.Exit


@app.callback(help=HELP, epilog=EPILOG)
def _root(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    pass


def main() -> None:
    """Entry point: whatever goes wrong is told in one line, with an exit code of `Exit`."""
    os.environ.setdefault(NUMPY_THREADS, "1")
    try:
        command = typer.main.get_command(app)
        _bare_flags(command)
        command(prog_name="streamscribe")
    except KeyboardInterrupt:
        raise SystemExit(Exit.INTERRUPTED) from None
    except Exception as raised:
        if os.environ.get(TRACEBACK_VARIABLE):
            raise
        _tell(first(raised))


def _bare_flags(command: Any) -> None:
    """Takes away what typer's help writes behind flags, as if they took a value: `<bool>`."""
    help_flag = command.get_help_option(typer.Context(command, help_option_names=HELP_FLAGS))
    for option in (help_flag, *command.params):
        if getattr(option, "is_flag", False):
            option.metavar = ""
    for subcommand in getattr(command, "commands", {}).values():
        _bare_flags(subcommand)


def _tell(error: BaseException) -> None:
    from streamscribe.client.errors import ConnectionLost, ServerError
    from streamscribe.client.local_server import ServerDidNotStart
    from streamscribe.core.errors import StoreUnavailable, StreamScribeError
    from streamscribe.models.registry.errors import NotInstalled
    from streamscribe.settings import SettingsError

    match error:
        case KeyboardInterrupt():
            raise SystemExit(Exit.INTERRUPTED)
        case SettingsError():
            fail(str(error), Exit.USAGE)
        case ServerDidNotStart():
            fail(error.message, error.exit_code)
        case NotInstalled():
            fail(error.message, Exit.NOT_INSTALLED)
        case StoreUnavailable():
            from streamscribe.bootstrap.sessions import explain

            fail(f"{explain(error)}; see: streamscribe doctor" if error.__cause__ else error.message)
        case StreamScribeError():
            fail(error.message)
        case ServerError() | ConnectionLost():
            fail(str(error))
        case OSError():
            said = [str(part) for part in (error.filename, error.strerror or error) if str(part or "")]
            fail(": ".join(said) or type(error).__name__)
        case _:
            complain(f"{type(error).__name__}: {error}")
            fail(f"this is a defect of StreamScribe; {TRACEBACK_VARIABLE}=1 shows where, for a report")
