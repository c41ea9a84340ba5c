"""Keys on disk: what is kept of them, who is let in, and what a changed or broken file does."""

import hashlib
import hmac
from pathlib import Path

import pytest
import yaml

from streamscribe.control.keys import list_keys, new_key, revoke_key
from streamscribe.core.options import Hotword
from streamscribe.core.rules import NO_POLICY, Rule, RuleKind, TextPolicy
from streamscribe.store.keys import PEPPER_VARIABLE, KeyFileError, pepper_path, split_key
from streamscribe.store.tenants import FileTenantStore, read_tenants

RULE = {"name": "promises", "kind": "promised", "phrases": ["保本", "in  writing"]}
LISTS = {
    "hotwords": ["通义千问", {"phrase": "ComfyUI", "weight": 2}, "file:///etc/passwd"],
    "rules": [RULE],
    "redact": ["张三"],
    "redact_digits": True,
}
POLICY = TextPolicy((Rule("promises", RuleKind.PROMISED, ("保本", "in writing")),), ("张三",), redact_digits=True)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "tenants.yaml"


def store_of(file: Path) -> FileTenantStore:
    return FileTenantStore(file, default_max_sessions=7)


def test_a_key_lets_its_tenant_in_with_its_quota(file: Path) -> None:
    first, second = new_key(file, "acme", max_sessions=3), new_key(file, "acme")
    third = new_key(file, "other")
    store = store_of(file)
    for key in (first, second):
        tenant = store.authenticate(key)
        assert tenant is not None
        assert (tenant.tenant_id, tenant.max_sessions) == ("acme", 3)
    tenant = store.authenticate(third)
    assert tenant is not None
    assert (tenant.tenant_id, tenant.max_sessions) == ("other", 7)


def test_nothing_on_disk_is_or_gives_a_key(file: Path) -> None:
    key = new_key(file, "acme")
    _, secret = split_key(key)
    for path in file.parent.iterdir():
        assert secret not in path.read_text()
        assert path.stat().st_mode & 0o077 == 0, path
    stored = read_tenants(file).tenants["acme"].keys[0]
    assert stored.mac != hashlib.sha256(secret.encode()).hexdigest()
    pepper = pepper_path(file).read_text().strip().encode()
    assert stored.mac == hmac.new(pepper, secret.encode(), hashlib.sha256).hexdigest()
    assert store_of(file).authenticate(f"ss_{stored.id}_{stored.mac}") is None


def test_a_changed_file_is_read_again_and_a_revoked_key_is_refused(file: Path) -> None:
    old = new_key(file, "acme")
    store = store_of(file)
    assert store.refresh() is False
    new = new_key(file, "acme")
    assert store.authenticate(new) is None
    assert store.refresh() is True
    assert store.authenticate(new) is not None
    assert revoke_key(file, split_key(old)[0]) == "acme"
    store.refresh()
    assert store.authenticate(old) is None
    assert store.authenticate(new) is not None


def test_a_file_that_breaks_changes_nothing_until_it_is_mended(file: Path) -> None:
    key = new_key(file, "acme")
    store = store_of(file)
    whole = file.read_text()
    for broken in ("tenants: [", "tenants: {acme: {keys: [{id: a, mac: zz}]}}", "", "\n"):
        file.write_text(broken)
        with pytest.raises(KeyFileError):
            store.refresh()
        assert store.authenticate(key) is not None
    file.unlink()
    with pytest.raises(KeyFileError):
        store.refresh()
    file.write_text(whole)
    assert store.refresh() is True
    assert store.authenticate(key) is not None


def write(file: Path, tenant: str, **lists: object) -> None:
    content = yaml.safe_load(file.read_text())
    content["tenants"][tenant].update(lists)
    file.write_text(yaml.safe_dump(content))


def test_a_tenant_has_its_own_hot_words_and_rules(file: Path) -> None:
    key, other = new_key(file, "acme"), new_key(file, "other")
    write(file, "acme", **LISTS)
    store = store_of(file)
    tenant, stranger = store.authenticate(key), store.authenticate(other)
    assert tenant is not None
    assert tenant.hotwords == (Hotword("通义千问"), Hotword("ComfyUI", 2.0), Hotword("file:///etc/passwd"))
    assert tenant.policy == POLICY
    assert stranger is not None
    assert (stranger.hotwords, stranger.policy) == ((), NO_POLICY)


