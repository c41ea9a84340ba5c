"""`streamscribe demo`: a server, a recording streamed into it, and what it hears; one command from nothing to text."""

import asyncio
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from streamscribe.cli.options import ConfigOption, JsonOption, ProfileOption, require_models, settings_from
from streamscribe.cli.output import Exit, complain, err, fail, first, out, print_json
from streamscribe.cli.screen import TextScreen
from streamscribe.core.options import Mode

if TYPE_CHECKING:
    from streamscribe.wire.native_server import ServerWire

RECORDINGS = "demo-recordings"
CLIPS = ("en/quick_brown_fox", "en/counting", "zh/nihao_shijie")
TINY_CLIPS = 3
"""So many of the recordings with a pause, which the small models' own synthesiser spoke."""
MAX_ERROR_RATE = 0.2


@dataclass(frozen=True, slots=True)
class Clip:
    """A recording and, where it is known, what is said in it."""

    file: Path
    said: str | None


@dataclass(frozen=True, slots=True)
class Heard:
    """What came of a clip: `partials` is how many came; `error` where it could not be played."""

    file: str
    text: str = ""
    said: str | None = None
    partials: int = 0
    right: bool = False
    error: str | None = None


def mount(app: typer.Typer) -> None:
    """Adds the command."""
    app.command()(demo)


def demo(
    files: Annotated[list[Path] | None, typer.Argument(help="Your own recordings (else the catalogue's).")] = None,
    speed: Annotated[
        float, typer.Option(min=0, help="Multiples of real time; 0 as fast as the server takes it.")
    ] = 1.0,
    profile: ProfileOption = None,
    config: ConfigOption = None,
    json: JsonOption = False,
) -> None:
    """Start a server, stream recordings into it, and print partials as they come and the final text.

    Exits with 1 where nothing was heard or, with the catalogue's recordings, where the text is not what was said.

    Examples:

    ```
    streamscribe demo
    streamscribe demo --profile tiny
    streamscribe demo talk.mp3 --speed 2
    ```
    """
    from streamscribe.client.local_server import LocalServer

    settings = settings_from(config, None, model__profile=profile)
    for file in files or ():
        if not file.is_file():
            fail(f"{file}: no such file")
    tiny = settings.model.profile == "tiny"
    require_models(settings, *(() if files or tiny else (RECORDINGS,)))
    catalogues = _tiny_clips() if tiny else _clips(settings.model.dir.expanduser())
    clips = [Clip(file, None) for file in files or ()] or list(catalogues)
    arguments = [*(["--config", str(config)] if config else []), *(["--profile", profile] if profile else [])]
    with ExitStack() as stack:
        with err.status("starting the server"):
            server = stack.enter_context(LocalServer(arguments))
        if not json:
            out.print(f"server ready after {server.address.ready_s:.1f} s at {server.address.http}", style="bold")
        heard = [_hear(clip, server.address.websocket, speed, quiet=json) for clip in clips]
    if json:
        print_json({"ready_s": server.address.ready_s, "clips": heard})
    if not all(one.right for one in heard):
        raise typer.Exit(Exit.FAILED)


def _hear(clip: Clip, url: str, speed: float, *, quiet: bool) -> Heard:
    from streamscribe.cli.stream import explain, play
    from streamscribe.client.errors import ConnectionLost, ServerError
    from streamscribe.core.errors import StreamScribeError
    from streamscribe.core.script import join
    from streamscribe.wire.native_client import StartMessage

    if not quiet:
        out.print(f"\n{clip.file.name}", style="bold", markup=False)
    screen = _Counting(None if quiet else TextScreen(Mode.TWO_PASS.last_pass))
    try:
        finals = asyncio.run(
            play(clip.file.absolute(), url, start=StartMessage(), key=None, speed=speed, screen=screen)
        )
    except (ExceptionGroup, ServerError, ConnectionLost, StreamScribeError) as raised:
        error = first(raised)
        if not isinstance(error, (ServerError, ConnectionLost, StreamScribeError)):
            raise
        told = error.message if isinstance(error, StreamScribeError) else explain(error, url)
        complain(f"{clip.file}: {told}")
        return Heard(str(clip.file), said=clip.said, error=told)
    text = ""
    for final in finals:
        text = join(text, final.text)
    right = bool(text) and (clip.said is None or _close(clip.said, text))
    if not quiet:
        out.print(f"final text: {text or '(no speech was heard)'}", style=f"bold {'green' if right else 'red'}")
        if clip.said is not None:
            out.print(f"said:       {clip.said}", style="dim")
    return Heard(str(clip.file), text, clip.said, screen.partials, right)


def _close(said: str, heard: str) -> bool:
    from streamscribe.bench.text import error_rate

    return error_rate(said, heard) <= MAX_ERROR_RATE


class _Counting:
    """Counts the partials, and shows everything on `screen`, where there is one."""

    def __init__(self, screen: TextScreen | None) -> None:
        self.partials = 0
        self._screen = screen

    def show(self, message: "ServerWire") -> None:
        """Counts and shows the message."""
        from streamscribe.wire.native_server import ResultMessage

        self.partials += isinstance(message, ResultMessage) and not message.is_final
        if self._screen:
            self._screen.show(message)

    def close(self) -> None:
        """Closes the screen."""
        if self._screen:
            self._screen.close()


def _clips(directory: Path) -> Iterator[Clip]:
    from streamscribe.models.registry import open_verified

    files = open_verified(RECORDINGS, directory)
    for name in CLIPS:
        yield Clip(files[f"{name}.wav"], files[f"{name}.txt"].read_text(encoding="utf-8").strip())


def _tiny_clips() -> Iterator[Clip]:
    from streamscribe.bench.recordings import entries

    for file, text in entries("paused")[:TINY_CLIPS]:
        yield Clip(file, text)
