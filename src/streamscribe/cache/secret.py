"""The secret from which a server derives cache keys, fingerprints and seals."""

import os
import secrets
from contextlib import suppress
from pathlib import Path

from streamscribe.core.cachekey import MIN_SECRET_BYTES
from streamscribe.files import read_small
from streamscribe.settings import CacheSettings, SettingsError

MAX_FILE_BYTES = 4096


def cache_secret(settings: CacheSettings) -> bytes:
    """A random secret that ends with the process, or that of `secret_file` where something outlives the process.

    The file is made where there is none, readable by its owner only. Raises SettingsError for one that others may
    read, that holds too little or more than `MAX_FILE_BYTES`, or that cannot be read or made.
    """
    if not settings.outlives_the_process:
        return secrets.token_bytes(32)
    file = settings.secret_file.expanduser()
    try:
        if not file.exists():
            _make(file)
        return _read(file)
    except OSError as error:
        raise SettingsError(f"setting cache.secret_file: {file}: {error.strerror}") from None


def _read(file: Path) -> bytes:
    secret = read_small(file, MAX_FILE_BYTES, private=True).strip()
    if len(secret) < 2 * MIN_SECRET_BYTES:
        raise SettingsError(
            f"setting cache.secret_file: {file} must hold at least {2 * MIN_SECRET_BYTES} random characters"
        )
    return secret


def _make(file: Path) -> None:
    """Makes it whole at once, so that of two servers that start together both read the same."""
    file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    new = file.with_name(f"{file.name}.{secrets.token_hex(8)}")
    with os.fdopen(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as opened:
        opened.write(secrets.token_hex(32) + "\n")
    try:
        with suppress(FileExistsError):
            os.link(new, file)
    finally:
        new.unlink()
