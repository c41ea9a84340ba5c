"""The one form of every measurement: figures, the machine, and the bars they are held against."""

import os
import platform
import tomllib
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from importlib.resources import files
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


def report(bench: str, settings: Mapping[str, Any], figures: Mapping[str, float]) -> Report:
    """Holds figures against the bars of `bars.toml`; a bar whose figure was not measured in this run is left out."""
    table = tomllib.loads(files(__package__).joinpath("bars.toml").read_text())[bench]
    bars = tuple(
        Bar(figure, rule["op"], rule["bar"], OPERATORS[rule["op"]](float(figures[figure]), float(rule["bar"])))
        for figure, rule in table.items()
        if figure in figures
    )
    return Report(bench, machine(), dict(settings), dict(figures), bars)
