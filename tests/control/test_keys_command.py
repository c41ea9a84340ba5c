"""`streamscribe keys`, as an operator types it."""

import json
import os
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
    listed = json.loads(run("list", "--file", file, "--json"))
    assert sorted((key["tenant"], key["operator"]) for key in listed) == [("acme", False), ("ops", True), ("ops", True)]
    shown = {line.split()[3] for line in run("list", "--file", file).splitlines() if line.rstrip(" │").endswith("yes")}
    assert shown == {"ops"}


def refused(*arguments: str) -> tuple[int, str]:
    result = CliRunner().invoke(app, list(arguments), env={"COLUMNS": "1000"})
    assert isinstance(result.exception, SystemExit), "an error of ours, in one line"
    return result.exit_code, result.stderr


def test_a_file_that_cannot_be_is_told_with_what_to_do_and_leaves_nothing_behind(tmp_path: Path) -> None:
    none = tmp_path / "none"
    assert refused("new", "acme", "--file", str(tmp_path)) == (
        1,
        f"error: {tmp_path}: is a folder; name a file in it: --file {tmp_path / 'tenants.yaml'}\n",
    )
    assert refused("new", "acme", "--file", str(none / "tenants.yaml")) == (
        1,
        f"error: {none / 'tenants.yaml'}: there is no folder {none}; make it: mkdir -p {none}\n",
    )
    for here in ".", "":
        assert refused("new", "acme", "--file", here)[1].startswith("error: .: is a folder; name a file in it: ")
    assert "No such file or directory; make it by: " in refused("revoke", "x", "--file", str(tmp_path / "t.yaml"))[1]
    assert not list(tmp_path.iterdir())


def test_what_the_system_refuses_is_told_without_its_number(tmp_path: Path) -> None:
    (tmp_path / "t.yaml.lock").symlink_to(tmp_path / "elsewhere")
    _, said = refused("new", "acme", "--file", str(tmp_path / "t.yaml"))
    assert said.startswith(f"error: {tmp_path / 't.yaml.lock'}: ")
    assert "Errno" not in said


@pytest.mark.parametrize("name", ["bad/name", ""])
def test_a_name_that_is_none_is_repeated(file: str, name: str) -> None:
    code, said = refused("new", name, "--file", file)
    assert (code, said.startswith(f"error: {name!r}: a tenant's id must be ")) == (2, True)


def test_who_makes_a_key_is_told_how_the_server_comes_to_know_it(file: str) -> None:
    result = CliRunner().invoke(app, ["new", "acme", "--file", file])
    assert f"--tenants {file}" in result.stderr.replace("\n", "")


def test_who_revokes_a_key_that_is_not_there_is_told_how_to_see_those_that_are(file: str) -> None:
    run("new", "acme", "--file", file)
    for key_id in "63749f9df81f", "":
        code, said = refused("revoke", key_id, "--file", file)
        assert (code, said) == (1, f"error: {file} has no key {key_id!r}; see: streamscribe keys list --file {file}\n")


def test_machines_get_json(file: str) -> None:
    made = json.loads(run("new", "acme", "--file", file, "--json"))
    assert made["tenant"] == "acme"
    (listed,) = json.loads(run("list", "--file", file, "--json"))
    assert listed["key_id"] == made["key"].split("_")[1]


SERVICE = 65_534
"""A user that is not root."""

as_root = pytest.mark.skipif(os.geteuid() != 0, reason="needs root, who may give files away")


@as_root
@pytest.mark.parametrize("mode", [0o600, 0o640])
def test_a_file_that_root_edits_stays_its_owners_and_what_is_made_beside_it_is_too(tmp_path: Path, mode: int) -> None:
    path = tmp_path / "tenants.yaml"
    path.write_text("tenants: {}")
    path.chmod(mode)
    os.chown(path, SERVICE, SERVICE + 1)
    key = run("new", "acme", "--file", str(path)).strip()
    run("revoke", key.split("_")[1], "--file", str(path))
    made = {one.name: one.stat() for one in tmp_path.iterdir()}
    assert made.keys() == {"tenants.yaml", "tenants.yaml.lock", "tenants.yaml.pepper"}
    assert {(one.st_uid, one.st_gid) for one in made.values()} == {(SERVICE, SERVICE + 1)}
    assert {name: one.st_mode & 0o777 for name, one in made.items()} == {
        "tenants.yaml": mode, "tenants.yaml.lock": 0o600, "tenants.yaml.pepper": 0o600,
    }  # fmt: skip


@as_root
@pytest.mark.parametrize("ending", ["new", "lock"])
def test_root_gives_away_nothing_to_which_a_link_beside_the_file_leads(tmp_path: Path, ending: str) -> None:
    secret, path = tmp_path / "secret", tmp_path / "tenants.yaml"
    secret.write_text("of root")
    path.write_text("tenants: {}")
    os.chown(path, SERVICE, SERVICE)
    for link in (os.symlink, os.link):
        beside = tmp_path / f"tenants.yaml.{ending}"
        beside.unlink(missing_ok=True)
        link(secret, beside)
        CliRunner().invoke(app, ["new", "acme", "--file", str(path)])
        assert (secret.read_text(), secret.stat().st_uid) == ("of root", 0)


@as_root
def test_who_could_not_leave_a_file_to_its_owner_is_told_so_and_changes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "tenants.yaml"
    path.write_text("tenants: {}")
    os.chown(tmp_path, SERVICE, SERVICE)
    monkeypatch.chdir(tmp_path)
    os.seteuid(SERVICE)
    try:
        result = CliRunner().invoke(app, ["new", "acme", "--file", "tenants.yaml"])
    finally:
        os.seteuid(0)
    assert result.exit_code == 1
    assert "another user's or group's: type this as its owner, or as root" in result.stderr.replace("\n", " ")
    assert (path.read_text(), path.stat().st_uid) == ("tenants: {}", 0)


@pytest.mark.parametrize(("arguments", "code"), [(["new", "not an id"], 2), (["revoke", "nothing"], 1), (["list"], 1)])
def test_what_cannot_be_done_is_one_line_and_a_failing_exit(file: str, arguments: list[str], code: int) -> None:
    result = CliRunner().invoke(app, [*arguments, "--file", file])
    assert result.exit_code == code
    assert result.stderr.count("\n") == 1