def test_lists_that_change_reach_those_who_come_after(file: Path) -> None:
    key = new_key(file, "acme")
    store = store_of(file)
    write(file, "acme", redact_digits=True, hotwords="a,b")
    assert store.refresh()
    tenant = store.authenticate(key)
    assert tenant is not None
    assert tenant.policy == TextPolicy(redact_digits=True)
    assert tenant.hotwords == (Hotword("a"), Hotword("b"))


def test_an_edit_of_keys_keeps_the_lists(file: Path) -> None:
    first = new_key(file, "acme")
    write(file, "acme", **LISTS)
    second = new_key(file, "acme", max_sessions=3)
    revoke_key(file, split_key(first)[0])
    tenant = store_of(file).authenticate(second)
    assert tenant is not None
    assert (tenant.max_sessions, len(tenant.hotwords), tenant.policy) == (3, 3, POLICY)
    assert "通义千问" in file.read_text()


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("tenants: {acme: {max_sessions: 0}}", "max_sessions"),
        ("tenants: {acme: {quota: 1}}", "quota"),
        ("tenants: {acme: {hotwords: 7}}", "acme.hotwords: .*must be a list"),
        (f"tenants: {{acme: {{hotwords: [{'x' * 65}]}}}}", "acme.hotwords: .*64"),
        (f"tenants: {{acme: {{hotwords: {[str(n) for n in range(101)]}}}}}", "acme.hotwords: .*100"),
        ("tenants: {acme: {rules: [{name: a, kind: hated, phrases: [x]}]}}", r"acme.rules.0.kind"),
        ("tenants: {acme: {rules: [{name: a, kind: product, phrases: []}]}}", r"acme.rules.0.phrases"),
        (
            "tenants: {acme: {rules: [{name: a, kind: product, phrases: [b, '']}]}}",
            r"phrases.1: .*1 to 64",
        ),
        (f"tenants: {{acme: {{rules: {[dict(RULE, name=str(n)) for n in range(101)]}}}}}", "acme.rules: .*100"),
        (f"tenants: {{acme: {{rules: {[RULE, RULE]}}}}}", "rules: two have one name"),
        (f"tenants: {{acme: {{rules: {[dict(RULE, phrases=['x'] * 5001)]}}}}}", "rules have more than 5000"),
        (f"tenants: {{acme: {{redact: {['x'] * 5001}}}}}", "acme.redact: .*5000"),
        ("tenants: {acme: {redact: ['a\\tb', \"\\x00\"]}}", "acme.redact.1: .*printed"),
        ("tenants: {acme: {redact_digits: perhaps}}", "acme.redact_digits"),
        ("tenants: {'a b': {}}", "tenant's id"),
        ("tenants: {acme: {keys: [{id: 'x', mac: 'short'}]}}", "mac"),
        ("tenants: [", "not valid YAML at line 1, column 11"),
        ("tenants:\n  acme:\n\t- x", "not valid YAML at line 3, column 1"),
        ("- 1", "valid"),
        ("!!python/object/apply:os.system ['true']", "not valid YAML"),
        ("[" * 5000, "not valid YAML"),
        ("a: " * 3000, "not valid YAML"),
        ("tenants: &a {acme: *a}", "not valid YAML|acme"),
        ('tenants: {acme: {max_sessions: !!float ""}}', "not valid YAML"),
        ('tenants: {acme: {max_sessions: !!bool "x"}}', "not valid YAML"),
        ('tenants: {acme: {max_sessions: !!timestamp "x"}}', "not valid YAML"),
        ("tenants: {acme: {max_sessions: 2020-13-45}}", "not valid YAML"),
    ],
)
def test_a_bad_file_is_one_line_that_names_the_field(file: Path, text: str, names: str) -> None:
    file.write_text(text)
    with pytest.raises(KeyFileError, match=names) as error:
        read_tenants(file)
    assert "\n" not in str(error.value)


