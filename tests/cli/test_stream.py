"""`streamscribe stream` and `demo` against server processes."""

import asyncio
import json
from collections.abc import Iterator

import pytest

from streamscribe.cli import output, stream
from streamscribe.cli.screen import JsonScreen
from streamscribe.cli.stream import explain, play
from streamscribe.client.errors import NotResumed, ServerError, SessionEnded
from streamscribe.client.local_server import LocalServer, RunningServer, ServerDidNotStart
from streamscribe.core.errors import Forbidden
from streamscribe.core.messages import Ack, Closed, GoAway, Resumed
from streamscribe.core.options import Mode
from streamscribe.wire.native_client import StartMessage
from streamscribe.wire.native_server import ErrorMessage
from tests.client.scripted_server import SESSION, Peer, Server
from tests.service.conftest import EVERYBODY


@pytest.fixture(scope="module")
def server() -> Iterator[RunningServer]:
    with LocalServer(["--profile", "fake", *EVERYBODY]) as running:
        yield running


def test_finals_are_shown_with_their_time(run, recording, server):
    done = run("stream", recording("a.wav"), "--url", server.address.http, "--speed", "0")
    assert (done.code, done.err) == (0, "")
    assert done.out.splitlines()[-1].startswith("0:00.0  ")
    assert not done.out.endswith("…\n")


def test_partials_come_before_finals(run, recording, server):
    lines = run("stream", recording("a.wav"), "--url", server.address.websocket).out.splitlines()
    assert lines[0].endswith(" …")
    assert not lines[-1].endswith(" …")


def test_json_is_a_line_for_each_message(run, recording, server):
    done = run("stream", recording("a.wav"), "--url", server.address.http, "--speed", "0", "--words", "--json")
    messages = [json.loads(line) for line in done.out.splitlines()]
    assert {"ack", "result", "closed"} <= {message["type"] for message in messages}
    assert messages[-1]["type"] == "closed"
    assert next(message for message in messages if message.get("is_final"))["words"]


def test_a_server_that_is_not_there_exits_1_and_says_how_to_start_one(run, recording):
    done = run("stream", recording("a.wav"), "--url", "127.0.0.1:1")
    assert done.code == 1
    assert done.err == ("error: no server answers at ws://127.0.0.1:1/ws/asr; start one with: streamscribe serve\n")


def test_a_session_that_could_not_go_on_is_not_told_as_a_server_that_never_was():
    lost = NotResumed("the session could not be resumed in time")
    lost.__cause__ = ConnectionRefusedError()
    told = explain(lost, "ws://there")
    assert "no server went on with the session in time (ws://there); begin anew" in told


def test_of_several_servers_the_next_is_tried_where_one_is_not_there(run, recording, server):
    done = run("stream", recording("a.wav"), "--speed", "0", "--url", "127.0.0.1:1", "--url", server.address.http)
    assert (done.code, done.err) == (0, "")
    done = run("stream", recording("a.wav"), "--url", "127.0.0.1:1", "--url", "127.0.0.1:2")
    assert done.err.startswith("error: no server answers at ws://127.0.0.1:1/ws/asr or ws://127.0.0.1:2/ws/asr; ")


async def test_that_a_session_goes_on_elsewhere_is_one_line_on_standard_error(recording, capsys):
    async def first(peer: Peer) -> None:
        await peer.greet()
        await peer.hear_all(2)
        peer.vanish()

    async def second(peer: Peer) -> None:
        await peer.hear()
        await peer.say(Resumed(SESSION, 0, 0))
        while await peer.hear() != {"type": "end"}:
            pass
        await peer.say(Closed("end", 0))

    async with Server(first, second) as server:
        start = StartMessage(mode=Mode.TWO_PASS)
        await play(recording("a.wav"), server.url, start=start, key=None, speed=0, screen=JsonScreen())
    assert capsys.readouterr().err.splitlines() == [
        "the connection has ended; trying for 30 s to go on with the session",
        f"the session goes on at {server.url}",
    ]


@pytest.mark.parametrize(
    ("durability", "then"), [("log", "the session is to go on at another"), ("process", "the session ends with it")]
)
async def test_that_a_server_goes_away_is_told_at_once_with_what_becomes_of_the_session(
    recording, capsys, durability, then
):
    async def goes(peer: Peer) -> None:
        await peer.greet(durability=durability)
        await peer.say(GoAway(30_000, 600_000))
        while await peer.hear() != {"type": "end"}:
            pass
        await peer.say(Closed("end", 0))

    async with Server(goes) as server:
        await play(recording("a.wav"), server.url, start=StartMessage(), key=None, speed=0, screen=JsonScreen())
    assert capsys.readouterr().err == f"the server goes away within 30 s; {then}\n"


