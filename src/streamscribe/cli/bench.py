"""`streamscribe bench`: measurements that anyone can repeat, held against the project's own bars."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Table

from streamscribe.cli.options import JsonOption
from streamscribe.cli.output import Exit, err, out, print_json

if TYPE_CHECKING:
    from streamscribe.bench.report import Report

app = typer.Typer(
    help="Measure, as a table or `--json`; `--check` exits 1 where a bar of the project does not hold.",
    no_args_is_help=True,
    rich_markup_mode="markdown",
)

CheckOption = Annotated[bool, typer.Option("--check", help="Exit with 1 where a bar does not hold.")]


@app.command()
def accuracy(
    manifest: Annotated[
        Path | None, typer.Option(help="Lines of JSON: audio (path), text, language; paths relative to the file.")
    ] = None,
    prompts: Annotated[
        int, typer.Option(help="Without a manifest: so many telephone prompts of 6 words or more.")
    ] = 60,
    url: Annotated[str | None, typer.Option(help="A running server; else one is started.")] = None,
    json: JsonOption = False,
    check: CheckOption = False,
) -> None:
    """Word and character error rates through the running service, beside the bare engine's.

    Example: `streamscribe bench accuracy --manifest recordings.jsonl --check`
    """
    from streamscribe.bench import accuracy as bench

    with err.status("recognising"):
        report = bench.run(manifest=manifest, prompts=prompts, url=url)
    _show(report, as_json=json, check=check)


@app.command()
def gateway(
    sessions: Annotated[int, typer.Option(min=1, max=5000, help="Live sessions at once.")] = 200,
    seconds: Annotated[float, typer.Option(min=1, max=3600, help="How long to measure, after 2 s to settle.")] = 10,
    json: JsonOption = False,
    check: CheckOption = False,
) -> None:
    """Latency, processor and memory that the gateway adds, on the fake model.

    Example: `streamscribe bench gateway --sessions 200 --check`
    """
    from streamscribe.bench import gateway as bench

    with err.status(f"{sessions} sessions for {seconds:g} s"):
        report = bench.run(sessions=sessions, seconds=seconds)
    _show(report, as_json=json, check=check)


def _show(report: "Report", *, as_json: bool, check: bool) -> None:
    if as_json:
        print_json(report.as_dict())
    else:
        bars = {bar.figure: bar for bar in report.bars}
        table = Table(title=f"{report.bench} · {report.machine}", title_justify="left")
        table.add_column("figure")
        table.add_column("value", justify="right")
        table.add_column("bar", justify="right")
        for name, value in report.figures.items():
            bar = bars.get(name)
            verdict = f"{bar.op} {bar.bar:g} {'✓' if bar.holds else '✗'}" if bar else ""
            table.add_row(name, f"{value:,.4g}", verdict, style="red" if bar and not bar.holds else None)
        out.print(table)
    if check and not report.holds:
        raise typer.Exit(Exit.FAILED)
