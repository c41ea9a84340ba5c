"""`streamscribe stream`: plays a file into a server as if it were spoken, and shows what the server hears."""

import asyncio
import sys
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from socket import gaierror
from time import monotonic
from typing import TYPE_CHECKING, Annotated, Protocol

import typer

from streamscribe.cli.options import HotwordOption, LanguageOption
from streamscribe.cli.output import Exit, err, fail, first
from streamscribe.cli.screen import JsonScreen, TextScreen
from streamscribe.core.options import Mode

if TYPE_CHECKING:
    from streamscribe.client.native import NativeClient
    from streamscribe.wire.native_client import StartMessage
    from streamscribe.wire.native_server import ResultMessage, ServerWire

DEFAULT_URL = "http://127.0.0.1:8000"
CHUNK_S = 0.1
CHUNK_BYTES = 3200
QUIET_S = 10.0
"""A server says of each chunk that it has it: one that says nothing for so long waits for something itself."""


def mount(app: typer.Typer) -> None:
    """Adds the command."""
    app.command()(stream)


def stream(
    file: Annotated[Path, typer.Argument(help="A recording of any format that the server would take.")],
    url: Annotated[
        list[str] | None,
        typer.Option(
            help="The server: its address, or the URL of its WebSocket; repeatable, as gateways of a cluster stand in "
            "for each other.",
            show_default=DEFAULT_URL,
        ),
    ] = None,
    key: Annotated[str | None, typer.Option(envvar="STREAMSCRIBE_KEY", help="API key.")] = None,
    speed: Annotated[
        float,
        typer.Option(
            min=0,
            help="Multiples of real time; 0 as fast as the server takes it: live sessions at its limits.max_rate (2).",
        ),
    ] = 1.0,
    mode: Annotated[Mode, typer.Option(help="Which passes run; offline has no partials.")] = Mode.TWO_PASS,
    language: LanguageOption = None,
    hotword: HotwordOption = None,
    words: Annotated[bool, typer.Option("--words", help="Ask for the times of words (shown with --json).")] = False,
    json: Annotated[bool, typer.Option("--json", help="Every message of the server as one line of JSON.")] = False,
) -> None:
    """Play a file into a running server, and show partials live (grey) and finals (with their time).

    Examples:

    ```
    streamscribe stream talk.mp3
    streamscribe stream talk.mp3 --speed 0 --language en --hotword StreamScribe
    streamscribe stream call.wav --url https://asr.example.com --json
    streamscribe stream call.wav --url http://gateway-1:8000 --url http://gateway-2:8000
    ```
    """
    from streamscribe.client.address import websocket_url
    from streamscribe.client.errors import ConnectionLost, ServerError
    from streamscribe.wire.native_client import StartMessage

    if not file.is_file():
        fail(f"{file}: no such file")
    try:
        servers = [websocket_url(one) for one in url or [DEFAULT_URL]]
    except ValueError as error:
        fail(f"--url: {error}", Exit.USAGE)
    start = StartMessage(mode=mode, language=language, hotwords=hotword or [], words=words)
    screen = JsonScreen() if json else TextScreen(mode.last_pass)
    try:
        finals = asyncio.run(play(file.absolute(), servers, start=start, key=key, speed=speed, screen=screen))
    except* (ServerError, ConnectionLost) as errors:
        fail(explain(first(errors), *servers))
    if not json and not any(final.text for final in finals):
        err.print("no speech was heard", style="dim")


def explain(error: BaseException, *urls: str) -> str:
    """What went wrong at a server, of several at which, and what to do next."""
    from websockets.exceptions import InvalidHandshake

    from streamscribe.client.errors import NotResumed, ServerError, SessionEnded

    url = " or ".join(urls)
    if isinstance(error, NotResumed):
        return f"the connection was lost, and no server went on with the session in time ({url}); begin anew"
    if isinstance(error, ServerError):
        did = "ended the session" if isinstance(error, SessionEnded) else "refused"
        which = f"the server at {error.url}" if len(urls) > 1 and error.url else "the server"
        told = f"{which} {did}: {error.error.message}"
        if error.error.name == "unauthenticated":
            return f"{told}; give one with --key or STREAMSCRIBE_KEY"
        return f"{told}; try again later" if error.error.retry == "after" else told
    if isinstance(error.__cause__, gaierror):
        return f"no address is known for the host of {url}; check its name"
    if isinstance(error.__cause__, OSError):
        return f"no server answers at {url}; start one with: streamscribe serve"
    if isinstance(error.__cause__, InvalidHandshake):
        return f"what answers at {url} is no StreamScribe server"
    return f"{error} ({url})"


def _tell(line: str) -> None:
    """Beside the results, for people; live text lets it pass."""
    sys.stderr.write(f"{line}\n")


def _tell_lost(patience_s: float) -> None:
    _tell(f"the connection has ended; trying for {patience_s:.0f} s to go on with the session")


async def _heard(client: "NativeClient") -> AsyncIterator["ServerWire"]:
    """All messages; that none came for long, though audio was sent, is told once each time."""
    told = False
    while True:
        try:
            async with asyncio.timeout(QUIET_S):
                message = await anext(client, None)
        except TimeoutError:
            if client.owed and not told:
                _tell(f"nothing has come from the server for {QUIET_S:.0f} s; still waiting")
                told = True
            continue
        if message is None:
            return
        told = False
        yield message


class Screen(Protocol):
    """Where the messages of a session are shown."""

    def show(self, message: "ServerWire") -> None:
        """Shows the next message, or has no place for it."""
        ...

    def close(self) -> None:
        """No more come."""
        ...


async def play(
    file: Path, url: str | Sequence[str], *, start: "StartMessage", key: str | None, speed: float, screen: Screen
) -> list["ResultMessage"]:
    """Streams a file and shows every message; gives the finals, of each segment that of its last pass.

    Of several URLs the next is tried after each that fails. That the server goes away, that the connection is lost, and
    where the session goes on, are lines on standard error.

    Raises ServerError, ConnectionLost, and StreamScribeError for a file that cannot be decoded; perhaps in a group.
    """
    from streamscribe.audio.decode import DecodeLimits, decode
    from streamscribe.client.native import NativeClient
    from streamscribe.wire.native_server import GoAwayMessage, ResultMessage, ResumedMessage

    finals: dict[int, ResultMessage] = {}
    try:
        async with (
            NativeClient(url, key=key, start=start, on_lost=_tell_lost) as client,
            decode(file, DecodeLimits()) as decoding,
            asyncio.TaskGroup() as tasks,
        ):

            async def send() -> None:
                due = monotonic()
                async for block in decoding:
                    for at in range(0, len(block), CHUNK_BYTES):
                        await client.send(block[at : at + CHUNK_BYTES])
                        due += CHUNK_S / speed if speed else 0
                        if due > monotonic():
                            await asyncio.sleep(due - monotonic())
                await client.end()

            tasks.create_task(send())
            async for message in _heard(client):
                screen.show(message)
                if isinstance(message, ResumedMessage):
                    _tell(f"the session goes on at {client.url}")
                elif isinstance(message, GoAwayMessage):
                    moves = client.connected.durability == "log"
                    then = "the session is to go on at another" if moves else "the session ends with it"
                    _tell(f"the server goes away within {message.deadline_ms / 1000:.0f} s; {then}")
                elif isinstance(message, ResultMessage) and message.is_final:
                    finals[message.segment_id] = message
    finally:
        screen.close()
    return list(finals.values())
