"""How commands speak: tables and progress for people on a terminal, one JSON value for machines, errors in one line."""

import sys
from enum import IntEnum
from typing import Any, NoReturn

import msgspec
from rich.console import Console

out = Console(soft_wrap=True, highlight=False)
err = Console(stderr=True, soft_wrap=True, highlight=False)


class Exit(IntEnum):
    """What an exit code means, in every command."""

    OK = 0
    FAILED = 1
    USAGE = 2
    NOT_INSTALLED = 3
    INTERRUPTED = 130


def print_json(value: Any) -> None:
    """One JSON value, indented, on standard output."""
    text = msgspec.json.format(msgspec.json.encode(value), indent=2).decode()
    sys.stdout.write(text + "\n")


def fail(message: str, code: Exit = Exit.FAILED) -> NoReturn:
    """One line on standard error, then the end."""
    err.print(f"error: {message}", style="red", markup=False)
    raise SystemExit(int(code))
