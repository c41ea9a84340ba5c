"""The form of an API key, and what of it is kept: an id to find it by and a MAC of its secret."""

import hashlib
import hmac
import os
import secrets
from pathlib import Path

from streamscribe.files import read_small
from streamscribe.settings import SettingsError

PREFIX = "ss"
PEPPER_VARIABLE = "STREAMSCRIBE_PEPPER"
MIN_PEPPER_CHARS = 32
MAX_PEPPER_FILE_BYTES = 4096


class KeyFileError(SettingsError):
    """The tenants file or its pepper cannot be used; the message is one line and holds no secret."""


def make_key() -> tuple[str, str, str]:
    """A new key, its id, and its 256-bit secret: `ss_<id>_<secret>`."""
    key_id, secret = secrets.token_hex(6), secrets.token_urlsafe(32)
    return f"{PREFIX}_{key_id}_{secret}", key_id, secret


def split_key(key: str) -> tuple[str, str]:
    """Id and secret; two empty strings for what is not a key."""
    prefix, _, rest = key.partition("_")
    key_id, _, secret = rest.partition("_")
    return (key_id, secret) if prefix == PREFIX and key_id and secret else ("", "")


def mac_of(pepper: bytes, secret: str) -> str:
    """HMAC-SHA-256 in hexadecimal. A fast hash is right for a secret of 256 random bits."""
    return hmac.new(pepper, secret.encode(), hashlib.sha256).hexdigest()


def pepper_path(tenants_file: Path) -> Path:
    """The file beside the tenants file that holds the pepper."""
    return tenants_file.with_name(tenants_file.name + ".pepper")


def read_pepper(tenants_file: Path) -> bytes:
    """The pepper: of the environment, else of the file. Raises KeyFileError for none, a short one or an open file."""
    pepper = os.environ.get(PEPPER_VARIABLE, "")
    path = pepper_path(tenants_file)
    if not pepper:
        try:
            pepper = read_small(path, MAX_PEPPER_FILE_BYTES, private=True).decode().strip()
        except UnicodeDecodeError:
            raise KeyFileError(f"{path}: is no text; restore it, or set {PEPPER_VARIABLE}") from None
        except OSError as error:
            raise KeyFileError(f"{path}: {error.strerror}; restore it, or set {PEPPER_VARIABLE}") from None
    if len(pepper) < MIN_PEPPER_CHARS:
        raise KeyFileError(f"the pepper must have at least {MIN_PEPPER_CHARS} characters")
    return pepper.encode()


def ensure_pepper(tenants_file: Path) -> bytes:
    """The pepper, made if there is none yet (file mode 0600, of the owner of the tenants file, if that is there)."""
    if PEPPER_VARIABLE not in os.environ:
        try:
            descriptor = os.open(pepper_path(tenants_file), os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        except FileExistsError:
            return read_pepper(tenants_file)
        with os.fdopen(descriptor, "w") as file:
            if tenants_file.exists():
                give_to(descriptor, tenants_file.stat(), tenants_file)
            file.write(secrets.token_hex(32) + "\n")
    return read_pepper(tenants_file)


def give_to(descriptor: int, former: os.stat_result, tenants_file: Path) -> None:
    """Gives an open file the owner and group of the tenants file as it was. Raises KeyFileError where only root may."""
    ours = os.fstat(descriptor)
    if (ours.st_uid, ours.st_gid) == (former.st_uid, former.st_gid):
        return
    try:
        os.fchown(descriptor, former.st_uid, former.st_gid)
    except PermissionError:
        raise KeyFileError(f"{tenants_file} is another user's or group's: type this as its owner, or as root") from None
