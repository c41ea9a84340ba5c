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

    Partials, which end with `…`, and finals of a pass before `last_pass`, which end with its number, may change.
    What the tenant's rules hit, and hot words that were not taken, are a grey line each.
    """

    def __init__(self, last_pass: int) -> None:
        self._last_pass = last_pass
        self._live = Live(console=out, refresh_per_second=12, transient=True) if out.is_terminal else None
        self._open: dict[int, Text] = {}
        if self._live:
            self._live.start()

    def show(self, message: "ServerWire") -> None:
        """Prints results, hits of rules and hot words that were not taken; other messages have no place here."""
        from streamscribe.wire.native_server import HotwordsMessage, ResultMessage, RuleHitMessage

        match message:
            case ResultMessage():
                self._show_result(message)
            case RuleHitMessage():
                for hit in message.hits:
                    self._print_aside(f"{_clock(hit.start_ms)}  rule {hit.rule} ({hit.kind}): {hit.phrase}")
            case HotwordsMessage():
                for ignored in message.ignored:
                    self._print_aside(f"hot word not taken: {ignored.phrase} ({ignored.reason})")

    def close(self) -> None:
        """Takes what was unfinished off the screen."""
        if self._live:
            self._live.stop()

    def _print_aside(self, line: str) -> None:
        out.print(Text(line, style="dim"))

    def _show_result(self, message: "ResultMessage") -> None:
        if not message.text or (message.is_final and message.pass_ >= self._last_pass):
            self._open.pop(message.segment_id, None)
            if message.text:
                out.print(Text.assemble((f"{_clock(message.start_ms)}  ", "dim"), message.text, *_channel(message)))
        else:
            text = f"{message.text}  [pass {message.pass_}]" if message.is_final else f"{message.text} …"
            line = Text(f"{_clock(message.start_ms)}  {text}", style="dim" if message.is_final else "dim italic")
            self._open[message.segment_id] = line
            if self._live is None:
                out.print(line)
        if self._live:
            self._live.update(Text("\n").join(self._open.values()))


def _channel(message: "ResultMessage") -> tuple[tuple[str, str], ...]:
    return ((f"  [channel {message.channel}]", "dim"),) if message.channel else ()


def _clock(ms: int) -> str:
    return f"{ms // 60_000}:{ms // 1000 % 60:02d}.{ms % 1000 // 100}"
