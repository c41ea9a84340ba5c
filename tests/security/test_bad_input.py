"""Each hostile client gets its documented end; its neighbour hears what it says, and the server stays as it was."""

import asyncio
import json
import socket as sockets
import struct
import zlib
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import httpx
import pytest
from websockets.asyncio.client import connect

from streamscribe.client.local_server import RunningServer
from streamscribe.client.native import NativeClient
from tests.audio.files import make
from tests.gateway.raw import BINARY, CONTINUATION, TEXT, UPGRADE, frame, raw_socket
from tests.security.audio_corpus import hostile
from tests.service.kit import END, Final, cut, ending, figure, finals_of, noise_speech, session, told

pytestmark = pytest.mark.timeout(120)

SPEECH = noise_speech(8000, bursts=4)
MAX_GROWTH_BYTES = 96 * 2**20
MIB = 2**20


@pytest.fixture(scope="module")
def expected(attacked: RunningServer) -> list[Final]:
    finals = finals_of(asyncio.run(session(attacked.address.websocket, cut(SPEECH, 32_000))))
    assert len(finals) == 4
    return finals


@pytest.fixture
async def neighbour(attacked: RunningServer, expected: list[Final]) -> AsyncIterator[None]:
    """A session that is open all the time and must not notice anything; and the server's own state around it."""
    before = attacked.memory_bytes()
    over = asyncio.Event()

    async def speak_and_hear() -> list[Final]:
        packets = list(cut(SPEECH, 3200))
        async with NativeClient(attacked.address.websocket) as client:
            for packet in packets[:-1]:
                await client.send(packet)
                await asyncio.sleep(0.002)
            await over.wait()
            await client.send(packets[-1])
            await client.end()
            return finals_of([message async for message in client])

    hearing = asyncio.create_task(speak_and_hear())
    yield
    over.set()
    assert await hearing == expected
    assert attacked.memory_bytes() - before < MAX_GROWTH_BYTES
    async with httpx.AsyncClient(base_url=attacked.address.http, timeout=None) as http:
        assert (await http.get("/readyz")).status_code == 200
    async with asyncio.timeout(20):
        while await figure(attacked, "funasr_active_sessions"):
            await asyncio.sleep(0.05)


def port_of(server: RunningServer) -> int:
    return int(server.address.http.rpartition(":")[2])


GARBAGE: list[tuple[str | bytes, str, int | None]] = [
    ("{", "bad_request", None),
    ("[]", "bad_request", None),
    ("null", "bad_request", None),
    ('"end"', "bad_request", None),
    ("[" * 30_000, "bad_request", None),
    ('{"type":"' + "x" * 70_000 + '"}', "too_large", None),
    ('{"type":"no such thing"}', "bad_request", None),
    ('{"type":7}', "bad_request", None),
    ('{"type":"flush","marker":7}', "bad_request", None),
    ('{"type":"update","hotwords":7}', "bad_request", None),
    ('{"type":"update","hotwords":' + json.dumps("[" * 60_000) + "}", "bad_request", None),
    ('{"type":"start","audio":7}', "bad_request", 4400),
    ('{"type":"start","audio":{"sample_rate":1}}', "bad_request", 4400),
    ('{"type":"start","audio":{"channels":99}}', "bad_request", 4400),
    ('{"type":"start","mode":"nonsense"}', "bad_request", 4400),
    ('{"type":"start","endpoint":{"silence_ms":1e99}}', "bad_request", 4400),
    ('{"type":"resume","session_id":7}', "bad_request", 4400),
]
"""What is sent, the error's name, and the close code where the session ends by it."""


@pytest.mark.usefixtures("neighbour")
async def test_garbage_gets_an_error_that_names_it_and_ends_at_most_its_session(attacked: RunningServer) -> None:
    for sent, name, code in GARBAGE:
        async with connect(attacked.address.websocket, compression=None) as socket:
            await socket.send(sent)
            error = await told(socket, "error")
            assert (error["name"], error["retry"]) == (name, "never"), sent[:60]
            if code is None:  # the session goes on
                await socket.send(SPEECH[:80_000])
                await socket.send(END)
            said, got, _ = await ending(socket)
            assert got == (code or 1000), sent[:60]
            assert bool([m for m in said if m.get("is_final")]) == (code is None)


