"""`streamscribe demo`: a server, a recording streamed into it, and what it hears; one command from nothing to text."""

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from streamscribe.cli.options import ConfigOption, settings_from
from streamscribe.cli.output import Exit, fail, out

CLIPS = ("en/quick_brown_fox", "en/counting", "zh/jishu")
"""Recordings of the catalogue's `demo-recordings`."""

MAX_ERROR_RATE = 0.2


@dataclass(frozen=True, slots=True)
class Clip:
    """A recording and, where it is known, what is said in it."""

    file: Path
    text: str | None


def mount(app: typer.Typer) -> None:
    """Adds the command."""
    app.command()(demo)


def demo(
    files: Annotated[list[Path] | None, typer.Argument(help="Your own recordings (else the catalogue's).")] = None,
    speed: Annotated[float, typer.Option(min=0, help="Multiples of real time.")] = 1.0,
    config: ConfigOption = None,
) -> None:
    """Start a server, stream recordings into it, and print partials as they come and the final text.

    With the catalogue's recordings, exits with 1 where the text is not what was said. Example: `streamscribe demo`
    """
    from streamscribe.cli.stream import TextScreen, play
    from streamscribe.client.errors import ConnectionLost, ServerError
    from streamscribe.client.local_server import LocalServer
    from streamscribe.core.script import join
    from streamscribe.wire.native_client import StartMessage

    settings = settings_from(config, None)
    clips = [Clip(file, None) for file in files or []] or list(_clips(settings.model.dir.expanduser()))
    for clip in clips:
        if not clip.file.is_file():
            fail(f"{clip.file}: no such file")
    wrong = 0
    with LocalServer() as server:
        out.print(f"server ready after {server.address.ready_s:.1f} s at {server.address.http}", style="bold")
        for clip in clips:
            out.print(f"\n{clip.file.name}", style="bold")
            try:
                finals = asyncio.run(
                    play(
                        clip.file,
                        server.address.websocket,
                        start=StartMessage(),
                        key=None,
                        speed=speed,
                        screen=TextScreen(),
                    )
                )
            except* (ServerError, ConnectionLost) as errors:
                fail(str(errors.exceptions[0]))
            text = ""
            for final in finals:
                text = join(text, final.text)
            wrong += not _verdict(clip, text)
    if wrong:
        raise typer.Exit(Exit.FAILED)


def _clips(directory: Path) -> Iterator[Clip]:
    from streamscribe.models.registry import open_verified

    files = open_verified("demo-recordings", directory)
    for name in CLIPS:
        yield Clip(files[f"{name}.wav"], files[f"{name}.txt"].read_text().strip())


def _verdict(clip: Clip, text: str) -> bool:
    """Says what came out; False where it is not what was said."""
    if not text:
        out.print("no speech was heard", style="red")
        return False
    if clip.text is None:
        out.print(f"final text: {text}", style="bold green")
        return True
    from streamscribe.bench.text import error_rate

    right = error_rate(clip.text, text) <= MAX_ERROR_RATE
    out.print(f"final text: {text}", style="bold green" if right else "bold red")
    out.print(f"said:       {clip.text}", style="dim")
    return right
