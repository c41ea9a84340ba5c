"""`streamscribe transcribe`: files to text here and now, through the same path as a server's sessions."""

import asyncio
import glob
import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeRemainingColumn

from streamscribe.cli.options import (
    ConfigOption,
    HotwordOption,
    JsonOption,
    LanguageOption,
    ProfileOption,
    SetOption,
    settings_from,
)
from streamscribe.cli.output import Exit, err, fail, out, print_json

if TYPE_CHECKING:
    from streamscribe.bootstrap import Platform
    from streamscribe.core.options import SessionOptions
    from streamscribe.core.results import Result

SUFFIXES = frozenset({".wav", ".flac", ".mp3", ".ogg", ".oga", ".opus", ".m4a", ".mp4", ".aac", ".webm"})
STDIN = "-"


class Format(StrEnum):
    """How a transcript is written."""

    TXT = "txt"
    JSON = "json"
    SRT = "srt"
    VTT = "vtt"


def mount(app: typer.Typer) -> None:
    """Adds the command."""
    app.command()(transcribe)


def transcribe(
    inputs: Annotated[list[str], typer.Argument(metavar="FILE|DIR|GLOB|-", help="Recordings; - reads standard input.")],
    format_: Annotated[Format, typer.Option("--format", "-f", help="How to write transcripts.")] = Format.TXT,
    output_dir: Annotated[
        Path | None, typer.Option("--output-dir", "-o", help="Write NAME.FORMAT there instead of to the screen.")
    ] = None,
    language: LanguageOption = None,
    hotword: HotwordOption = None,
    words: Annotated[bool, typer.Option("--words", help="With the times of words (json).")] = False,
    itn: Annotated[bool, typer.Option(help="Write numbers as people do.")] = True,
    profile: ProfileOption = None,
    config: ConfigOption = None,
    set_: SetOption = None,
    json: JsonOption = False,
) -> None:
    """Transcribe files here, without a server.

    A file that fails is reported, the rest go on, and the exit code is 1.

    Examples: `streamscribe transcribe talk.mp3 -f srt`, `streamscribe transcribe calls/ -o texts --language zh`,
    `cat talk.wav | streamscribe transcribe -`
    """
    from streamscribe.core.hotwords import parse_hotwords
    from streamscribe.core.options import Mode, SessionOptions

    settings = settings_from(config, set_, model__profile=profile, observe__log_level="error")
    options = SessionOptions(
        mode=Mode.OFFLINE,
        language=language,
        hotwords=parse_hotwords(hotword or []),
        words=words,
        itn=itn,
        live=False,
    )
    with _found(inputs) as files:
        if not files:
            fail("no recordings were found", Exit.USAGE)
        if output_dir is not None:
            output_dir.mkdir(parents=True, exist_ok=True)
        format_ = Format.JSON if json else format_
        failures = asyncio.run(_run(settings, files, options, _Writer(format_, output_dir, many=len(files) > 1)))
    if failures:
        raise typer.Exit(Exit.FAILED)


@contextmanager
def _found(inputs: list[str]) -> Iterator[list[tuple[str, Path]]]:
    """Names and paths of the recordings; standard input is spooled to a file that is gone afterwards."""
    found: list[tuple[str, Path]] = []
    with tempfile.TemporaryDirectory(prefix="streamscribe-") as folder:
        for given in inputs:
            path = Path(given)
            if given == STDIN:
                spool = Path(folder, "stdin")
                with spool.open("wb") as file:
                    shutil.copyfileobj(sys.stdin.buffer, file)
                found.append(("stdin", spool))
            elif path.is_dir():
                found += [(str(f), f.absolute()) for f in sorted(path.rglob("*")) if f.suffix.lower() in SUFFIXES]
            elif glob.has_magic(given) and not path.exists():
                found += [(match, Path(match).absolute()) for match in sorted(glob.glob(given, recursive=True))]
            else:
                found.append((given, path.absolute()))
        yield found


