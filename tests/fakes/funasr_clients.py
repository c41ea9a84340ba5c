"""FunASR's own clients, each with what it sends and how it reads what comes back (see `funasr_client`)."""

import json
import re
from collections.abc import Iterable, Iterator
from typing import Any

from tests.fakes.funasr_client import _HOTWORDS, END, Client, Frame, Recording, pieces


class Html5(Client):
    """The page; microphone, or a file that is sent whole with its header."""

    def __init__(self, mode: str, recording: Recording, *, file: bool = False, hotwords: str = "") -> None:
        super().__init__()
        self.mode = "offline" if file else mode
        self.recording = recording
        self.file = file
        self.hotwords = hotwords
        self.offline_text = ""
        self.times: list[float] = []

    def outgoing(self) -> Iterator[Frame]:
        request: dict[str, Any] = {
            "chunk_size": [5, 10, 5], "wav_name": "h5", "is_speaking": True, "chunk_interval": 10, "itn": True,
            "mode": self.mode, "hotwords": self.hotwords,
        }  # fmt: skip
        if self.file:
            request["wav_format"] = self.recording.extension
            if self.recording.extension == "wav":
                request |= {"wav_format": "PCM", "audio_fs": self.recording.rate}
        yield json.dumps(request)
        yield from pieces(self.recording.file if self.file else self.recording.pcm, 960 if self.file else 1920)
        yield json.dumps(
            {"chunk_size": [5, 10, 5], "wav_name": "h5", "is_speaking": False, "chunk_interval": 10, "mode": self.mode}
        )
        yield from self.wait()

    def read(self, message: dict[str, Any]) -> None:
        text = "" + message["text"]
        if message.get("mode") in ("2pass-offline", "offline"):
            self._read_times(text, message.get("timestamp"))
            self.offline_text += text
            self.shown = self.offline_text
        else:
            self.shown += text
        self.done = message.get("is_final") is True

    def _read_times(self, text: str, stamps: str | None) -> None:
        if stamps is None or not text:
            return
        assert isinstance(stamps, str), "JSON.parse of an array or a number"
        index, times = 0, json.loads(stamps)
        for word in re.sub(r"[。？，、?. ]", ",", text).split(","):
            if word:
                self.times.append(times[index][0] / 1000)
                index += 1 if re.fullmatch(r"[a-zA-Z]+", word) else len(word.encode("utf-16-le")) // 2


class PythonClient(Client):
    """funasr_wss_client.py; since 2026-07 it asks for an acknowledgement of the end, and fails without."""

    subprotocol = "binary"

    def __init__(self, mode: str, recording: Recording, *, asks_ack: bool) -> None:
        super().__init__()
        self.mode, self.recording, self.asks_ack = mode, recording, asks_ack
        self.online = self.offline = ""

    def outgoing(self) -> Iterator[Frame]:
        others = self.recording.extension not in ("wav", "pcm")
        yield json.dumps(
            {
                "mode": self.mode, "chunk_size": [5, 10, 5], "chunk_interval": 10, "encoder_chunk_look_back": 4,
                "decoder_chunk_look_back": 0, "audio_fs": self.recording.rate, "wav_name": "demo",
                "wav_format": "others" if others else "pcm", "is_speaking": True,
                "hotwords": "阿里巴巴,通义实验室" if self.asks_ack else json.dumps(_HOTWORDS), "itn": True,
            },
            ensure_ascii=False,
        )  # fmt: skip
        yield from pieces(self.recording.file if others else self.recording.pcm, 1920)
        yield json.dumps({"is_speaking": False, "is_end": True}) if self.asks_ack else END
        yield from self.wait()

    def read(self, message: dict[str, Any]) -> None:
        text = message.get("text", "")
        if message.get("is_end"):
            assert message.get("is_final", False), message.get("error") or "server did not finalize input"
        if message["mode"] in ("online", "offline"):
            self.shown += text
        elif message["mode"] == "2pass-online":
            self.online += text
            self.shown = self.offline + self.online
        else:
            self.online = ""
            self.offline += text
            self.shown = self.offline
        self.done = bool(message.get("is_end") if self.asks_ack else message.get("is_final"))


