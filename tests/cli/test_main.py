"""The entry point."""

import os
import sys

import pytest
from typer.testing import CliRunner

from streamscribe.bench.kinds import ClusterPart, Part
from streamscribe.cli.main import NUMPY_THREADS, app, main


@pytest.mark.parametrize("command", [[], ["serve"], ["bench", "cluster"], ["sessions"]], ids=" ".join)
def test_help_writes_no_value_behind_a_flag(run, command):
    shown = run(*command, "--help").out
    assert "--help" in shown
    assert "<bool>" not in shown


@pytest.mark.parametrize("command", ["cluster", "replay"])
def test_help_of_a_measurement_of_parts_says_what_each_is(command):
    parts = ClusterPart if command == "cluster" else Part
    shown = CliRunner().invoke(app, ["bench", command, "--help"], env={"COLUMNS": "140"}).stdout
    assert [part for part in parts if f"{part}: " not in shown] == []


@pytest.mark.parametrize(("asked", "taken"), [(None, "1"), ("4", "4")])
def test_numpy_gets_one_thread_where_nobody_asks_for_more(monkeypatch, asked, taken):
    monkeypatch.setenv(NUMPY_THREADS, "to be restored")
    if asked is None:
        monkeypatch.delenv(NUMPY_THREADS)
    else:
        monkeypatch.setenv(NUMPY_THREADS, asked)
    monkeypatch.setattr(sys, "argv", ["streamscribe", "--version"])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 0
    assert os.environ[NUMPY_THREADS] == taken