@pytest.mark.usefixtures("neighbour")
async def test_text_that_is_not_utf8_closes_1007(attacked: RunningServer) -> None:
    async with raw_socket(port_of(attacked)) as socket:
        await socket.send(frame(TEXT, b'\xff\xfe{"type":"end"}'))
        assert await socket.close_code() == 1007


@pytest.mark.usefixtures("neighbour")
async def test_odd_bytes_are_carried_over_and_a_last_half_sample_is_dropped(attacked: RunningServer) -> None:
    speech = SPEECH[:120_000]
    even = finals_of(await session(attacked.address.websocket, [speech]))
    odd = finals_of(await session(attacked.address.websocket, [*cut(speech, 4001), b"\x01"]))
    assert odd == even
    async with connect(attacked.address.websocket, compression=None) as socket:
        await socket.send(b"")
        await socket.send(b"\x01")
        await socket.send(END)
        said, code, _ = await ending(socket)
        assert (said[-1]["type"], said[-1]["audio_ms"], code) == ("closed", 0, 1000)


@pytest.mark.usefixtures("neighbour")
async def test_broken_sequenced_frames_are_told(attacked: RunningServer) -> None:
    url = f"{attacked.address.websocket}?framing=sequenced"
    for data, name in ((b"\x00\x00", "bad_request"), (struct.pack("!II", 5000, 0) + bytes(320), "sequence_gap")):
        async with connect(url, compression=None) as socket:
            await socket.send(struct.pack("!II", 0, 0) + bytes(320))
            connected = await told(socket, "connected")
            await socket.send(data)
            said, code, _ = await ending(socket)
            assert (said[-1]["name"], code) == (name, 4400)
        if name == "sequence_gap":  # which a resume mends
            async with connect(f"{url}&session_id={connected['session_id']}", compression=None) as socket:
                claim = {field: connected[field] for field in ("session_id", "resume_token")}
                await socket.send(json.dumps({"type": "resume", **claim}))
                assert (await told(socket, "resumed"))["next_sequence"] == 1
                await socket.send(END)
                assert (await ending(socket))[1] == 1000


@pytest.mark.usefixtures("neighbour")
async def test_garbage_at_the_funasr_port_gets_an_error_and_a_close(attacked: RunningServer) -> None:
    for sent in ("{", "[]", '{"audio_fs": 1}'):
        async with connect(f"{attacked.address.funasr}/", compression=None) as socket:
            await socket.send(sent)
            last = json.loads(await socket.recv())
            assert (last["is_final"], last["error"]["code"]) == (True, "bad_request"), sent
            assert (await ending(socket))[1] == 4400, sent


HOSTILE = {
    "empty.wav",
    "text.wav",
    "zeros.wav",
    "header_only.wav",
    "forged.flac",
    "sdp.wav",
    "hls.mp3",
    "concat.m3u8",
    "ten_hours.opus",
}
"""Those of the corpus that come by a socket here; test_hostile_audio and the gateway's tests have all of them."""


async def upload(server: RunningServer, name: str, data: bytes) -> httpx.Response:
    async with httpx.AsyncClient(base_url=server.address.http, timeout=30) as http:
        return await http.post("/v1/audio/transcriptions", files={"file": (name, data)})


@pytest.mark.usefixtures("neighbour")
async def test_hostile_files_get_their_error_and_open_no_connection(attacked: RunningServer, tmp_path: Path) -> None:
    with sockets.create_server(("127.0.0.1", 0)) as trap:
        trap.setblocking(False)
        corpus = [entry for entry in hostile(trap.getsockname()[1]) if entry.name in HOSTILE]
        assert len(corpus) == len(HOSTILE)
        for entry in corpus:
            answer = await upload(attacked, entry.name, entry.build(tmp_path))
            allowed = {(error.http_status, error.code) for error in entry.errors}
            assert (answer.status_code, answer.json()["error"]["code"]) in allowed, entry.name
        with pytest.raises(BlockingIOError):
            trap.accept()