class FunasrClientApi(Client):
    """funasr_client_api.py: gives back only the last message."""

    def __init__(self, recording: Recording) -> None:
        super().__init__()
        self.recording = recording

    def outgoing(self) -> Iterator[Frame]:
        yield json.dumps(
            {
                "mode": "2pass", "chunk_size": [0, 10, 5], "encoder_chunk_look_back": 4, "decoder_chunk_look_back": 1,
                "chunk_interval": 10, "wav_name": "default", "is_speaking": True,
            }
        )  # fmt: skip
        yield from pieces(self.recording.pcm, 1920)
        yield END
        yield from self.wait()

    def read(self, message: dict[str, Any]) -> None:
        self.shown = message["text"]
        self.done = message["is_final"] is True


class FunasrApi(FunasrClientApi):
    """funasr_api: sums up the sentences; sends a WAV file with its header as if it were PCM."""

    def outgoing(self) -> Iterator[Frame]:
        frames = super().outgoing()
        yield next(frames)
        yield from pieces(self.recording.file, 1920)
        yield END
        yield from self.wait()

    def read(self, message: dict[str, Any]) -> None:
        if message["mode"] == "2pass-offline":
            self.shown += message["text"]
        self.done = message["is_final"] is True


class Cpp2Pass(Client):
    """funasr-wss-client-2pass: big blocks, a rate as a float from its microphone; closes at `is_final`."""

    def __init__(self, mode: str, recording: Recording) -> None:
        super().__init__()
        self.mode, self.recording = mode, recording

    def outgoing(self) -> Iterator[Frame]:
        yield json.dumps(
            {
                "mode": self.mode, "chunk_size": [5, 10, 5], "wav_name": "record", "wav_format": "pcm",
                "audio_fs": float(self.recording.rate), "is_speaking": True, "itn": True, "svs_itn": True,
                "hotwords": json.dumps(_HOTWORDS),
            }
        )  # fmt: skip
        yield from pieces(self.recording.pcm, 204_800)
        yield END
        yield from self.wait()

    def read(self, message: dict[str, Any]) -> None:
        if message["is_final"]:
            self.done = True


class CppOffline(Client):
    """funasr-wss-client: many files on one connection, no `mode`, one message expected for each."""

    def __init__(self, recordings: Iterable[Recording]) -> None:
        super().__init__()
        self.recordings = list(recordings)
        self.replies: list[str] = []

    def outgoing(self) -> Iterator[Frame]:
        for number, recording in enumerate(self.recordings):
            while len(self.replies) < number:
                yield None
            pcm = recording.extension == "pcm"
            config = {
                "chunk_size": [5, 10, 5], "chunk_interval": 10, "wav_name": f"wav{number}",
                "wav_format": "pcm" if pcm else "others", "audio_fs": recording.rate, "itn": True, "svs_itn": True,
                "is_speaking": True,
            }  # fmt: skip
            yield json.dumps(config if number else config | {"hotwords": json.dumps(_HOTWORDS)})
            yield from pieces(recording.pcm if pcm else recording.file, 204_800)
            yield END
        yield from self.wait()

    def read(self, message: dict[str, Any]) -> None:
        assert message["wav_name"] == f"wav{len(self.replies)}", "the answer of another file"
        self.replies.append(message["text"])
        self.shown = "".join(self.replies)
        self.done = len(self.replies) == len(self.recordings)


class Java(Client):
    """FunasrWsClient.java: weights as strings; skips the WAV header itself."""

    def __init__(self, mode: str, recording: Recording) -> None:
        super().__init__()
        self.mode, self.recording = mode, recording

    def outgoing(self) -> Iterator[Frame]:
        yield json.dumps(
            {
                "mode": self.mode, "chunk_size": [5, 10, 5], "chunk_interval": 10, "wav_name": "javatest",
                "hotwords": json.dumps({"hello": "30", "nihao": "40"}), "wav_format": "pcm", "is_speaking": True,
            }
        )  # fmt: skip
        yield from pieces(self.recording.pcm, 1920)
        yield END
        yield from self.wait()

    def read(self, message: dict[str, Any]) -> None:
        if message["mode"] != "2pass-online":
            self.shown += message["text"]
        self.done = "is_final" not in message or message["is_final"] is True


