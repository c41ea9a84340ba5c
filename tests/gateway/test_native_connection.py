"""The native WebSocket through real sockets, from handshake to close."""

import asyncio
import json

import pytest
from websockets.asyncio.client import ClientConnection
from websockets.exceptions import InvalidStatus
from websockets.typing import Subprotocol

from streamscribe.settings import LimitSettings
from streamscribe.wire.frames import pack_frame
from tests.gateway.raw import BINARY, TEXT, frame, raw_socket
from tests.gateway.rig import Gateway, closing, running, told

CHUNK = bytes([7]) + bytes(319)
SEQUENCED = json.dumps({"type": "start", "framing": "sequenced"})
END = json.dumps({"type": "end"})


def resume(connected: dict[str, str], version: int = 0, sequence: int | None = None) -> str:
    return json.dumps(
        {
            "type": "resume",
            "session_id": connected["session_id"],
            "resume_token": connected["resume_token"],
            "last_version": version,
            "last_acked_sequence": sequence,
            "framing": "sequenced",
        }
    )


async def lose(socket: ClientConnection) -> None:
    """The network goes away without a word."""
    socket.transport.abort()
    await socket.wait_closed()


async def detached(gateway: Gateway, session_id: str) -> None:
    """Returns when the gateway has seen the loss."""
    live = gateway.hub.session("default", session_id)
    while live is not None and live.connected:
        await asyncio.sleep(0.001)


async def forgotten(gateway: Gateway) -> None:
    """Returns when no session is left."""
    async with asyncio.timeout(30):
        await gateway.hub.wait_empty()


async def test_the_simple_client_sends_audio_and_end_and_gets_its_finals_then_1000() -> None:
    async with running() as gateway, gateway.connect() as socket:
        connected = await told(socket, "connected")
        assert connected["code"] == 0
        assert connected["user_id"] == "default"
        await socket.send(CHUNK)
        assert (await told(socket, "result"))["text"] == "7"
        await socket.send(END)
        await told(socket, "closed")
        assert await closing(socket) == (1000, "")
        await forgotten(gateway)


async def test_sequenced_chunks_are_acknowledged_once_they_are_published() -> None:
    async with running() as gateway, gateway.connect() as socket:
        await socket.send(SEQUENCED)
        for sequence in range(3):
            await socket.send(pack_frame(sequence, CHUNK))
        while (await told(socket, "ack"))["sequence"] < 2:
            pass
        assert len(gateway.worker.opened()) == 1


async def test_options_of_the_address_reach_the_worker() -> None:
    async with running() as gateway, gateway.connect("/ws/asr?hotwords=FunASR,阿里巴巴&language=zh") as socket:
        await socket.send(CHUNK)
        await told(socket, "result")
        options = gateway.worker.opened()[0].options
        assert [hotword.phrase for hotword in options.hotwords] == ["FunASR", "阿里巴巴"]
        assert options.language == "zh"


@pytest.mark.parametrize(
    ("query", "field"), [("session_id=no%20spaces", "session_id"), ("mode=sideways", "mode"), ("rate=1", "sample_rate")]
)
async def test_what_is_wrong_with_the_address_is_told_in_band_then_closed_4400(query: str, field: str) -> None:
    async with running() as gateway, gateway.connect(f"/ws/asr?{query}") as socket:
        error = await told(socket, "error")
        assert error["name"] == "bad_request"
        assert field in error["message"]
        assert (await closing(socket))[0] == 4400
        assert len(gateway.hub) == 0


async def test_a_session_over_the_tenants_quota_gets_429_then_4429_and_harms_no_other() -> None:
    async with running(limits=LimitSettings(max_tenant_sessions=1)) as gateway, gateway.connect() as first:
        await told(first, "connected")
        async with gateway.connect() as second:
            error = json.loads(await second.recv())
            assert (error["code"], error["message"]) == (429, "tenant session quota exceeded")
            assert await closing(second) == (4429, "tenant session quota exceeded")
        await first.send(CHUNK)
        await told(first, "result")


