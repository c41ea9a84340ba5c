"""A model hub on loopback whose answers a test prescribes."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


@dataclass
class HubServer:
    """What it holds by path, how it misbehaves, and what was asked of it."""

    files: dict[str, bytes] = field(default_factory=dict)
    redirects: dict[str, str] = field(default_factory=dict)
    break_after: list[int] = field(default_factory=list)
    knows_ranges: bool = True
    wrong_range: bool = False
    asked: list[tuple[str, str | None]] = field(default_factory=list)
    url: str = ""


@contextmanager
def hub_server() -> Iterator[HubServer]:
    """Runs one while the context lasts."""
    hub = HubServer()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked_range = self.headers["Range"]
            hub.asked.append((self.path, asked_range))
            if self.path in hub.redirects:
                self.send_response(302)
                self.send_header("Location", hub.redirects[self.path])
                self.send_header("Content-Length", "0")
                self.end_headers()
                return
            if self.path not in hub.files:
                self.send_error(404)
                return
            content = hub.files[self.path]
            start = 0
            if asked_range and hub.knows_ranges:
                start = int(asked_range.removeprefix("bytes=").removesuffix("-")) + hub.wrong_range
                self.send_response(206)
                self.send_header("Content-Range", f"bytes {start}-{len(content) - 1}/{len(content)}")
            else:
                self.send_response(200)
            self.send_header("Content-Length", str(len(content) - start))
            self.end_headers()
            end = start + hub.break_after.pop(0) if hub.break_after else len(content)
            self.wfile.write(content[start:end])

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        hub.url = f"http://127.0.0.1:{server.server_address[1]}"
        try:
            yield hub
        finally:
            server.shutdown()
            thread.join()