async def test_that_a_server_says_nothing_for_long_is_told_each_time(recording, monkeypatch):
    told: list[str] = []
    twice_quiet = asyncio.Event()
    monkeypatch.setattr(stream, "QUIET_S", 0.05)

    def tell(line: str) -> None:
        told.append(line)
        twice_quiet.set()

    async def waits(peer: Peer) -> None:
        await peer.greet()
        while await peer.hear() != {"type": "end"}:
            pass
        for _ in range(2):
            await twice_quiet.wait()
            twice_quiet.clear()
            await peer.say(Ack(0))
        await peer.say(Closed("end", 0))

    monkeypatch.setattr(stream, "_tell", tell)
    async with Server(waits) as server:
        await play(recording("a.wav"), server.url, start=StartMessage(), key=None, speed=0, screen=JsonScreen())
    assert told[:2] == ["nothing has come from the server for 0 s; still waiting"] * 2


def test_a_session_that_the_server_ended_is_not_told_as_one_that_it_refused():
    away = ErrorMessage(code=503, name="bus_unavailable", message="no room", retry="after")
    assert explain(SessionEnded(away), "ws://there") == "the server ended the session: no room; try again later"
    assert explain(ServerError(away), "ws://there") == "the server refused: no room; try again later"


def test_a_host_that_nobody_knows_is_not_told_as_a_server_that_is_not_started(run, recording):
    done = run("stream", recording("a.wav"), "--url", "nobody.invalid:8000")
    assert (done.code, done.err) == (
        1,
        "error: no address is known for the host of ws://nobody.invalid:8000/ws/asr; check its name\n",
    )


def test_a_refused_key_exits_1_and_says_where_to_give_one(run, recording, tmp_path):
    assert run("keys", "new", "acme", "--file", "tenants.yaml").code == 0
    with LocalServer(["--profile", "fake", "--tenants", str(tmp_path / "tenants.yaml"), *EVERYBODY]) as closed:
        done = run("stream", recording("a.wav"), "--url", closed.address.http, "--key", "wrong")
    assert done.code == 1
    assert done.err == (
        "error: the server refused: a valid API key is needed; give one with --key or STREAMSCRIBE_KEY\n"
    )


def test_of_several_servers_the_one_that_refuses_the_key_is_named(run, recording, tmp_path):
    assert run("keys", "new", "acme", "--file", "tenants.yaml").code == 0
    with LocalServer(["--profile", "fake", "--tenants", str(tmp_path / "tenants.yaml"), *EVERYBODY]) as closed:
        there = "--url", closed.address.http
        done = run("stream", recording("a.wav"), "--url", "127.0.0.1:1", *there, "--key", "wrong")
    assert done.code == 1
    assert done.err == (
        f"error: the server at {closed.address.websocket} refused: a valid API key is needed; give one with --key or "
        "STREAMSCRIBE_KEY\n"
    )


async def test_of_several_servers_the_one_that_refuses_to_go_on_with_the_session_is_named(recording):
    async def first(peer: Peer) -> None:
        await peer.greet(durability="log")
        await peer.hear()
        peer.vanish()

    async def second(peer: Peer) -> None:
        await peer.hear()
        await peer.fail(Forbidden())

    async with Server(first) as one, Server(second) as other:
        urls = [one.url, other.url]
        with pytest.raises(ExceptionGroup) as failed:
            await play(recording("a.wav"), urls, start=StartMessage(), key=None, speed=0, screen=JsonScreen())
    assert explain(output.first(failed.value), *urls).startswith(f"the server at {other.url} refused: ")


@pytest.mark.parametrize("url", ["ftp://x", "localhost:port", "http://"])
def test_what_is_no_address_exits_2(run, recording, url):
    done = run("stream", recording("a.wav"), "--url", url)
    assert done.code == 2
    assert "is not a server's address" in done.err


def test_a_file_that_cannot_be_decoded_exits_1(run, tmp_path, server):
    (tmp_path / "text.wav").write_text("no audio")
    done = run("stream", "text.wav", "--url", server.address.http)
    assert done.code == 1
    assert done.err.startswith("error: this is none of the accepted formats")


def test_a_server_that_does_not_start_says_its_last_words():
    with (
        pytest.raises(ServerDidNotStart, match=r"setting model\.threads") as raised,
        LocalServer(["--set", "model.threads=x"]),
    ):
        pass
    assert raised.value.exit_code == 2


@pytest.mark.models
@pytest.mark.timeout(240)
def test_the_demo_shows_partials_and_the_right_text(run, model_dir):
    done = run("demo", "--json", STREAMSCRIBE_MODEL__DIR=str(model_dir))
    told = json.loads(done.out)
    assert done.code == 0, told
    assert [clip["right"] for clip in told["clips"]] == [True] * 3
    assert sum(clip["partials"] for clip in told["clips"]) > 0
