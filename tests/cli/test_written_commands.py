"""Commands that the Makefile, the page of measurements and the helps tell to type are understood as they are meant."""

import re
import shlex
import subprocess
from pathlib import Path

import pytest
import typer.main

from streamscribe.cli.main import app

ROOT = Path(__file__).parents[2]
MAKEFILE = (ROOT / "Makefile").read_text()
PAGE = (ROOT / "docs/benchmarks.md").read_text()


def leaves(group):
    for command in group.commands.values():
        yield from leaves(command) if hasattr(command, "commands") else [command]


def written():
    for words in re.findall(r"\$\(BIN\)/streamscribe (.+)", MAKEFILE):
        yield re.sub(r"\$\(\w+\)", "", words.partition(" ||")[0])
    yield from re.findall(r"^streamscribe (.+)", PAGE, re.MULTILINE)
    for command in leaves(typer.main.get_command(app)):
        yield from re.findall(r"^\s*streamscribe (bench .+)", command.help, re.MULTILINE)


def parsed(line):
    """What a command is given by its words. Raises typer's own errors for what it does not know."""
    command, words = typer.main.get_command(app), shlex.split(line)
    while hasattr(command, "commands"):
        command = command.commands[words.pop(0)]
    return command.make_context(command.name, words).params


def test_the_chaos_target_is_among_them():
    chaos = re.search(r"^chaos:.*\n((?:\t.*\n)+)", MAKEFILE, re.MULTILINE)[1]
    lines = re.findall(r"\$\(BIN\)/streamscribe (.+) \|\| failed=1; ", chaos)
    assert len(lines) >= 4
    assert set(lines) <= set(written())
    assert all(parsed(line)["check"] for line in lines)


@pytest.mark.parametrize("target", ["bench", "chaos"])
def test_a_bar_that_does_not_hold_keeps_no_other_from_being_measured_and_fails_at_the_end(target, tmp_path):
    (tmp_path / "streamscribe").write_text("#!/bin/sh\necho $* >> $(dirname $0)/typed\n[ $3 != --check ]\n")
    (tmp_path / "streamscribe").chmod(0o755)
    recipe = re.search(rf"^{target}:.*\n((?:\t.*\n)+)", MAKEFILE, re.MULTILINE)[1]
    (tmp_path / "Makefile").write_text(f"BIN := {tmp_path}\n{target}:\n{recipe}")
    assert subprocess.run(["make", "-C", tmp_path, target], capture_output=True).returncode == 2
    typed = (tmp_path / "typed").read_text().splitlines()
    assert len(typed) == recipe.count("$(BIN)/streamscribe ")


@pytest.mark.parametrize("line", sorted(set(written())))
def test_a_command_that_is_written_down_is_understood_and_no_option_swallows_another(line):
    values = [one for value in parsed(line).values() for one in (value if isinstance(value, list | tuple) else [value])]
    assert not [value for value in values if str(value).startswith("-")]
