"""Clients of other projects that speak FunASR's protocol (see `funasr_client`)."""

import json
from collections.abc import Iterator
from typing import Any

from tests.fakes.funasr_client import _HOTWORDS, END, Client, Frame, Recording, pieces


class Xiaozhi(Client):
    """xiaozhi-esp32-server: the whole recording in one frame; adds up everything until `is_final`."""

    subprotocol = "binary"

    def __init__(self, recording: Recording) -> None:
        super().__init__()
        self.recording = recording

    def outgoing(self) -> Iterator[Frame]:
        yield json.dumps(
            {
                "mode": "offline", "chunk_size": [5, 10, 5], "chunk_interval": 10, "wav_name": "session-1",
                "is_speaking": True, "itn": False,
            }
        )  # fmt: skip
        yield self.recording.pcm
        yield END
        yield from self.wait()

    def read(self, message: dict[str, Any]) -> None:
        self.shown += message.get("text", "")
        self.done = message.get("is_final", True)


class FunasrClientPypi(Client):
    """PyPI's funasr-client: parses every `timestamp`, merges the sentences."""

    subprotocol = "binary"

    def __init__(self, mode: str, recording: Recording) -> None:
        super().__init__()
        self.mode, self.recording = mode, recording

    def outgoing(self) -> Iterator[Frame]:
        yield json.dumps(
            {
                "mode": self.mode, "is_speaking": True, "chunk_size": [5, 10, 5], "wav_name": "a.wav",
                "audio_fs": self.recording.rate, "hotwords": json.dumps(_HOTWORDS), "svs_lang": "auto",
            }
        )  # fmt: skip
        yield from pieces(self.recording.pcm, 1920)
        yield END
        yield from self.wait()

    def read(self, message: dict[str, Any]) -> None:
        if "timestamp" in message:
            assert all(len(pair) == 2 for pair in json.loads(message["timestamp"]))
        for sentence in message.get("stamp_sents", []):
            assert sentence["start"] <= sentence["end"]
            assert all(len(pair) == 2 for pair in sentence["ts_list"])
        if message["mode"] == "2pass-offline":
            self.shown += message["text"]
        self.done = message.get("is_final", False)