async def test_a_lost_connection_is_resumed_without_a_lost_or_doubled_final() -> None:
    async with running() as gateway:
        async with gateway.connect() as socket:
            connected = await told(socket, "connected")
            await socket.send(SEQUENCED)
            for sequence in range(3):
                await socket.send(pack_frame(sequence, CHUNK))
            first = await told(socket, "result")
            await lose(socket)
        await detached(gateway, connected["session_id"])
        async with gateway.connect(f"/ws/asr?session_id={connected['session_id']}") as again:
            await again.send(resume(connected, version=first["version"]))
            resumed = await told(again, "resumed")
            assert resumed["next_sequence"] == 3
            for sequence in range(1, 4):  # two that are known and one that is new
                await again.send(pack_frame(sequence, CHUNK))
            assert [(await told(again, "result"))["version"] for _ in range(3)] == [2, 3, 4]
            await again.send(END)
            assert (await closing(again))[0] == 1000
        assert len(gateway.worker.opened()) == 1


async def test_last_words_that_a_broken_connection_took_are_told_again() -> None:
    async with running() as gateway:
        async with raw_socket(gateway.port) as deaf:
            connected = json.loads((await deaf.receive())[1])
            await deaf.send(frame(BINARY, CHUNK) + frame(TEXT, END.encode()))
            assert await deaf.close_code() == 1000  # the network gave the frames to us, and to no client
            deaf.writer.transport.abort()
        async with gateway.connect(f"/ws/asr?session_id={connected['session_id']}") as socket:
            await socket.send(resume(connected))
            await told(socket, "resumed")
            assert (await told(socket, "result"))["text"] == "7"
            await told(socket, "closed")
            assert await closing(socket) == (1000, "")
        await forgotten(gateway)


async def test_resume_as_first_message_gives_the_fresh_session_back_and_takes_the_old_one() -> None:
    async with running() as gateway:
        async with gateway.connect() as socket:
            connected = await told(socket, "connected")
            await socket.send(CHUNK)
            await told(socket, "result")
            await lose(socket)
        await detached(gateway, connected["session_id"])
        async with gateway.connect() as again:
            assert (await told(again, "connected"))["session_id"] != connected["session_id"]
            await again.send(resume(connected, version=1))
            await told(again, "resumed")
            assert len(gateway.hub) == 1


async def test_a_resume_takes_the_session_from_a_connection_that_still_lives_which_is_closed_4409() -> None:
    async with running() as gateway, gateway.connect() as older:
        connected = await told(older, "connected")
        await older.send(CHUNK)
        await told(older, "result")
        async with gateway.connect(f"/ws/asr?session_id={connected['session_id']}") as newer:
            await newer.send(resume(connected, version=1))
            await told(newer, "resumed")
            assert (await told(older, "error"))["name"] == "session_superseded"
            assert (await closing(older))[0] == 4409
            await newer.send(CHUNK)
            assert (await told(newer, "result"))["version"] == 2


@pytest.mark.parametrize("wrong", ["session_id", "resume_token"])
async def test_a_resume_without_the_right_id_and_token_gets_4404(wrong: str) -> None:
    async with running() as gateway, gateway.connect() as owner, gateway.connect() as thief:
        connected = await told(owner, "connected")
        await thief.send(resume({**connected, wrong: "guessed"}))
        assert (await told(thief, "error"))["name"] == "session_not_found"
        assert (await closing(thief))[0] == 4404
        await owner.send(CHUNK)
        await told(owner, "result")


async def test_a_known_session_of_the_address_wants_resume_as_the_first_message() -> None:
    async with running() as gateway, gateway.connect("/ws/asr?session_id=call-42") as first:
        assert (await told(first, "connected"))["session_id"] == "call-42"
        async with gateway.connect("/ws/asr?session_id=call-42") as second:
            await second.send(CHUNK)
            assert "resume" in (await told(second, "error"))["message"]
            assert (await closing(second))[0] == 4400
        assert gateway.worker.opened() == []


