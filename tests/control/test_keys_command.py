"""`streamscribe keys`, as an operator types it."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from streamscribe.cli.keys import app
from streamscribe.store.tenants import FileTenantStore


@pytest.fixture
def file(tmp_path: Path) -> str:
    return str(tmp_path / "tenants.yaml")


def run(*arguments: str) -> str:
    result = CliRunner().invoke(app, list(arguments))
    assert result.exit_code == 0, result.output
    return result.stdout


def test_a_key_is_shown_once_listed_without_its_secret_and_revoked(file: str) -> None:
    key = run("new", "acme", "--file", file, "--max-sessions", "4").strip()
    store = FileTenantStore(Path(file), default_max_sessions=1)
    assert store.authenticate(key) is not None
    listed = run("list", "--file", file)
    key_id = key.split("_")[1]
    assert key_id in listed
    assert "acme" in listed
    assert key.split("_", 2)[2] not in listed
    assert key_id in run("revoke", key_id, "--file", file)
    store.refresh()
    assert store.authenticate(key) is None


def test_a_tenant_is_made_an_operator_and_stays_one_with_its_next_key(file: str) -> None:
    keys = [run("new", *words, "--file", file).strip() for words in (("ops", "--operator"), ("ops",), ("acme",))]
    store = FileTenantStore(Path(file), default_max_sessions=1)
    operators = [tenant.operator for key in keys if (tenant := store.authenticate(key)) is not None]
    assert operators == [True, True, False]


def test_who_makes_a_key_is_told_how_the_server_comes_to_know_it(file: str) -> None:
    result = CliRunner().invoke(app, ["new", "acme", "--file", file])
    assert f"--tenants {file}" in result.stderr.replace("\n", "")


def test_machines_get_json(file: str) -> None:
    made = json.loads(run("new", "acme", "--file", file, "--json"))
    assert made["tenant"] == "acme"
    (listed,) = json.loads(run("list", "--file", file, "--json"))
    assert listed["key_id"] == made["key"].split("_")[1]


@pytest.mark.parametrize("arguments", [["new", "not an id"], ["revoke", "nothing"], ["list"]])
def test_what_cannot_be_done_is_one_line_and_a_failing_exit(file: str, arguments: list[str]) -> None:
    result = CliRunner().invoke(app, [*arguments, "--file", file])
    assert result.exit_code == 1
    assert result.stderr.count("\n") == 1
