"""`streamscribe transcribe`: files to text here and now, through the same path as a server's sessions."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Annotated

import typer
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

from streamscribe.cli.options import (
    ConfigOption,
    HotwordOption,
    JsonOption,
    LanguageOption,
    ModelOption,
    ProfileOption,
    SetOption,
    require_models,
    settings_from,
)
from streamscribe.cli.output import Exit, err, fail, first
from streamscribe.cli.recordings import Recording, names_one, recordings_of
from streamscribe.cli.transcripts import Format, TranscriptWriter

if TYPE_CHECKING:
    from streamscribe.audio.decode import Decoding
    from streamscribe.bootstrap.platform import Platform
    from streamscribe.core.options import SessionOptions
    from streamscribe.core.results import Result
    from streamscribe.gateway.recognition import Finals
    from streamscribe.settings import Settings

REFRESH_S = 0.2


def mount(app: typer.Typer) -> None:
    """Adds the command."""
    app.command()(transcribe)


def transcribe(
    inputs: Annotated[list[str], typer.Argument(metavar="FILE|DIR|GLOB|-", help="Recordings; - reads standard input.")],
    format_: Annotated[Format, typer.Option("--format", "-f", help="How to write transcripts.")] = Format.TXT,
    output_dir: Annotated[
        Path | None,
        typer.Option("--output-dir", "-o", file_okay=False, help="Write NAME.FORMAT there, not to the screen."),
    ] = None,
    language: LanguageOption = None,
    hotword: HotwordOption = None,
    words: Annotated[bool, typer.Option("--words", help="With the times of words (in JSON).")] = False,
    itn: Annotated[bool, typer.Option(help="Write numbers as people do.")] = True,
    profile: ProfileOption = None,
    model: ModelOption = None,
    config: ConfigOption = None,
    set_: SetOption = None,
    json: JsonOption = False,
) -> None:
    """Transcribe files here, without a server.

    A file that fails is reported, the rest go on, and the exit code is 1. `--json` is `--format json`: one document
    for one FILE, a list for anything else.

    Examples:

    ```
    streamscribe transcribe talk.mp3 --format srt
    streamscribe transcribe calls/ --output-dir texts --language zh
    streamscribe transcribe 'talks/*.m4a' --hotword StreamScribe --words --json
    cat talk.wav | streamscribe transcribe -
    ```
    """
    from streamscribe.core.errors import BadRequest
    from streamscribe.core.hotwords import parse_hotwords
    from streamscribe.core.options import Mode, SessionOptions
    from streamscribe.wire.fields import parse_language

    settings = settings_from(config, set_, model__profile=profile, model__second_pass=model, observe__log_level="error")
    require_models(settings)
    format_ = Format.JSON if json else format_
    options = SessionOptions(
        mode=Mode.OFFLINE,
        language=parse_language(language, field="language"),
        hotwords=parse_hotwords(hotword or []),
        words=words or format_ in (Format.SRT, Format.VTT),  # without them, cues are cut by guess
        itn=itn,
        live=False,
    )
    with recordings_of(inputs, settings.limits.max_upload_bytes) as recordings:
        writer = TranscriptWriter(format_, output_dir, many=not names_one(inputs))
        try:
            failures = _transcribe(settings, recordings, options, writer)
        except* BadRequest as errors:
            fail(f"--language {language}: {first(errors)}", Exit.USAGE)
        finally:
            writer.close()
    if failures:
        raise typer.Exit(Exit.FAILED)


def _transcribe(
    settings: "Settings", recordings: Sequence[Recording], options: "SessionOptions", writer: TranscriptWriter
) -> int:
    """Transcribes what is there; gives how many failed. Raises BadRequest for a language that the model lacks."""
    absent = [recording for recording in recordings if recording.problem is not None]
    for recording in absent:
        writer.fail(recording, recording.problem or "", code="not_found")
    present = [recording for recording in recordings if recording.problem is None]
    return len(absent) + (asyncio.run(_recognise_all(settings, present, options, writer)) if present else 0)


async def _recognise_all(
    settings: "Settings", recordings: Sequence[Recording], options: "SessionOptions", writer: TranscriptWriter
) -> int:
    from streamscribe.bootstrap.platform import platform
    from streamscribe.core.errors import BadRequest, StreamScribeError
    from streamscribe.observe.logs import configure

    configure(settings.observe)
    failures = 0
    async with platform(settings) as parts:
        with err.status("loading the models"):
            await asyncio.to_thread(parts.models.wait_ready)
        with _progress() as progress:
            for recording in recordings:
                began = monotonic()
                try:
                    results, audio_s = await _recognise(parts, recording, options, progress)
                    writer.write(recording, results, audio_s, monotonic() - began)
                except BadRequest:
                    raise
                except StreamScribeError as error:
                    failures += 1
                    writer.fail(recording, error.message, error.code)
                except OSError as error:
                    failures += 1
                    writer.fail(recording, f"{error.filename or 'the transcript'}: {error.strerror}", "not_written")
    return failures


async def _recognise(
    parts: "Platform", recording: Recording, options: "SessionOptions", progress: Progress
) -> tuple[list["Result"], float]:
    """The finals of one file and its length in seconds."""
    from streamscribe.core.ids import TenantId
    from streamscribe.gateway.recognition import recognition
    from streamscribe.ports import Tenant

    limits = parts.settings.limits
    tenant = Tenant(TenantId("local"), limits.max_sessions)
    decoding = parts.decoders.decode(recording.path)
    results: list[Result] = []
    async with (
        recognition(parts.hub, tenant, options, decoding, max_unread_chars=int(limits.max_unread_bytes)) as finals,
        _shown(progress, recording, finals, decoding),
    ):
        while (final := await finals.next()) is not None:
            results.append(final)
    return results, decoding.decoded_s


def _progress() -> Progress:
    columns = (TextColumn("{task.description}"), BarColumn(), TextColumn("{task.fields[speed]}"), TimeRemainingColumn())
    return Progress(*columns, console=err, transient=True, disable=not err.is_terminal)


@asynccontextmanager
async def _shown(
    progress: Progress, recording: Recording, finals: "Finals", decoding: "Decoding"
) -> AsyncIterator[None]:
    """A bar with the speed in multiples of real time, while the block runs."""
    bar = progress.add_task(recording.path.name, total=None, speed="")
    began = monotonic()

    async def move() -> None:
        while True:
            await asyncio.sleep(REFRESH_S)
            done_s = finals.processed_ms / 1000
            speed = f"{done_s / (monotonic() - began):.1f}x"
            progress.update(bar, completed=done_s, total=decoding.duration_s or None, speed=speed)

    moving = asyncio.create_task(move())
    try:
        yield
    finally:
        moving.cancel()
        progress.remove_task(bar)
