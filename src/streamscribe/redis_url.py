"""Whether the address of a Redis is one, before anybody relies on it: its client finds out at the first use only."""

from typing import Any

ADDRESS_LIKE = "not an address like redis://host:6379/0"


class UnusableAddress(ValueError):
    """By which none can connect; the message holds no part of it, which may be a password."""


def check_client(client: Any) -> None:
    """A client of redis-py, asyncio's or not, that was made from an address. Raises UnusableAddress."""
    pool = client.connection_pool
    named = pool.connection_kwargs
    try:
        str(named.get("host", "")).encode("idna")  # as connecting will, which raises it in the middle of work
    except UnicodeError:
        raise UnusableAddress("its host is no name") from None
    if named.get("decode_responses"):
        raise UnusableAddress("decode_responses must be off: not all that is kept is text")
    try:
        pool.connection_class(**named)
    except TypeError:
        raise UnusableAddress("it has an option that Redis' client does not know") from None


def told(error: ValueError) -> str:
    """What is wrong with an address, for who wrote it. What a client says of a URL may hold a part of it."""
    return str(error) if isinstance(error, UnusableAddress) else ADDRESS_LIKE
