"""How transcripts are written: as text, JSON or subtitles, to the screen or one file each into a folder."""

import sys
from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from streamscribe.cli.output import complain, err, indented, out
from streamscribe.cli.recordings import Recording

if TYPE_CHECKING:
    from streamscribe.core.results import Result


class Format(StrEnum):
    """How a transcript is written."""

    TXT = "txt"
    JSON = "json"
    SRT = "srt"
    VTT = "vtt"


class TranscriptWriter:
    """Writes each transcript when it is there, so that nothing gathers; close it at the end.

    JSON on the screen is one value: a list where `many`, else the only document. A recording that failed has a
    document too, with `error`, and a line on standard error.
    """

    def __init__(self, format_: Format, folder: Path | None, *, many: bool) -> None:
        self._format = format_
        self._folder = folder
        self._many = many
        self._listed = 0

    def write(self, recording: Recording, results: Sequence["Result"], audio_s: float, elapsed_s: float) -> None:
        """Writes one transcript. Raises OSError where it cannot be written."""
        if self._folder is not None:
            target = self._folder / f"{recording.place}.{self._format}"
            target.parent.mkdir(parents=True, exist_ok=True)
            text = _rendered(self._format, recording, results, audio_s)
            target.write_text(text.rstrip("\n") + "\n", encoding="utf-8")
            speed = audio_s / max(elapsed_s, 1e-3)
            err.print(f"{recording.name} → {target}  ({audio_s:.1f} s, {speed:.1f}x real time)", markup=False)
        elif self._format is Format.JSON:
            self._list(_rendered(self._format, recording, results, audio_s))
        else:
            if self._many:
                out.print(f"{recording.name}:", style="bold", markup=False)
            typer.echo(_rendered(self._format, recording, results, audio_s))

    def fail(self, recording: Recording, message: str, code: str = "bad_request") -> None:
        """Says why there is no transcript."""
        complain(f"{recording.name}: {message}")
        if self._format is Format.JSON and self._folder is None:
            self._list(indented({"file": recording.name, "error": {"code": code, "message": message}}))

    def close(self) -> None:
        """Ends the list."""
        if self._format is Format.JSON and self._folder is None and self._many:
            sys.stdout.write("\n]\n" if self._listed else "[]\n")

    def _list(self, document: str) -> None:
        if self._many:
            sys.stdout.write(",\n" if self._listed else "[\n")
        sys.stdout.write(document if self._many else document + "\n")
        sys.stdout.flush()
        self._listed += 1


def _rendered(format_: Format, recording: Recording, results: Sequence["Result"], audio_s: float) -> str:
    from streamscribe.text.subtitles import srt, vtt

    match format_:
        case Format.JSON:
            return indented(_document(recording.name, results, audio_s))
        case Format.SRT:
            return srt(results)
        case Format.VTT:
            return vtt(results)
        case Format.TXT:
            return _joined(results)


def _joined(results: Sequence["Result"]) -> str:
    from streamscribe.core.script import join

    text = ""
    for result in results:
        text = join(text, result.text)
    return text


def _document(name: str, results: Sequence["Result"], audio_s: float) -> dict[str, Any]:
    def times(item: Any) -> dict[str, Any]:
        return {"start_ms": item.start_ms, "end_ms": item.end_ms, "text": item.text, "confidence": item.confidence}

    segments = [
        {**times(result), "language": result.language, "words": [times(word) for word in result.words]}
        for result in results
    ]
    return {"file": name, "text": _joined(results), "audio_s": audio_s, "segments": segments}