def test_two_keys_of_one_id_are_refused(file: Path) -> None:
    new_key(file, "acme")
    entry = read_tenants(file).tenants["acme"].keys[0]
    line = f"{{id: {entry.id}, mac: '{entry.mac}'}}"
    file.write_text(f"tenants: {{a: {{keys: [{line}]}}, b: {{keys: [{line}]}}}}")
    with pytest.raises(KeyFileError, match="two keys"):
        store_of(file)


def test_the_pepper_of_the_environment_is_used_and_none_is_written(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(PEPPER_VARIABLE, "p" * 32)
    key = new_key(file, "acme")
    assert not pepper_path(file).exists()
    assert store_of(file).authenticate(key) is not None
    monkeypatch.setenv(PEPPER_VARIABLE, "q" * 32)
    assert store_of(file).authenticate(key) is None
    monkeypatch.setenv(PEPPER_VARIABLE, "short")
    with pytest.raises(KeyFileError, match="32"):
        store_of(file)


def test_a_file_that_is_not_there_is_named_with_the_command_that_makes_it(file: Path) -> None:
    with pytest.raises(KeyFileError, match=f"streamscribe keys new TENANT --file {file}"):
        store_of(file)


def test_a_pepper_that_others_can_read_or_that_is_missing_is_refused(file: Path) -> None:
    new_key(file, "acme")
    pepper_path(file).chmod(0o644)
    with pytest.raises(KeyFileError, match="chmod 600"):
        store_of(file)
    pepper_path(file).unlink()
    with pytest.raises(KeyFileError, match=PEPPER_VARIABLE):
        store_of(file)


def test_keys_are_listed_without_their_secrets_and_an_unknown_one_cannot_be_revoked(file: Path) -> None:
    key = new_key(file, "acme", max_sessions=2)
    (facts,) = list_keys(file)
    assert (facts.tenant, facts.key_id, facts.max_sessions) == ("acme", split_key(key)[0], 2)
    assert split_key(key)[1] not in repr(facts)
    before = file.read_text()
    with pytest.raises(KeyFileError, match="no key"):
        revoke_key(file, "nothing")
    assert file.read_text() == before


def test_a_tenant_id_that_is_none_makes_no_file(file: Path) -> None:
    with pytest.raises(ValueError, match="tenant's id"):
        new_key(file, "not an id")
    assert not file.exists()


def test_a_tenant_of_zero_retention_is_known_as_one(file: Path) -> None:
    key, other = new_key(file, "acme"), new_key(file, "other")
    content = yaml.safe_load(file.read_text())
    content["tenants"]["acme"]["zero_retention"] = True
    file.write_text(yaml.safe_dump(content))
    store = store_of(file)
    for one, forbidden in ((key, True), (other, False)):
        tenant = store.authenticate(one)
        assert tenant is not None
        assert tenant.zero_retention is forbidden
    new_key(file, "acme")
    assert read_tenants(file).tenants["acme"].zero_retention


def test_a_tenant_has_its_share_its_pace_and_its_priority(file: Path) -> None:
    keys = {name: new_key(file, name) for name in ("acme", "other")}
    content = yaml.safe_load(file.read_text())
    content["tenants"]["acme"] |= {"weight": 5, "priority": True, "max_new_sessions_per_min": 30}
    file.write_text(yaml.safe_dump(content))
    acme, other = (store_of(file).authenticate(keys[name]) for name in ("acme", "other"))
    assert acme is not None
    assert other is not None
    assert (acme.weight, acme.max_new_sessions_per_min, acme.yields) == (5, 30, False)
    assert (other.weight, other.max_new_sessions_per_min, other.yields) == (1, None, True)
    content["tenants"]["acme"]["priority"] = False
    file.write_text(yaml.safe_dump(content))
    other = store_of(file).authenticate(keys["other"])
    assert other is not None
    assert not other.yields


@pytest.mark.parametrize("bad", [{"weight": 0}, {"weight": 101}, {"max_new_sessions_per_min": 0}])
def test_shares_and_paces_beyond_their_bounds_are_named(file: Path, bad: dict[str, int]) -> None:
    new_key(file, "acme")
    content = yaml.safe_load(file.read_text())
    content["tenants"]["acme"] |= bad
    file.write_text(yaml.safe_dump(content))
    with pytest.raises(KeyFileError, match=f"tenants.acme.{next(iter(bad))}"):
        store_of(file)
