"""A worker's mark in a partition: once it reads its own, it has read all that anybody could read there before."""

from streamscribe.bus.kafka.envelope import VERSION, Headers

_KIND = b"mark"


def mark_headers(owner: str) -> Headers:
    """The headers of the mark of `owner`; it has neither key nor value."""
    return [("v", VERSION), ("kind", _KIND), ("by", owner.encode())]


def read_mark(headers: Headers) -> str | None:
    """Whose mark it is; None for the headers of anything else."""
    found = dict(headers)
    by = found.get("by")
    if found.get("kind") != _KIND or not isinstance(by, bytes):
        return None
    return by.decode(errors="replace")
