"""How a measurement is shown: as a table with the bars it is held against, or as JSON."""

from collections.abc import Callable
from typing import TYPE_CHECKING

import typer
from rich.table import Table

from streamscribe.cli.output import Exit, err, out, print_json

if TYPE_CHECKING:
    from streamscribe.bench.report import Report


def tell(doing: str, run: "Callable[[], Report]", as_json: bool, check: bool) -> None:
    """Measures, shows the report, and ends with 1 where a bar that is to hold does not."""
    with err.status(doing):
        report = run()
    if as_json:
        print_json(report.as_dict())
    else:
        out.print(_table(report))
    if check and not report.holds:
        raise typer.Exit(Exit.FAILED)


def _table(report: "Report") -> Table:
    bars = {bar.figure: bar for bar in report.bars}
    table = Table(title=f"{report.bench} · {report.machine}", title_justify="left")
    table.add_column("figure")
    table.add_column("value", justify="right")
    table.add_column("bar", justify="right")
    for name, value in report.figures.items():
        bar = bars.get(name)
        verdict = f"{bar.op} {bar.bar:g} {'✓' if bar.holds else '✗'}" if bar else ""
        shown = f"{value:,.0f}" if value >= 1000 else f"{value:.4g}"
        table.add_row(name, shown, verdict, style="red" if bar and not bar.holds else None)
    for name, bar in bars.items():
        if name not in report.figures:
            table.add_row(name, "absent", f"{bar.op} {bar.bar:g} ✗", style="red")
    return table
