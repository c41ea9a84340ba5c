"""`streamscribe models`: what can be installed, and its files on this machine."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, get_args

import typer
from rich.box import SIMPLE_HEAD
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TransferSpeedColumn
from rich.table import Table

from streamscribe.cli.options import JsonOption
from streamscribe.cli.output import Exit, err, fail, out, print_json, print_table
from streamscribe.core.errors import ModelUnavailable, NotFound

if TYPE_CHECKING:
    from streamscribe.models import registry

app = typer.Typer(
    help="List, pull, verify, locate and remove models. What is installed works without a network.",
    no_args_is_help=True,
    rich_markup_mode="markdown",
)

DirOption = Annotated[Path | None, typer.Option("--dir", help="Model folder (default: the setting `model.dir`).")]
IdsArgument = Annotated[list[str] | None, typer.Argument(metavar="ID", help="Models, as `list` names them.")]


@app.command("list")
def list_(directory: DirOption = None, json: JsonOption = False) -> None:
    """Show every model of the catalogue, and which are installed.

    Examples:

    ```
    streamscribe models list
    streamscribe models list --json
    ```
    """
    from streamscribe.models.registry import catalogue

    rows = [_described(model, _folder(directory)) for model in catalogue().values()]
    if json:
        print_json(rows)
        return
    out.print(f"models; ✓: installed in {_folder(directory)}", markup=False)
    table = Table(box=SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False, show_edge=False)  # 80 columns of a terminal
    table.add_column("")
    for heading, wraps_at in ("model", None), ("task", None), ("languages", 9), ("licence", 12):
        table.add_column(heading, max_width=wraps_at)
    table.add_column("size", justify="right")
    for row in rows:
        mark = "[green]✓[/]" if row["installed"] else "-"
        languages = " ".join(row["languages"])
        table.add_row(mark, row["id"], row["task"], languages, row["licence"], _megabytes(row["size_bytes"]))
    print_table(table)


@app.command()
def pull(
    ids: IdsArgument = None,
    all_: Annotated[bool, typer.Option("--all", help="Every model of the catalogue.")] = False,
    profile: Annotated[str | None, typer.Option(help="The models that a server with this profile needs.")] = None,
    from_: Annotated[
        Path | None,
        typer.Option("--from", exists=True, file_okay=False, help="A folder with the files, as another model folder."),
    ] = None,
    directory: DirOption = None,
    json: JsonOption = False,
) -> None:
    """Install models: sums are checked, an interrupted pull goes on where it was, what is there is left alone.

    Examples:

    ```
    streamscribe models pull --profile whisper
    streamscribe models pull fsmn-vad --from /media/usb/models
    ```
    """
    from streamscribe.models import registry

    wanted = _wanted(ids, all_, profile)
    reports, failures = [], []
    with _progress(quiet=json) as listener_of:
        for model in wanted:
            listen = listener_of(model)
            try:
                folder = registry.pull(model, _folder(directory), listen=listen, from_folder=from_)
            except ModelUnavailable as error:
                failures.append(error.message)
                reports.append({"id": model.id, "installed": False, "error": error.message})
            else:
                reports.append({"id": model.id, "installed": True, "path": str(folder)})
    if json:
        print_json(reports)
    else:
        for report in reports:
            if report["installed"]:
                out.print(f"[green]✓[/] {report['id']} in {report['path']}")
    if failures:
        fail("\n".join(failures))


@app.command()
def verify(ids: IdsArgument = None, directory: DirOption = None, json: JsonOption = False) -> None:
    """Read installed models again and compare their sums; exits 1 for a damaged one, 3 for one that is not installed.

    Examples:

    ```
    streamscribe models verify
    streamscribe models verify whisper-base
    ```
    """
    from streamscribe.models import registry

    folder = _folder(directory)
    models = [_find(id_) for id_ in ids or ()]
    models = models or [model for model in registry.catalogue().values() if registry.path(model, folder).is_dir()]
    if not models:
        fail(f"no model is installed in {folder}", Exit.NOT_INSTALLED)
    with _installed():
        problems = {model.id: registry.verify(model, folder) for model in models}
    if json:
        print_json([{"id": id_, "ok": not found, "problems": found} for id_, found in problems.items()])
    else:
        for id_, found in problems.items():
            out.print("\n    ".join([f"[red]✗[/] {id_}" if found else f"[green]✓[/] {id_}", *found]))
    if damaged := [id_ for id_, found in problems.items() if found]:
        fail(f"damaged; type: streamscribe models pull {' '.join(damaged)}")


@app.command()
def path(
    id_: Annotated[str, typer.Argument(metavar="ID")], directory: DirOption = None, json: JsonOption = False
) -> None:
    """Print the folder of an installed model; exits 3 where it is not installed.

    Examples:

    ```
    ls "$(streamscribe models path demo-recordings)"
    ```
    """
    from streamscribe.models import registry

    model, folder = _find(id_), _folder(directory)
    if not registry.installed(model, folder):
        fail(registry.NotInstalled(id_).message, Exit.NOT_INSTALLED)
    where = str(registry.path(model, folder))
    if json:
        print_json({"id": id_, "path": where})
    else:
        out.print(where, markup=False)


@app.command()
def remove(
    ids: Annotated[list[str], typer.Argument(metavar="ID")], directory: DirOption = None, json: JsonOption = False
) -> None:
    """Delete models, and what an interrupted pull left of them.

    Examples:

    ```
    streamscribe models remove telephone-prompts
    ```
    """
    from streamscribe.models import registry

    models = [_find(id_) for id_ in ids]
    with _installed():
        freed = {model.id: registry.remove(model, _folder(directory)) for model in models}
    if json:
        print_json([{"id": id_, "freed_bytes": size_bytes} for id_, size_bytes in freed.items()])
    else:
        for id_, size_bytes in freed.items():
            out.print(f"[green]✓[/] {id_} removed, {_megabytes(size_bytes)} freed")


def _folder(directory: Path | None) -> Path:
    if directory is None:
        from streamscribe.settings import load

        directory = load().model.dir
    return directory.expanduser()


def _find(id_: str) -> "registry.Model":
    from streamscribe.models.registry import find

    try:
        return find(id_)
    except NotFound as error:
        fail(error.message, Exit.USAGE)


def _wanted(ids: Sequence[str] | None, all_: bool, profile: str | None) -> list["registry.Model"]:
    """The models that a pull names, each once, in the order of the catalogue."""
    from streamscribe.models.registry import catalogue, of_profile
    from streamscribe.settings import ModelSettings

    profiles: tuple[str, ...] = get_args(ModelSettings.model_fields["profile"].annotation)
    if not (ids or all_ or profile):
        fail("name models, or give --all or --profile", Exit.USAGE)
    if profile and profile not in profiles:
        fail(f"--profile is one of: {', '.join(profiles)}", Exit.USAGE)
    named = {_find(id_).id for id_ in ids or ()} | {model.id for model in of_profile(profile or "")}
    return [model for model in catalogue().values() if all_ or model.id in named]


def _described(model: "registry.Model", folder: Path) -> dict[str, Any]:
    from streamscribe.models import registry

    return {
        "id": model.id,
        "family": model.family,
        "task": model.task,
        "languages": model.languages,
        "licence": model.licence,
        "size_bytes": model.size_bytes,
        "tail_padding_ms": model.tail_padding_ms,
        "profiles": model.profiles,
        "installed": registry.installed(model, folder),
        "path": str(registry.path(model, folder)),
    }


def _megabytes(size_bytes: int) -> str:
    return f"{size_bytes / 1e6:.1f} MB"


@contextmanager
def _installed() -> Iterator[None]:
    """Turns a model that is not installed, or that comes with the package, into its exit code."""
    from streamscribe.models.registry import NotInstalled, PartOfThePackage

    try:
        yield
    except NotInstalled as error:
        fail(error.message, Exit.NOT_INSTALLED)
    except PartOfThePackage as error:
        fail(error.message, Exit.USAGE)


@contextmanager
def _progress(*, quiet: bool) -> Iterator[Callable[["registry.Model"], Callable[["registry.Progress"], None]]]:
    """A bar with bytes and speed for each pull that has something to do, on terminals only."""
    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TransferSpeedColumn())
    with Progress(*columns, console=err, disable=quiet or not err.is_terminal) as bars:

        def listener_of(model: "registry.Model") -> Callable[["registry.Progress"], None]:
            tasks: dict[str, Any] = {}

            def listen(progress: "registry.Progress") -> None:
                if progress.phase not in tasks:
                    tasks[progress.phase] = bars.add_task(f"{progress.phase} {model.id}")
                # What comes out of pip or apt is not measured to the byte: a bar stops at its end.
                done_bytes = min(progress.done_bytes, progress.total_bytes)
                bars.update(tasks[progress.phase], completed=done_bytes, total=progress.total_bytes)

            return listen

        yield listener_of
