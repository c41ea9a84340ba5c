"""FunASR connections: utterances one after another, files, quotas and goodbyes, on both ports."""

import asyncio
import json
import wave
from io import BytesIO
from typing import Any

import pytest
from structlog.testing import capture_logs
from websockets.asyncio.client import ClientConnection, connect

from streamscribe.audio import decode
from streamscribe.audio.decode import DecodeLimits, DecoderPool
from streamscribe.bus.memory import MemoryBus
from streamscribe.core.ids import TenantId
from streamscribe.core.options import SessionOptions
from streamscribe.core.records import AudioChunk, SessionOpened
from streamscribe.gateway.door import OpenDoor
from streamscribe.gateway.funasr_connection import FunasrConnection
from streamscribe.gateway.hub import Hub
from streamscribe.observe.metrics import Metrics
from streamscribe.ports import Tenant
from streamscribe.settings import LimitSettings
from streamscribe.wire.dialects.funasr import FunasrDialect
from tests.gateway.rig import EchoWorker, Gateway, closing, running

CHUNK = bytes([7]) + bytes(1919)


def config(mode: str, **more: Any) -> str:
    return json.dumps({"mode": mode, "chunk_size": [5, 10, 5], "wav_name": "demo", "is_speaking": True, **more})


END = json.dumps({"is_speaking": False})


async def utterance(socket: ClientConnection, mode: str, *pieces: bytes, **more: Any) -> list[dict[str, Any]]:
    """Sends one and returns all messages until the one that says `is_final`."""
    await socket.send(config(mode, **more))
    for piece in pieces:
        await socket.send(piece)
    await socket.send(END)
    messages = []
    while not messages or not messages[-1]["is_final"]:
        messages.append(json.loads(await socket.recv()))
    return messages


def on_funasr_port(gateway: Gateway, path: str = "/") -> connect:
    return connect(f"ws://127.0.0.1:{gateway.funasr_port}{path}", compression=None)


def flac(seconds: float) -> bytes:
    soundfile = pytest.importorskip("soundfile")
    import numpy as np

    target = BytesIO()
    soundfile.write(target, np.full(int(16_000 * seconds), 0.25, np.float32), 16_000, format="FLAC")
    return target.getvalue()


async def test_utterances_follow_one_another_on_one_connection_on_either_port_and_any_path() -> None:
    async with running() as gateway:
        for socket_of in (gateway.connect("/"), on_funasr_port(gateway), on_funasr_port(gateway, "/any/path")):
            async with socket_of as socket:
                for _ in range(3):
                    messages = await utterance(socket, "2pass", CHUNK, CHUNK)
                    assert [m["text"].strip() for m in messages if m["text"]] == ["7", "7"]
                    assert [m["is_final"] for m in messages].count(True) == 1
        assert len(gateway.worker.opened()) == 9


async def test_what_comes_before_the_last_message_belongs_to_the_next_utterance() -> None:
    async with running() as gateway, on_funasr_port(gateway) as socket:
        for _ in range(4):  # all at once, as the C++ file client does
            await socket.send(config("offline"))
            await socket.send(CHUNK)
            await socket.send(END)
        answers = [json.loads(await socket.recv()) for _ in range(4)]
        assert [(answer["text"], answer["is_final"]) for answer in answers] == [("7", True)] * 4


async def test_an_utterance_without_audio_is_answered_with_empty_text() -> None:
    async with running() as gateway, on_funasr_port(gateway) as socket:
        assert [m["text"] for m in await utterance(socket, "2pass")] == [""]
        assert (await utterance(socket, "2pass", CHUNK))[0]["text"] == "7"


async def test_a_file_of_another_format_is_decoded_at_its_end_and_goes_in_at_the_sessions_pace() -> None:
    limits = LimitSettings(max_backlog_s=1)
    async with running(limits=limits) as gateway, on_funasr_port(gateway) as socket:
        data = flac(5.0)
        pieces = [data[i : i + 960] for i in range(0, len(data), 960)]
        messages = await utterance(socket, "offline", *pieces, wav_format="flac")
        assert [message["is_final"] for message in messages] == [True]
        chunks = [record for record in gateway.worker.records if isinstance(record, AudioChunk)]
        assert sum(len(chunk.data) for chunk in chunks) == 5 * 32_000
        assert [m["text"] for m in await utterance(socket, "offline", CHUNK, wav_format="pcm")] == ["7"]


@pytest.mark.timeout(20)
async def test_a_file_in_small_packets_is_not_held_to_the_pace_of_messages() -> None:
    async with running(limits=LimitSettings(max_chunks_per_s=10)) as gateway, on_funasr_port(gateway) as socket:
        data = flac(1.0)
        pieces = [data[i : i + 1] for i in range(len(data))]
        assert len(pieces) > 100
        assert len(await utterance(socket, "offline", *pieces, wav_format="flac")) == 1


async def test_a_file_that_cannot_be_decoded_ends_its_connection_with_the_error_told() -> None:
    async with running() as gateway, on_funasr_port(gateway) as socket:
        messages = await utterance(socket, "offline", b"not a flac file at all", wav_format="flac")
        assert messages[-1]["error"]["code"] in ("bad_audio", "unsupported_format")
        assert (await closing(socket))[0] in (4400, 4415)


