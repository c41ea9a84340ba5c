"""What an operator does with keys: make one for a tenant, list them, revoke one. Files are replaced whole."""

import fcntl
import os
import stat
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import yaml

from streamscribe.core.ids import TenantId
from streamscribe.store.keys import KeyFileError, ensure_pepper, give_to, mac_of, make_key
from streamscribe.store.tenants import KeyEntry, TenantEntry, TenantsFile, read_tenants

_HEADER = "# Tenants, their lists and keys (MACs only). Written by `streamscribe keys`; read again when it changes.\n"


@dataclass(frozen=True, slots=True)
class KeyFacts:
    """A key as an operator sees it."""

    key_id: str
    tenant: str
    created: str
    max_sessions: int | None
    operator: bool


def new_key(path: Path, tenant: str, *, max_sessions: int | None = None, operator: bool = False) -> str:
    """Makes a key for a tenant, new or known, and stores its MAC. The key is nowhere else: show it.

    `max_sessions` sets the tenant's quota, `operator` makes it one; None and False leave what is there. Raises
    KeyFileError for a file that cannot be used and ValueError for a tenant id that is none.
    """
    tenant_id = TenantId(tenant)
    if path.is_dir():
        raise KeyFileError(f"{path}: is a folder; name a file in it: --file {path / 'tenants.yaml'}")
    if not path.parent.is_dir():
        raise KeyFileError(f"{path}: there is no folder {path.parent}; make it: mkdir -p {path.parent}")
    key, key_id, secret = make_key()
    with _edited(path) as tenants:
        mac = mac_of(ensure_pepper(path), secret)
        entry = tenants.get(tenant_id, TenantEntry())
        made = KeyEntry(id=key_id, mac=mac, created=datetime.now(UTC).date().isoformat())
        quota = entry.max_sessions if max_sessions is None else max_sessions
        update = {"max_sessions": quota, "operator": entry.operator or operator, "keys": (*entry.keys, made)}
        tenants[tenant_id] = entry.model_copy(update=update)
    return key


def list_keys(path: Path) -> list[KeyFacts]:
    """All keys, by tenant. Raises KeyFileError."""
    return [
        KeyFacts(key.id, tenant, key.created, entry.max_sessions, entry.operator)
        for tenant, entry in sorted(read_tenants(path).tenants.items())
        for key in entry.keys
    ]


def revoke_key(path: Path, key_id: str) -> str:
    """Removes a key and says whose it was; the tenant stays. Raises KeyFileError for an unknown id, and for no file."""
    read_tenants(path)  # where there is none, no lock is left beside it
    with _edited(path) as tenants:
        for tenant, entry in tenants.items():
            left = tuple(key for key in entry.keys if key.id != key_id)
            if len(left) < len(entry.keys):
                tenants[tenant] = entry.model_copy(update={"keys": left})
                return tenant
        raise KeyFileError(f"{path} has no key {key_id!r}; see: streamscribe keys list --file {path}")


@contextmanager
def _edited(path: Path) -> Iterator[dict[str, TenantEntry]]:
    """The file's tenants to change; written at the end. Two editors take turns; a reader sees the old or the new.

    A file that is there stays its owner's, with its mode, whoever edits it: a service goes on reading what root wrote.
    """
    flags = os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
    lock = os.open(path.with_name(path.name + ".lock"), flags, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        former = path.stat() if path.exists() else None
        if (
            former is not None and os.fstat(lock).st_nlink == 1
        ):  # who may write in the folder may link to what is not his
            give_to(lock, former, path)
        tenants = dict(read_tenants(path).tenants) if former is not None else {}
        yield tenants
        _replace(path, TenantsFile(tenants=tenants), former)
    finally:
        os.close(lock)


def _replace(path: Path, content: TenantsFile, former: os.stat_result | None) -> None:
    data: Mapping[str, Any] = content.model_dump(mode="json", exclude_defaults=True)
    text = _HEADER + yaml.safe_dump(data, sort_keys=True, allow_unicode=True)
    fresh = path.with_name(path.name + ".new")
    fresh.unlink(missing_ok=True)
    descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        if former is not None:
            give_to(descriptor, former, path)
            os.fchmod(descriptor, stat.S_IMODE(former.st_mode))
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    fresh.replace(path)
