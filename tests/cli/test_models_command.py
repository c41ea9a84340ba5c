"""`streamscribe models` for people and for machines; the models come from the suite's own model folder."""

import json
import os
import shutil
import subprocess
import sys

import pytest
from typer.testing import CliRunner

from streamscribe.cli.models import app
from streamscribe.models import registry

IDS = list(registry.catalogue())
BUNDLED = [id_ for id_, model in registry.catalogue().items() if model.bundled]


def whole(id_: str) -> dict:
    return {"id": id_, "ok": True, "problems": []}


@pytest.fixture
def run(tmp_path):
    """Runs a subcommand on an empty model folder."""

    def invoke(*arguments: str):
        return CliRunner().invoke(app, [*arguments, "--dir", str(tmp_path / "models")])

    return invoke


class TestEmptyFolder:
    def test_list_names_every_model_and_what_is_not_installed(self, run):
        rows = json.loads(run("list", "--json").stdout)
        assert [row["id"] for row in rows] == IDS
        assert {"fsmn-vad", "whisper-base", "paraformer-zh", "tiny-paraformer"} <= set(IDS)
        assert [row["id"] for row in rows if row["installed"]] == BUNDLED
        assert {"task", "languages", "licence", "size_bytes", "path"} <= rows[0].keys()
        table = run("list").stdout
        assert all(id_ in table for id_ in IDS)
        assert "CC-BY-SA-3.0" in table

    @pytest.mark.parametrize("columns", [40, 80])
    def test_of_the_list_nothing_is_cut_and_it_fits_a_terminal_of_80_columns(self, tmp_path, columns):
        command = [sys.executable, "-m", "streamscribe.cli", "models", "list", "--dir", tmp_path]
        environment = {**os.environ, "COLUMNS": str(columns)}
        table = subprocess.run(command, capture_output=True, text=True, env=environment).stdout.splitlines()[1:]
        assert table[0].split() == ["model", "task", "languages", "licence", "size"]
        assert max(map(len, table)) <= 80
        assert not [line for line in table if "…" in line]

    @pytest.mark.parametrize("command", ["verify", "path", "remove"])
    def test_what_is_not_installed_exits_3_and_says_what_to_type(self, run, command):
        result = run(command, "fsmn-vad")
        assert result.exit_code == 3
        assert "streamscribe models pull fsmn-vad" in result.stderr

    def test_verify_reads_what_is_part_of_the_package(self, run):
        assert json.loads(run("verify", "--json").stdout) == [whole(id_) for id_ in BUNDLED]

    def test_what_is_part_of_the_package_needs_no_pull_and_cannot_be_removed(self, run):
        pulled = run("pull", "tiny-punc", "--json")
        assert (pulled.exit_code, [report["installed"] for report in json.loads(pulled.stdout)]) == (0, [True])
        refused = run("remove", "tiny-punc")
        assert refused.exit_code == 2
        assert "tiny-punc is a part of the package" in " ".join(refused.stderr.split())
        assert run("path", "tiny-punc").exit_code == 0

    @pytest.mark.parametrize(
        "arguments", [["pull"], ["pull", "nope"], ["path", "nope"], ["pull", "--profile", "nope"], ["path"]]
    )
    def test_a_mistake_of_usage_exits_2(self, run, arguments):
        assert run(*arguments).exit_code == 2

    def test_a_mistyped_name_is_told_the_nearest(self, run):
        assert run("pull", "whisper-bas").stderr.strip().endswith("did you mean whisper-base?")

    def test_the_fake_profile_needs_nothing(self, run):
        result = run("pull", "--profile", "fake", "--json")
        assert (result.exit_code, json.loads(result.stdout)) == (0, [])

    def test_pulls_that_fail_exit_1_and_each_says_why(self, run, tmp_path):
        (tmp_path / "usb").mkdir()
        result = run("pull", "fsmn-vad", "demo-recordings", "--from", str(tmp_path / "usb"), "--json")
        assert result.exit_code == 1
        assert [report["installed"] for report in json.loads(result.stdout)] == [False, False]
        assert "model.onnx" in result.stderr
        assert "en/counting.txt" in result.stderr

    @pytest.mark.parametrize("command", ["list", "pull", "verify", "path", "remove"])
    def test_help_has_an_example(self, command):
        assert f"streamscribe models {command}" in " ".join(CliRunner().invoke(app, [command, "--help"]).stdout.split())


@pytest.mark.models
class TestRealModels:
    def test_pull_verify_path_and_remove(self, run, model_dir, tmp_path):
        pulled = run("pull", "fsmn-vad", "demo-recordings", "--from", str(model_dir))
        assert pulled.exit_code == 0, pulled.stderr
        again = json.loads(run("pull", "fsmn-vad", "--json").stdout)
        assert again == [{"id": "fsmn-vad", "installed": True, "path": str(tmp_path / "models/fsmn-vad")}]
        verified = json.loads(run("verify", "--json").stdout)
        assert verified == [whole(id_) for id_ in IDS if id_ in {"fsmn-vad", "demo-recordings", *BUNDLED}]
        assert run("path", "fsmn-vad").stdout.strip() == str(tmp_path / "models/fsmn-vad")
        freed = json.loads(run("remove", "fsmn-vad", "--json").stdout)
        assert freed == [{"id": "fsmn-vad", "freed_bytes": registry.find("fsmn-vad").size_bytes}]
        assert run("path", "fsmn-vad", "--json").exit_code == 3

    def test_a_damaged_model_fails_verification(self, run, model_dir, tmp_path):
        shutil.copytree(model_dir / "fsmn-vad", tmp_path / "models/fsmn-vad")
        (tmp_path / "models/fsmn-vad/am.mvn").write_text("changed")
        result = run("verify", "fsmn-vad")
        assert result.exit_code == 1
        assert "am.mvn: 7 bytes" in result.stdout
        assert "streamscribe models pull fsmn-vad" in result.stderr

    def test_the_folder_is_that_of_the_settings(self, model_dir, monkeypatch):
        monkeypatch.setenv("STREAMSCRIBE_MODEL__DIR", str(model_dir))
        result = CliRunner().invoke(app, ["path", "fsmn-vad", "--json"])
        assert json.loads(result.stdout)["path"] == str(model_dir / "fsmn-vad")