async def test_a_decoder_that_cannot_be_started_is_a_defect_told_without_its_reason_and_logged(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with running() as gateway, on_funasr_port(gateway) as socket:
        monkeypatch.setattr(decode, "_COMMAND", ("/nowhere",))
        with capture_logs() as lines:
            messages = await utterance(socket, "offline", *[CHUNK] * 40, wav_format="flac")
        assert messages[-1]["error"]["code"] == "internal"
        assert "nowhere" not in json.dumps(messages)
        (line,) = [one for one in lines if one["event"] == "a file could not be decoded"]
        assert isinstance(line["exc_info"].__cause__, FileNotFoundError)


async def test_a_file_over_the_upload_bound_is_refused_while_it_comes() -> None:
    async with running(limits=LimitSettings(max_upload_bytes=2000)) as gateway, on_funasr_port(gateway) as socket:
        await socket.send(config("offline", wav_format="mp3"))
        for _ in range(3):
            await socket.send(bytes(1000))
        assert json.loads(await socket.recv())["error"]["code"] == "too_large"
        assert (await closing(socket))[0] == 1009


async def test_files_at_once_are_counted_and_their_places_come_back() -> None:
    async with running(limits=LimitSettings(max_files=2)) as gateway:
        async with on_funasr_port(gateway) as first, on_funasr_port(gateway) as second:
            await first.send(config("offline", wav_format="flac"))
            await first.send(bytes(100))
            async with asyncio.timeout(30):
                while not gateway.worker.records:
                    await asyncio.sleep(0.01)
            await second.send(config("offline", wav_format="flac"))
            await second.send(bytes(100))
            assert json.loads(await second.recv())["error"]["code"] == "quota_exceeded"
            assert (await closing(second))[0] == 4429
        await gateway.hub.wait_empty()
        async with on_funasr_port(gateway) as socket:
            for _ in range(3):
                assert len(await utterance(socket, "offline", flac(0.5), wav_format="flac")) == 1


async def test_a_wav_header_is_taken_for_what_it_is() -> None:
    target = BytesIO()
    with wave.open(target, "wb") as out:
        out.setparams((1, 2, 16_000, 0, "NONE", ""))
        out.writeframes(CHUNK)
    async with running() as gateway, on_funasr_port(gateway) as socket:
        messages = await utterance(socket, "offline", target.getvalue())
        assert messages[-1]["text"] == "7"


async def test_a_client_that_leaves_ends_its_session_at_once_for_nobody_can_resume_it() -> None:
    async with running() as gateway:
        async with on_funasr_port(gateway) as socket:
            await socket.send(config("2pass"))
            await socket.send(CHUNK)
            await socket.recv()
        async with asyncio.timeout(30):
            await gateway.hub.wait_empty()
        opened = [record.session_id for record in gateway.worker.records if isinstance(record, SessionOpened)]
        assert gateway.worker.abandoned() == opened


async def test_a_connection_that_rests_too_long_between_utterances_is_closed() -> None:
    async with running(limits=LimitSettings(idle_timeout_s=1)) as gateway, on_funasr_port(gateway) as socket:
        await utterance(socket, "offline", CHUNK)
        assert (await closing(socket))[0] == 4408


async def test_a_refusal_by_quota_is_told_and_closed_4429() -> None:
    async with running(limits=LimitSettings(max_tenant_sessions=1)) as gateway, on_funasr_port(gateway) as first:
        await first.send(config("2pass"))
        await first.send(CHUNK)
        await first.recv()
        async with on_funasr_port(gateway) as second:
            assert json.loads(await second.recv())["error"]["code"] == "quota_exceeded"
            assert (await closing(second))[0] == 4429


class DeadPeer:
    """A client that has sent all its frames and is gone: whatever is written to it fails (ASGI, and the transport)."""

    def __init__(self, *frames: str | bytes) -> None:
        self._events: list[dict[str, Any]] = [
            {"type": "websocket.receive", "text" if isinstance(frame, str) else "bytes": frame} for frame in frames
        ]
        self.writable = asyncio.Event()
        self.writable.set()

    async def receive(self) -> dict[str, Any]:
        await asyncio.sleep(0)
        return self._events.pop(0) if self._events else {"type": "websocket.disconnect"}

    async def send(self, message: Any) -> None:
        raise BrokenPipeError

    async def said_goodbye(self) -> bool:
        return False

    def force_close(self, code: int, reason: str) -> None:
        raise AssertionError("it is gone")


async def test_a_client_that_speaks_on_after_the_end_and_is_gone_leaves_nothing_behind() -> None:
    """What it said last waits for the last message of the utterance, which nobody will write any more."""
    limits = LimitSettings()
    bus = MemoryBus(limits.max_backlog_s)
    hub = Hub(bus, limits, Metrics(), OpenDoor())
    EchoWorker(bus)
    peer = DeadPeer(config("2pass"), CHUNK, END, END, END)
    connection = FunasrConnection(
        hub,
        limits,
        Tenant(TenantId("default"), 1),
        SessionOptions(),
        dialect=FunasrDialect(),
        decode=DecoderPool(DecodeLimits(), spare=False).decode,
        receive=peer.receive,
        send=peer.send,
        transport=peer,
        resumable=False,
    )
    async with asyncio.timeout(30):
        await connection.serve(None)
    assert len(hub) == 0
