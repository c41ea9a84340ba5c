"""`streamscribe cache` on what outlives a server: folders that a server has filled."""

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import yaml
from click.testing import Result
from typer.testing import CliRunner

from streamscribe.bootstrap.caches import open_caches
from streamscribe.cli.main import app
from streamscribe.settings import SettingsError, load
from tests.cache.kit import ACME, OTHER, SAID

ROWS = np.ones((10, 80), np.float32)
Cli = Callable[..., Result]


@pytest.fixture
def config(tmp_path: Path) -> Path:
    """Settings of a server that has kept a text and rows of two tenants each."""
    file = tmp_path / "streamscribe.yaml"
    cache = {
        "feature_cache_dir": str(tmp_path / "features"),
        "transcripts": True,
        "transcript_dir": str(tmp_path / "texts"),
        "secret_file": str(tmp_path / "secret"),
    }
    file.write_text(yaml.safe_dump({"cache": cache}))
    caches = open_caches(load(file).cache)
    assert caches.features is not None
    assert caches.transcripts is not None
    for tenant in (ACME, OTHER):
        caches.features.put(tenant, caches.keys.derive(tenant, "features", 1), ROWS)
        key = caches.keys.derive(tenant, "transcript", 1)
        caches.transcripts.store.put(caches.keys.owner(tenant), key, repr(SAID).encode(), 1000)
    return file


@pytest.fixture
def cli(config: Path) -> Cli:
    def invoke(*arguments: str) -> Result:
        return CliRunner().invoke(app, ["cache", *arguments, "--config", str(config)], env={"COLUMNS": "160"})

    return invoke


def entries(cli: Cli) -> dict[str, int]:
    told = json.loads(cli("show", "--json").stdout)
    return {level["level"]: level["tiers"][0]["entries"] for level in told["levels"]}


def test_show_tells_what_lies_on_disk(cli: Cli) -> None:
    shown = cli("show")
    assert shown.exit_code == 0
    assert "features" in shown.stdout
    assert "7 days" in shown.stdout
    assert "hits" not in shown.stdout, "only a server counts them"
    told = json.loads(cli("show", "--json").stdout)
    assert [level["level"] for level in told["levels"]] == ["features", "transcripts"]
    for level in told["levels"]:
        (tier,) = level["tiers"]
        assert (tier["tier"], tier["entries"], tier["damaged"], tier["available"]) == ("disk", 2, 0, True)
        assert tier["bytes"] > 100


def test_purge_forgets_one_tenant_and_leaves_the_others(cli: Cli) -> None:
    assert json.loads(cli("purge", "--tenant", ACME, "--json").stdout) == {"purged": {"features": 1, "transcripts": 1}}
    assert entries(cli) == {"features": 1, "transcripts": 1}
    assert cli("purge", "--tenant", ACME).stdout == "features: 0 forgotten\ntranscripts: 0 forgotten\n"
    assert entries(cli) == {"features": 1, "transcripts": 1}


def test_purge_forgets_one_entry_by_its_name(cli: Cli, tmp_path: Path) -> None:
    name = next((tmp_path / "texts").glob("?" * 64)).name
    assert cli("purge", "--entry", name).exit_code == 0
    assert entries(cli) == {"features": 2, "transcripts": 1}
    again = cli("purge", "--entry", name)
    assert (again.exit_code, again.stderr) == (1, "error: there is no such entry\n")


@pytest.mark.parametrize("which", [(), ("--tenant", "acme", "--entry", "5f"), ("--tenant", "no/tenant")])
def test_purge_wants_to_know_what(cli: Cli, which: tuple[str, ...]) -> None:
    assert cli("purge", *which).exit_code == 2
    assert entries(cli) == {"features": 2, "transcripts": 2}


def test_clear_forgets_everything_once_it_is_sure(cli: Cli) -> None:
    assert cli("clear").exit_code == 1
    assert entries(cli) == {"features": 2, "transcripts": 2}
    assert json.loads(cli("clear", "--yes", "--json").stdout) == {"purged": {"features": 2, "transcripts": 2}}
    assert entries(cli) == {"features": 0, "transcripts": 0}


def test_verify_finds_and_removes_what_was_changed(cli: Cli, tmp_path: Path) -> None:
    assert cli("verify").stdout == (
        "features: 2 checked, 0 damaged and removed\ntranscripts: 2 checked, 0 damaged and removed\n"
    )
    file = next((tmp_path / "features").glob("?" * 64))
    data = bytearray(file.read_bytes())
    data[100] ^= 1
    file.write_bytes(data)
    found = cli("verify", "--json")
    assert found.exit_code == 1
    assert json.loads(found.stdout)["features"] == {"checked": 2, "damaged": 1}
    assert not file.exists()
    assert cli("verify").exit_code == 0


@pytest.mark.parametrize("command", [("show",), ("verify",), ("clear", "--yes")])
def test_where_nothing_outlives_a_server_it_says_so(command: tuple[str, ...], tmp_path: Path) -> None:
    empty = tmp_path / "empty.yaml"
    empty.write_text("{}")
    done = CliRunner().invoke(app, ["cache", *command, "--config", str(empty)])
    assert (done.exit_code, done.stdout) == (0, "")
    assert "nothing outlives a server" in done.stderr


def test_a_server_that_is_not_there_is_told(tmp_path: Path) -> None:
    done = CliRunner().invoke(app, ["cache", "show", "--url", "http://127.0.0.1:9"])
    assert (done.exit_code, done.stderr) == (
        1,
        "error: no server answers at http://127.0.0.1:9; start one with: streamscribe serve\n",
    )
    assert CliRunner().invoke(app, ["cache", "show", "--url", "ftp://x"]).exit_code == 2


@pytest.mark.parametrize("key", ["ss_a_b\r", "a\nb", "ключ"])
@pytest.mark.parametrize("command", ["show", "roi", "purge"])
def test_a_key_that_cannot_be_one_is_told_before_a_server_is_asked(command: str, key: str) -> None:
    done = CliRunner().invoke(app, ["cache", command, "--url", "http://127.0.0.1:9"], env={"STREAMSCRIBE_KEY": key})
    assert done.exit_code == 2
    assert done.stderr.startswith("error: --key: ")


@pytest.mark.parametrize("command", ["show", "verify"])
def test_a_folder_that_is_not_there_is_named_and_not_made(tmp_path: Path, command: str) -> None:
    folder = tmp_path / "mistyped"
    told = CliRunner().invoke(app, ["cache", command, f"--set=cache.feature_cache_dir={folder}"])
    assert isinstance(told.exception, SettingsError)
    assert str(told.exception) == f"setting cache.feature_cache_dir: there is no folder {folder}"
    assert not folder.exists()
