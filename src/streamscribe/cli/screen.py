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
    """What may still change in grey, overwritten on a terminal and one a line elsewhere; last finals with their time.

    Partials and finals of a pass before `last_pass` may change.
    """

    def __init__(self, last_pass: int) -> None:
        self._last_pass = last_pass
        self._live = Live(console=out, refresh_per_second=12, transient=True) if out.is_terminal else None
        self._open: dict[int, Text] = {}
        if self._live:
            self._live.start()

    def show(self, message: "ServerWire") -> None:
        """Prints results; other messages have no place here."""
        from streamscribe.wire.native_server import ResultMessage

        if not isinstance(message, ResultMessage):
            return
        if not message.text or (message.is_final and message.pass_ >= self._last_pass):
            self._open.pop(message.segment_id, None)
            if message.text:
                out.print(Text.assemble((f"{_clock(message.start_ms)}  ", "dim"), message.text, *_channel(message)))
        else:
            text = message.text if message.is_final else f"{message.text} …"
            line = Text(f"{_clock(message.start_ms)}  {text}", style="dim" if message.is_final else "dim italic")
            self._open[message.segment_id] = line
            if self._live is None:
                out.print(line)
        if self._live:
            self._live.update(Text("\n").join(self._open.values()))

    def close(self) -> None:
        """Takes what was unfinished off the screen."""
        if self._live:
            self._live.stop()


def _channel(message: "ResultMessage") -> tuple[tuple[str, str], ...]:
    return ((f"  [channel {message.channel}]", "dim"),) if message.channel else ()


def _clock(ms: int) -> str:
    return f"{ms // 60_000}:{ms // 1000 % 60:02d}.{ms % 1000 // 100}"
