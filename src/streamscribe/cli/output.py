"""How commands speak: tables and progress for people on a terminal, one JSON value for machines, errors in one line."""

import sys
from enum import IntEnum
from typing import Any, NoReturn

import msgspec
from rich.console import Console
from rich.measure import Measurement
from rich.table import Table

MAX_WIDTH = 1000
"""Of a table, in characters."""
FOLDED_WIDTH = 100
"""Of a table whose columns fold."""

out = Console(soft_wrap=True, highlight=False, emoji=False)
err = Console(stderr=True, soft_wrap=True, highlight=False, emoji=False)


class Exit(IntEnum):
    """What an exit code means, in every command."""

    OK = 0
    FAILED = 1
    USAGE = 2
    NOT_INSTALLED = 3
    INTERRUPTED = 130


def indented(value: Any) -> str:
    """One JSON value for people's eyes too."""
    return msgspec.json.format(msgspec.json.encode(value), indent=2).decode()


def print_json(value: Any) -> None:
    """One JSON value, indented, on standard output."""
    sys.stdout.write(indented(value) + "\n")


def print_table(table: Table) -> None:
    """A table with whole cells however narrow the screen is: what is cut can neither be copied nor searched for."""
    needed = Measurement.get(out, out.options.update(max_width=MAX_WIDTH), table).maximum
    Console(soft_wrap=True, highlight=False, emoji=False, width=max(out.width, needed)).print(table)


def print_folded(table: Table) -> None:
    """A table as wide as the screen, and no narrower than `FOLDED_WIDTH`; its columns say which of them fold."""
    Console(soft_wrap=True, highlight=False, emoji=False, width=max(out.width, FOLDED_WIDTH)).print(table)


def complain(message: str) -> None:
    """One line on standard error; the command goes on."""
    err.print(f"error: {' '.join(message.split())}", style="red", markup=False)


def fail(message: str, code: int = Exit.FAILED) -> NoReturn:
    """Says what went wrong on standard error, then ends the command."""
    err.print(f"error: {message}", style="red", markup=False)
    raise SystemExit(int(code))


def first(error: BaseException) -> BaseException:
    """The first of what a group of tasks raised: it is what made the others end."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error
