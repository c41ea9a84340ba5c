"""Where a session's messages are shown: live text for people, lines of JSON for machines."""

from typing import TYPE_CHECKING

import typer
from rich.live import Live
from rich.text import Text

from streamscribe.cli.output import out

if TYPE_CHECKING:
    from streamscribe.wire.native_server import ResultMessage, ServerWire


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
