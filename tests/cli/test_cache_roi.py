"""`streamscribe cache roi` at a running server."""

import json

import pytest
from typer.testing import CliRunner

from streamscribe.cli.main import app
from streamscribe.client.local_server import LocalServer

pytestmark = pytest.mark.timeout(120)


def test_each_level_that_a_server_counts_has_a_line_that_says_what_to_do():
    with LocalServer(["--profile", "fake", "--set", "cache.transcripts=true"]) as server:
        url = server.address.http
        told = CliRunner().invoke(app, ["cache", "roi", "--url", url, "--json"])
        shown = CliRunner().invoke(app, ["cache", "roi", "--url", url], env={"COLUMNS": "160"})
    lines = json.loads(told.stdout)
    assert [line["level"] for line in lines] == ["embeddings", "features", "transcripts"]
    assert {line["advice"] for line in lines} == {"wait"}
    assert "transcripts" in shown.stdout


def test_where_no_server_answers_the_command_says_so():
    told = CliRunner().invoke(app, ["cache", "roi", "--url", "http://127.0.0.1:1"])
    assert told.exit_code == 1
    assert "no server answers" in told.output