class CsharpOnline(Client):
    """FunASRWSClient_Online: a microphone, or files with `"mode": "office"`; three properties are mandatory."""

    def __init__(self, recording: Recording, *, file: bool = False) -> None:
        super().__init__()
        self.recording, self.file = recording, file
        self.collected = self.online = ""

    def outgoing(self) -> Iterator[Frame]:
        config = {"mode": "2pass", "chunk_size": [5, 10, 5], "chunk_interval": 10, "wav_name": "microphone",
                  "is_speaking": True}  # fmt: skip
        if self.file:
            config |= {"mode": "office", "wav_name": "a.wav", "wav_format": "pcm"}
        yield json.dumps(config)
        yield from pieces(self.recording.pcm, 102_400 if self.file else 960)
        yield END
        yield from self.wait()

    def read(self, message: dict[str, Any]) -> None:
        mode, text, final = message["mode"], message["text"], message["is_final"]
        assert isinstance(mode, str)
        assert isinstance(text, str)
        assert isinstance(final, bool)
        if mode == "2pass-online":
            self.online += text
            self.shown = self.collected + self.online
        elif mode == "2pass-offline":
            self.collected += text
            self.online = ""
            self.shown = self.collected
        if final:
            self.collected = ""
            self.done = True


class CsharpOffline(Client):
    """FunASRWSClient_Offline: looks for the word timestamp anywhere, and counts full-width commas as characters."""

    def __init__(self, recording: Recording) -> None:
        super().__init__()
        self.recording = recording

    def outgoing(self) -> Iterator[Frame]:
        wav = self.recording.extension == "wav"
        config = {"mode": "offline", "wav_name": "a", "is_speaking": True, "hotwords": ""}
        yield json.dumps(config if wav else config | {"wav_format": self.recording.extension})
        yield from pieces(self.recording.pcm if wav else self.recording.file, 1_024_000)
        yield END
        yield from self.wait()

    def receive(self, text: str) -> None:
        super().receive(text)
        message = self.answers[-1]
        if "timestamp" in text:
            pairs = re.findall(r"\[(\d+),(\d+)\]", message["timestamp"])
            count = 0
            for sentence in message["text"].replace(",", "。").replace("?", "。").split("。"):
                if sentence:
                    assert pairs[count]
                    assert pairs[count + len(sentence) - 1]
                    count += len(sentence)

    def read(self, message: dict[str, Any]) -> None:
        assert isinstance(message["wav_name"], str)
        assert isinstance(message["mode"], str)
        self.shown += message["text"]
        self.done = True


class Go(Client):
    """go_ws_client.go: offline only, and takes any other mode for an error."""

    def __init__(self, recording: Recording) -> None:
        super().__init__()
        self.recording = recording

    def outgoing(self) -> Iterator[Frame]:
        yield json.dumps(
            {
                "mode": "offline", "chunk_size": [5, 10, 5], "chunk_interval": 10, "audio_fs": self.recording.rate,
                "wav_name": "demo", "wav_format": "pcm", "is_speaking": True, "hotwords": json.dumps(_HOTWORDS),
                "itn": True,
            }
        )  # fmt: skip
        yield from pieces(self.recording.pcm, 1920)
        yield END
        yield from self.wait()

    def read(self, message: dict[str, Any]) -> None:
        for name in ("wav_name", "text", "timestamp", "mode"):
            assert isinstance(message.get(name, ""), str), "json.Unmarshal fails"
        assert message["mode"] == "offline"
        self.shown += message["text"]
        self.done = True


class Android(Client):
    """MainActivity.java: 2pass; closes at `is_final`."""

    def __init__(self, recording: Recording) -> None:
        super().__init__()
        self.recording = recording
        self.all = self.now = ""

    def outgoing(self) -> Iterator[Frame]:
        yield json.dumps(
            {
                "mode": "2pass", "chunk_size": [5, 10, 5], "chunk_interval": 10, "wav_name": "default",
                "hotwords": json.dumps(_HOTWORDS), "wav_format": "pcm", "is_speaking": True,
            }
        )  # fmt: skip
        yield from pieces(self.recording.pcm, 1920)
        yield END
        yield from self.wait()

    def read(self, message: dict[str, Any]) -> None:
        text, final = message["text"], message["is_final"]
        assert isinstance(final, bool), "getBoolean"
        if text:
            if message["mode"] == "2pass-offline":
                self.now = ""
                self.all += text
            else:
                self.now += text
        self.shown = self.all + self.now
        self.done = final
