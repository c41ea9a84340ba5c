"""FunASR's clients, as far as the wire can tell them apart: what each sends, and how it reads what comes back.

Transport-free: `outgoing` gives frames in order, and None while the client waits for an answer; `receive` reads one
answer as that client does, and fails where that client would. `done` says that it would close the connection.
Written from the sources of FunASR's runtime (2026-08), xiaozhi-esp32-server and PyPI's funasr-client 0.1.6.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

Frame = str | bytes | None

_HOTWORDS = {"阿里巴巴": 20, "通义实验室": 30}


def pieces(data: bytes, size: int) -> Iterator[bytes]:
    """The data in frames of `size` bytes."""
    for at in range(0, len(data), size):
        yield data[at : at + size]


@dataclass(frozen=True)
class Recording:
    """What a client has on its disk: the samples, and the whole file where that is what it sends."""

    pcm: bytes
    file: bytes = b""
    extension: str = "wav"
    rate: int = 16_000


class Client:
    """What all have in common."""

    subprotocol: str | None = None

    def __init__(self) -> None:
        self.shown = ""
        self.done = False
        self.answers: list[dict[str, Any]] = []

    def outgoing(self) -> Iterator[Frame]:
        """Frames to send; None while an answer is awaited."""
        raise NotImplementedError

    def receive(self, text: str) -> None:
        """Reads one answer."""
        assert not self.done, "an answer after the client would have closed"
        message = json.loads(text)
        self.answers.append(message)
        self.read(message)

    def read(self, message: dict[str, Any]) -> None:
        """Reads one parsed answer, as this client does."""
        raise NotImplementedError

    def wait(self) -> Iterator[Frame]:
        """Until the client has what it waits for."""
        while not self.done:
            yield None


END = '{"is_speaking": false}'
