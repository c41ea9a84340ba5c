"""The one form of every measurement: figures, the machine, and the bars they are held against."""

import os
import platform
import tomllib
from collections.abc import Collection, Mapping
from dataclasses import asdict, dataclass
from importlib.resources import files
from math import nan
from typing import Any

OPERATORS = {"<=": float.__le__, ">=": float.__ge__}


@dataclass(frozen=True, slots=True)
class Bar:
    """A figure's promise, and whether it held."""

    figure: str
    op: str
    bar: float
    holds: bool


@dataclass(frozen=True, slots=True)
class Report:
    """What one bench run found; `figures` carry their unit in their name."""

    bench: str
    machine: str
    settings: dict[str, Any]
    figures: dict[str, float]
    bars: tuple[Bar, ...]

    @property
    def holds(self) -> bool:
        """Whether every bar held."""
        return all(bar.holds for bar in self.bars)

    def as_dict(self) -> dict[str, Any]:
        """The JSON form."""
        return asdict(self)


def machine() -> str:
    """Processor, cores and memory, in one line."""
    model = "unknown processor"
    with open("/proc/cpuinfo") as file:
        for line in file:
            if line.startswith("model name"):
                model = line.split(":", 1)[1].strip()
                break
    memory_gib = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    return f"{model}, {os.cpu_count()} cores, {memory_gib:.0f} GiB, Python {platform.python_version()}"


def report(
    bench: str, settings: Mapping[str, Any], figures: Mapping[str, float], parts: Collection[str] = ()
) -> Report:
    """Holds figures against the bars of `bench` in `bars.toml`, and of those of its `parts` that ran.

    A bar whose figure is absent does not hold: else a figure that got another name would take its bar with it.
    """
    table = tomllib.loads(files(__package__).joinpath("bars.toml").read_text())[bench]
    rules = {figure: rule for figure, rule in table.items() if "op" in rule}
    for part in parts:
        rules |= table.get(part, {})
    bars = tuple(
        Bar(figure, rule["op"], rule["bar"], OPERATORS[rule["op"]](float(figures.get(figure, nan)), float(rule["bar"])))
        for figure, rule in rules.items()
    )
    return Report(bench, machine(), dict(settings), dict(figures), bars)