async def test_a_resume_after_other_messages_is_an_error_of_that_session_only() -> None:
    async with running() as gateway, gateway.connect() as socket, gateway.connect() as other:
        connected = await told(other, "connected")
        await socket.send(CHUNK)
        await socket.send(resume(connected))
        assert (await closing(socket))[0] == 4400
        await other.send(CHUNK)
        await told(other, "result")


async def test_a_session_without_audio_is_closed_4408() -> None:
    limits = LimitSettings(first_audio_timeout_s=0.1)
    async with running(limits=limits) as gateway, gateway.connect() as socket:
        assert (await told(socket, "error"))["name"] == "timeout"
        assert (await closing(socket))[0] == 4408


async def test_a_connection_that_should_resume_and_says_nothing_is_closed_4408() -> None:
    limits = LimitSettings(idle_timeout_s=0.1, first_audio_timeout_s=30)
    async with running(limits=limits) as gateway, gateway.connect("/ws/asr?session_id=a") as first:
        await told(first, "connected")
        async with gateway.connect("/ws/asr?session_id=a") as second:
            assert (await closing(second))[0] == 4408


async def test_a_session_nobody_resumes_is_over_when_its_window_is() -> None:
    async with running(limits=LimitSettings(resume_window_s=0.1)) as gateway:
        async with gateway.connect() as socket:
            await socket.send(CHUNK)
            await told(socket, "result")
            await lose(socket)
        async with asyncio.timeout(30):
            await gateway.hub.wait_empty()
            while not gateway.worker.abandoned():
                await asyncio.sleep(0.001)


async def test_without_room_on_the_bus_the_client_is_not_read_and_nothing_is_lost() -> None:
    limits = LimitSettings(max_backlog_s=0.5, burst_s=600)
    async with running(limits=limits) as gateway, gateway.connect() as socket:
        gateway.worker.hold = True
        for _ in range(200):  # 20 seconds of audio
            await socket.send(bytes([1]) + bytes(3199))
        for _ in range(5):
            await told(socket, "result")
        assert gateway.worker.chunks() == 5
        gateway.worker.settle_all()
        for _ in range(195):
            await told(socket, "result")


async def test_audio_faster_than_allowed_is_slowed_down_by_not_reading() -> None:
    limits = LimitSettings(burst_s=1, max_rate=100)
    async with running(limits=limits) as gateway, gateway.connect() as socket:
        began = asyncio.get_running_loop().time()
        for _ in range(30):
            await socket.send(bytes([1]) + bytes(31_999))
        for _ in range(30):
            await told(socket, "result")
        assert asyncio.get_running_loop().time() - began >= 0.25


async def test_the_binary_subprotocol_is_selected_where_offered_and_none_is_needed() -> None:
    async with running() as gateway:
        async with gateway.connect(subprotocols=[Subprotocol("other"), Subprotocol("binary")]) as socket:
            assert socket.subprotocol == "binary"
        async with gateway.connect(subprotocols=[Subprotocol("other")]) as socket:
            assert socket.subprotocol is None


async def test_a_path_that_is_none_is_refused_before_the_upgrade() -> None:
    async with running() as gateway:
        with pytest.raises(InvalidStatus):
            async with gateway.connect("/ws/nothing"):
                pass


async def test_a_defect_of_ours_ends_one_connection_1011_and_its_session_can_be_resumed(
    capsys: pytest.CaptureFixture[str],
) -> None:
    async with running() as gateway, gateway.connect() as socket, gateway.connect() as neighbour:
        connected = await told(socket, "connected")
        await socket.send(CHUNK)
        await told(socket, "result")
        gateway.worker.defect = True
        await socket.send(CHUNK)
        assert await closing(socket) == (1011, "internal error")
        gateway.worker.defect = False
        assert "a connection broke" in capsys.readouterr().out
        await neighbour.send(CHUNK)
        await told(neighbour, "result")
        async with gateway.connect(f"/ws/asr?session_id={connected['session_id']}") as again:
            await again.send(resume(connected, version=1))
            await told(again, "resumed")