async def _run(settings: Any, files: list[tuple[str, Path]], options: "SessionOptions", writer: "_Writer") -> int:
    """Transcribes one file after the other; gives how many failed."""
    from streamscribe.bootstrap import platform
    from streamscribe.core.errors import StreamScribeError
    from streamscribe.observe.logs import configure

    configure(settings.observe)
    failures = 0
    columns = (TextColumn("{task.description}"), BarColumn(), TextColumn("{task.fields[speed]}"), TimeRemainingColumn())
    async with platform(settings) as parts:
        with err.status("loading the models"):
            await asyncio.to_thread(parts.models.wait_ready)
        with Progress(*columns, console=err, transient=True) as progress:
            for name, path in files:
                task = progress.add_task(Path(name).name, total=None, speed="")
                try:
                    if not path.is_file():
                        raise FileNotFoundError
                    results, audio_s = await _recognise(parts, path, options, progress, task)
                    writer.write(name, results, audio_s)
                except FileNotFoundError:
                    failures += 1
                    err.print(f"{name}: no such file", style="red", markup=False)
                except StreamScribeError as error:
                    failures += 1
                    err.print(f"{name}: {error.message}", style="red", markup=False)
                progress.remove_task(task)
    writer.close()
    return failures


async def _recognise(
    parts: "Platform", path: Path, options: "SessionOptions", progress: Progress, task: TaskID
) -> tuple[list["Result"], float]:
    """The finals of one file and its length in seconds."""
    from streamscribe.core.ids import TenantId
    from streamscribe.gateway.recognition import recognition
    from streamscribe.ports import Tenant

    limits = parts.settings.limits
    tenant = Tenant(TenantId("local"), limits.max_sessions)
    decoding = parts.decoders.decode(path)
    began = monotonic()
    results: list[Result] = []
    async with recognition(
        parts.hub, tenant, options, decoding, max_unread_chars=int(limits.max_unread_bytes)
    ) as finals:
        while (final := await finals.next()) is not None:
            results.append(final)
            done_s = final.end_ms / 1000
            speed = f"{done_s / (monotonic() - began):.1f}x"
            progress.update(task, completed=done_s, total=decoding.duration_s or None, speed=speed)
    return results, decoding.decoded_s


class _Writer:
    """Writes transcripts to the screen or into a folder; JSON of many files is one list."""

    def __init__(self, format_: Format, folder: Path | None, *, many: bool) -> None:
        self._format = format_
        self._folder = folder
        self._many = many
        self._documents: list[dict[str, Any]] = []

    def write(self, name: str, results: list["Result"], audio_s: float) -> None:
        """Writes one file's transcript."""
        from streamscribe.text.subtitles import srt, vtt

        match self._format:
            case Format.JSON:
                document = _document(name, results, audio_s)
                if self._folder is None:
                    self._documents.append(document)
                    return
                import msgspec

                text = msgspec.json.format(msgspec.json.encode(document), indent=2).decode()
            case Format.SRT:
                text = srt(results)
            case Format.VTT:
                text = vtt(results)
            case Format.TXT:
                text = _joined(results)
        if self._folder is not None:
            target = self._folder / f"{Path(name).stem}.{self._format}"
            target.write_text(text.rstrip("\n") + "\n", encoding="utf-8")
            err.print(f"{name} → {target}", markup=False)
        else:
            if self._many:
                out.print(f"{name}:", style="bold", markup=False)
            out.print(text, markup=False)

    def close(self) -> None:
        """Writes what was gathered."""
        if self._documents:
            print_json(self._documents if self._many else self._documents[0])


def _joined(results: list["Result"]) -> str:
    from streamscribe.core.script import join

    text = ""
    for result in results:
        text = join(text, result.text)
    return text


def _document(name: str, results: list["Result"], audio_s: float) -> dict[str, Any]:
    def times(item: Any) -> dict[str, Any]:
        return {"start_ms": item.start_ms, "end_ms": item.end_ms, "text": item.text, "confidence": item.confidence}

    segments = [
        {**times(result), "language": result.language, "words": [times(word) for word in result.words]}
        for result in results
    ]
    return {"file": name, "text": _joined(results), "audio_s": audio_s, "segments": segments}
