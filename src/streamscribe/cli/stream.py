"""`streamscribe stream`: plays a file into a server as if it were spoken, and shows what the server hears."""

import asyncio
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Annotated

import typer
from rich.live import Live
from rich.text import Text

from streamscribe.cli.options import HotwordOption, JsonOption, LanguageOption
from streamscribe.cli.output import fail, out

if TYPE_CHECKING:
    from streamscribe.wire.native_client import StartMessage
    from streamscribe.wire.native_server import ResultMessage, ServerWire

DEFAULT_URL = "ws://127.0.0.1:8000/ws/asr"
CHUNK_S = 0.1
CHUNK_BYTES = 3200


def mount(app: typer.Typer) -> None:
    """Adds the command."""
    app.command()(stream)


def stream(
    file: Annotated[Path, typer.Argument(help="A recording of any format that the server would take.")],
    url: Annotated[str, typer.Option(help="The server's WebSocket.")] = DEFAULT_URL,
    key: Annotated[str | None, typer.Option(envvar="STREAMSCRIBE_KEY", help="API key (or STREAMSCRIBE_KEY).")] = None,
    speed: Annotated[
        float, typer.Option(min=0, help="Multiples of real time; 0 as fast as the server takes it.")
    ] = 1.0,
    mode: Annotated[str, typer.Option(help="online, offline or 2pass.")] = "2pass",
    language: LanguageOption = None,
    hotword: HotwordOption = None,
    words: Annotated[bool, typer.Option("--words", help="Ask for the times of words (shown with --json).")] = False,
    json: JsonOption = False,
) -> None:
    """Play a file into a running server and show partials live (grey) and finals (with their time).

    With `--json`, every message of the server is one line. Example: `streamscribe stream talk.mp3 --speed 2`
    """
    from streamscribe.client.errors import ConnectionLost, ServerError
    from streamscribe.core.options import Mode
    from streamscribe.wire.native_client import StartMessage

    if mode not in set(Mode):
        fail(f"--mode {mode}: online, offline or 2pass")
    if not file.is_file():
        fail(f"{file}: no such file")
    start = StartMessage(mode=Mode(mode), language=language, hotwords=hotword or [], words=words)
    try:
        asyncio.run(
            play(file.absolute(), url, start=start, key=key, speed=speed, screen=JsonScreen() if json else TextScreen())
        )
    except* (ServerError, ConnectionLost) as errors:
        fail(str(errors.exceptions[0]))


class JsonScreen:
    """Every message as one line."""

    def show(self, message: "ServerWire") -> None:
        """Prints the message."""
        import msgspec

        typer.echo(msgspec.json.encode(message).decode())

    def close(self) -> None:
        """Nothing is left to do."""


class TextScreen:
    """Partials in grey, overwritten on a terminal and one a line elsewhere; finals with their time."""

    def __init__(self) -> None:
        self._live = Live(console=out, refresh_per_second=12, transient=True) if out.is_terminal else None
        self._partials: dict[int, Text] = {}
        if self._live:
            self._live.start()

    def show(self, message: "ServerWire") -> None:
        """Prints results; other messages have no place here."""
        from streamscribe.wire.native_server import ResultMessage

        if not isinstance(message, ResultMessage):
            return
        if message.is_final:
            self._partials.pop(message.segment_id, None)
            if message.text:
                out.print(Text.assemble((f"{_clock(message.start_ms)}  ", "dim"), message.text, *_channel(message)))
        else:
            partial = Text(f"{_clock(message.start_ms)}  {message.text} …", style="dim italic")
            self._partials[message.segment_id] = partial
            if self._live is None:
                out.print(partial)
        if self._live:
            self._live.update(Text("\n").join(self._partials.values()))

    def close(self) -> None:
        """Takes what was unfinished off the screen."""
        if self._live:
            self._live.stop()


def _channel(message: "ResultMessage") -> tuple[tuple[str, str], ...]:
    return ((f"  [channel {message.channel}]", "dim"),) if message.channel else ()


def _clock(ms: int) -> str:
    return f"{ms // 60_000}:{ms // 1000 % 60:02d}.{ms % 1000 // 100}"


async def play(
    file: Path, url: str, *, start: "StartMessage", key: str | None, speed: float, screen: JsonScreen | TextScreen
) -> list["ResultMessage"]:
    """Streams a file and shows every message; gives the finals.

    Raises ServerError, ConnectionLost, and StreamScribeError for a file that cannot be decoded.
    """
    from streamscribe.audio.decode import DecodeLimits, decode
    from streamscribe.client.native import NativeClient
    from streamscribe.wire.native_server import ResultMessage

    finals: list[ResultMessage] = []
    decoding = decode(file, DecodeLimits())
    try:
        async with NativeClient(url, key=key, start=start) as client, asyncio.TaskGroup() as tasks:

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
            async for message in client:
                screen.show(message)
                if isinstance(message, ResultMessage) and message.is_final:
                    finals.append(message)
    finally:
        screen.close()
    return finals
