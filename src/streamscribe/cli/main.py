"""The `streamscribe` command: mounts the subcommands, and turns errors into one line and an exit code."""

import sys
from typing import Annotated

import typer

from streamscribe import __version__
from streamscribe.cli import bench, demo, doctor, keys, models, serve, stream, transcribe, warmup
from streamscribe.cli.output import Exit, fail
from streamscribe.core.errors import StreamScribeError
from streamscribe.models.registry.errors import NotInstalled
from streamscribe.settings import SettingsError

app = typer.Typer(
    name="streamscribe",
    help="Speech recognition fit for production: serve it, stream to it, transcribe with it, measure it.",
    no_args_is_help=True,
    rich_markup_mode="markdown",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
serve.mount(app)
transcribe.mount(app)
stream.mount(app)
demo.mount(app)
warmup.mount(app)
doctor.mount(app)
app.add_typer(models.app, name="models")
app.add_typer(keys.app, name="keys")
app.add_typer(bench.app, name="bench")


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(__version__)
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    """Speech recognition fit for production: serve it, stream to it, transcribe with it, measure it."""


def main() -> None:
    """Entry point. Exit codes: 0 done, 1 failed, 2 usage or settings, 3 a model is not installed, 130 interrupted."""
    try:
        app()
    except BrokenPipeError:
        sys.stderr.close()
        raise SystemExit(Exit.FAILED) from None
    except KeyboardInterrupt:
        raise SystemExit(Exit.INTERRUPTED) from None
    except (SettingsError, StreamScribeError, ExceptionGroup) as raised:
        error = _first(raised)
        if isinstance(error, SettingsError):
            fail(str(error), Exit.USAGE)
        if isinstance(error, NotInstalled):
            fail(error.message, Exit.NOT_INSTALLED)
        if isinstance(error, StreamScribeError):
            fail(error.message)
        raise


def _first(error: BaseException) -> BaseException:
    """The first of what a group of tasks raised: it is what made the others end."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error
