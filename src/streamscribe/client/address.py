"""Where a server is, from whatever people have at hand: `localhost:8000`, an http or a ws URL."""

from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit

WEBSOCKET_PATH = "/ws/asr"
_SECURE = {"http": False, "ws": False, "https": True, "wss": True}


def http_url(address: str) -> str:
    """The server's base URL, without a slash at its end. Raises ValueError for what is no address of a server."""
    secure, netloc, path, _ = _split(address)
    path = path.removesuffix(WEBSOCKET_PATH).rstrip("/")
    return urlunsplit(("https" if secure else "http", netloc, path, "", ""))


def websocket_url(address: str) -> str:
    """The URL of the server's native WebSocket, with the parameters of `address`. Raises ValueError."""
    secure, netloc, path, query = _split(address)
    path = path if path.endswith(WEBSOCKET_PATH) else path.rstrip("/") + WEBSOCKET_PATH
    return urlunsplit(("wss" if secure else "ws", netloc, path, query, ""))


def with_parameter(url: str, name: str, value: str) -> str:
    """The URL with this parameter, in place of one of its name."""
    parts = urlsplit(url)
    query = [pair for pair in parse_qsl(parts.query) if pair[0] != name]
    return urlunsplit(parts._replace(query=urlencode([*query, (name, value)])))


def _split(address: str) -> tuple[bool, str, str, str]:
    parts = urlsplit(address if "://" in address else f"http://{address}")
    try:
        known = parts.scheme in _SECURE and bool(parts.hostname) and (parts.port is None or parts.port > 0)
    except ValueError:
        known = False
    if not known:
        raise ValueError(f"{address!r} is not a server's address, as http://localhost:8000")
    return _SECURE[parts.scheme], parts.netloc, parts.path, parts.query
