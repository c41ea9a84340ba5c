"""`streamscribe cache roi` at a running server."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from streamscribe.cli.main import app
from streamscribe.client.local_server import LocalServer
from streamscribe.control.keys import new_key
from tests.service.conftest import EVERYBODY

pytestmark = pytest.mark.timeout(120)


def test_each_level_that_a_server_counts_has_a_line_that_says_what_to_do():
    with LocalServer(["--profile", "fake", "--set", "cache.transcripts=true", *EVERYBODY]) as server:
        url = server.address.http
        told = CliRunner().invoke(app, ["cache", "roi", "--url", url, "--json"])
        shown = CliRunner().invoke(app, ["cache", "roi", "--url", url], env={"COLUMNS": "160"})
    lines = json.loads(told.stdout)
    assert [line["level"] for line in lines] == ["embeddings", "features", "transcripts"]
    assert {line["advice"] for line in lines} == {"wait"}
    assert "transcripts" in shown.stdout
    assert shown.stderr.startswith("wait: too few look-ups")


def test_of_a_server_of_several_tenants_each_table_is_one_line_that_says_why(tmp_path: Path) -> None:
    key = new_key(tmp_path / "tenants.yaml", "acme")
    with LocalServer(["--profile", "fake", "--tenants", str(tmp_path / "tenants.yaml"), *EVERYBODY]) as server:
        for command in ("roi", "show"):
            told = CliRunner().invoke(app, ["cache", command, "--url", server.address.http, "--key", key])
            assert (told.exit_code, told.stdout) == (0, "")
            assert told.stderr.startswith("a server of several tenants tells no figures")


def test_where_no_server_answers_the_command_says_so():
    told = CliRunner().invoke(app, ["cache", "roi", "--url", "http://127.0.0.1:1"])
    assert told.exit_code == 1
    assert "no server answers" in told.output
