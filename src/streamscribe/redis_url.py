"""Whether the address of a Redis is one, before anybody relies on it: its client finds out at the first use only."""

import ssl
from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import parse_qs, urlsplit

ADDRESS_LIKE = "not an address like redis://host:6379/0"

OPTIONS = frozenset(
    {
        "username", "password", "db", "protocol", "client_name", "health_check_interval", "socket_keepalive",
        "retry_on_timeout", "ssl_keyfile", "ssl_certfile", "ssl_password", "ssl_ca_certs", "ssl_ca_path", "ssl_ca_data",
        "ssl_cert_reqs", "ssl_check_hostname", "ssl_ciphers", "ssl_min_version", "ssl_include_verify_flags",
        "ssl_exclude_verify_flags",
    }
)  # fmt: skip
"""Those of redis-py whose values a text can give, but for times and numbers of connections: these are ours to say."""


class UnusableAddress(ValueError):
    """By which none can connect; the message holds no part of it, which may be a password."""


def client_of(url: str, make: Callable[[str], Any]) -> Any:
    """The client of redis-py, asyncio's or not, that `make` makes of an address. Raises UnusableAddress."""
    from redis import RedisError

    try:
        _check_options(url)
        client = make(url)
    except UnusableAddress:
        raise
    except ValueError:
        raise UnusableAddress(ADDRESS_LIKE) from None
    pool = client.connection_pool
    named = pool.connection_kwargs
    try:
        str(named.get("host", "")).encode("idna")  # as connecting will, which raises it in the middle of work
    except UnicodeError:
        raise UnusableAddress("its host is no name") from None
    try:
        pool.connection_class(**named)
    except (TypeError, ValueError, RedisError):
        raise UnusableAddress("its options do not go together, or one has a value that is none") from None
    if url.startswith("rediss:"):
        _check_tls(named)
    return client


def _check_options(url: str) -> None:
    """Raises UnusableAddress, and ValueError for what is none at all."""
    parts = urlsplit(url)
    if "\0" in url or "%00" in url:  # no system call takes it
        raise ValueError
    if parts.scheme != "unix" and parts.path.strip("/") and not parts.path.strip("/").isdecimal():
        raise ValueError  # its client would take the first database
    if not url.startswith(f"{parts.scheme}://") or (parts.scheme != "unix" and parts.port and not parts.hostname):
        raise ValueError  # its client would take this machine's
    options = parse_qs(parts.query)
    if "decode_responses" in options:
        raise UnusableAddress("decode_responses must be off: not all that is kept is text")
    if not options.keys() <= OPTIONS:
        raise UnusableAddress(f"it has an option that is not taken; those that are: {', '.join(sorted(OPTIONS))}")


def _check_tls(named: Mapping[str, Any]) -> None:
    """As connecting will do it. Raises UnusableAddress."""
    context = ssl.create_default_context()
    certificate, key = named.get("ssl_certfile"), named.get("ssl_keyfile")
    trusted = [named.get(f"ssl_ca_{kind}") for kind in ("certs", "path", "data")]
    try:
        if certificate or key:
            context.load_cert_chain(
                certificate or "", key, named.get("ssl_password") or ""
            )  # with none at all OpenSSL asks a terminal
        if any(trusted):
            context.load_verify_locations(*trusted)
        if (version := named.get("ssl_min_version")) is not None:
            if version < ssl.TLSVersion.TLSv1_2:
                raise ValueError
            context.minimum_version = version
        if (ciphers := named.get("ssl_ciphers")) is not None:
            context.set_ciphers(ciphers)
    except (OSError, TypeError, ValueError):
        raise UnusableAddress("its certificates, key, ssl_ciphers or ssl_min_version cannot be used") from None