@pytest.mark.usefixtures("neighbour")
async def test_a_truncated_mp3_is_used_up_to_its_end(attacked: RunningServer, tmp_path: Path) -> None:
    data = make(tmp_path, "mp3", 4.0).read_bytes()
    answer = await upload(attacked, "cut.mp3", data[: len(data) // 2])
    assert answer.status_code == 200
    assert 1 <= answer.json()["usage"]["seconds"] <= 3


@pytest.mark.usefixtures("neighbour")
async def test_64_mib_of_compressed_zeros_never_inflate(attacked: RunningServer) -> None:
    bomb = zlib.compressobj(9, zlib.DEFLATED, -15)
    data = bomb.compress(bytes(64 * MIB)) + bomb.flush()
    assert len(data) < 100_000
    offer = "Sec-WebSocket-Extensions: permessage-deflate; client_max_window_bits\r\n"
    async with raw_socket(port_of(attacked), more=offer) as socket:
        assert b"extensions" not in socket.head.lower()
        await socket.send(frame(BINARY, data, rsv1=True))
        assert await socket.close_code() == 1002
    async with httpx.AsyncClient(base_url=attacked.address.http, timeout=None) as http:
        headers = {"Content-Encoding": "deflate", "Content-Type": "multipart/form-data; boundary=x"}
        answer = await http.post("/v1/audio/transcriptions", content=data, headers=headers)
        assert answer.status_code == 400


@pytest.mark.usefixtures("neighbour")
async def test_messages_over_the_limit_close_1009_whole_or_in_pieces(attacked: RunningServer) -> None:
    pieces: list[Callable[[], list[bytes]]] = [
        lambda: [frame(BINARY, bytes(4 * MIB + 1))],
        lambda: [frame(BINARY, bytes(2 * MIB), fin=False), frame(CONTINUATION, bytes(2 * MIB + 1))],
    ]
    for build in pieces:
        async with raw_socket(port_of(attacked)) as socket:
            for data in build():
                await socket.send(data)
            assert await socket.close_code() == 1009


@pytest.mark.usefixtures("neighbour")
async def test_500_half_open_handshakes_keep_nobody_out_and_end_in_time(attacked: RunningServer) -> None:
    port = port_of(attacked)
    stalled = [await asyncio.open_connection("127.0.0.1", port) for _ in range(500)]
    for number, (_, writer) in enumerate(stalled):
        writer.write((b"", b"GET /ws/asr HTTP/1.1\r\nHost: x\r\n", b"\x16\x03\x01")[number % 3])
    assert finals_of(await session(attacked.address.websocket, [SPEECH[:80_000]]))
    async with asyncio.timeout(20):
        for reader, writer in stalled:
            assert (await reader.read(100)).startswith((b"HTTP/1.1 408", b"HTTP/1.1 400"))
            writer.close()


@pytest.mark.usefixtures("neighbour")
async def test_a_client_that_never_reads_is_closed_4408(attacked: RunningServer) -> None:
    """Each of its messages has an answer, until neither its kernel nor the server's takes any more."""
    client = sockets.socket()
    client.setsockopt(sockets.SOL_SOCKET, sockets.SO_RCVBUF, 4096)
    client.setblocking(False)
    await asyncio.get_running_loop().sock_connect(client, ("127.0.0.1", port_of(attacked)))
    reader, writer = await asyncio.open_connection(sock=client, limit=1024)
    writer.write(UPGRADE.format(path="/ws/asr", key="A" * 22 + "==", more="").encode())
    await reader.readuntil(b"\r\n\r\n")
    writer.transport.pause_reading()
    failed: Callable[[], Any] = lambda: figure(attacked, "streamscribe_failed_sessions_total")  # noqa: E731
    before = await failed()
    async with asyncio.timeout(40):
        while await failed() == before:
            writer.write(frame(TEXT, b'{"type":"no such thing"}') * 500)
            await asyncio.wait([asyncio.create_task(writer.drain())], timeout=0.2)
    writer.transport.resume_reading()
    tail = await reader.read()
    assert (4408).to_bytes(2) + b"results were not read in time" in tail
    writer.close()
