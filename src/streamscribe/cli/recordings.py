"""What `transcribe` is given on its command line, as recordings, and where the transcript of each belongs."""

import glob
import os
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path, PurePath

SUFFIXES = frozenset({".wav", ".flac", ".mp3", ".ogg", ".oga", ".opus", ".m4a", ".mp4", ".aac", ".webm", ".mkv"})
"""Files of a folder that are looked at; a file that is named is tried whatever its name."""

STDIN = "-"


@dataclass(frozen=True, slots=True)
class Recording:
    """A file and its name for people; `place` is its transcript's in an output folder, without a suffix.

    `problem` says why there is no such file.
    """

    name: str
    path: Path
    place: PurePath
    problem: str | None = None


def names_one(inputs: Sequence[str]) -> bool:
    """Whether the arguments can only mean one recording: one FILE, or standard input."""
    return (
        len(inputs) == 1
        and not Path(inputs[0]).is_dir()
        and (Path(inputs[0]).exists() or not glob.has_magic(inputs[0]))
    )


@contextmanager
def recordings_of(inputs: Sequence[str], max_stdin_bytes: int) -> Iterator[list[Recording]]:
    """The recordings that the arguments name, each file once; those of a folder keep their place below it.

    Standard input is held in a file that is gone afterwards; of more than `max_stdin_bytes` one byte more is kept, by
    which the decoder refuses it.
    """
    with tempfile.TemporaryDirectory(prefix="streamscribe-") as folder:
        found: list[Recording] = []
        for given in inputs:
            if given == STDIN:
                found.append(Recording("stdin", _spooled(Path(folder, "stdin"), max_stdin_bytes), PurePath("stdin")))
            else:
                found += _named(given)
        yield _apart(found)


def _named(given: str) -> Iterator[Recording]:
    path = Path(given)
    if path.is_dir():
        files = sorted(file for file in path.rglob("*") if file.suffix.lower() in SUFFIXES and file.is_file())
        if not files:
            yield _missing(given, "no recordings in this folder")
        for file in files:
            yield Recording(str(file), file.absolute(), file.relative_to(path).with_suffix(""))
    elif path.exists() or not glob.has_magic(given):
        if path.is_file():
            yield Recording(given, path.absolute(), PurePath(path.stem))
        else:
            yield _missing(given, "not a file" if path.exists() else "no such file")
    else:
        matches = [Path(match) for match in sorted(glob.glob(given, recursive=True)) if os.path.isfile(match)]
        if not matches:
            yield _missing(given, "no file matches")
        for match in matches:
            yield Recording(str(match), match.absolute(), PurePath(match.stem))


def _missing(given: str, problem: str) -> Recording:
    return Recording(given, Path(given), PurePath("missing"), problem)


def _apart(found: Sequence[Recording]) -> list[Recording]:
    """Each file once, and each with a place of its own: where two would share one, the later gets a number."""
    kept: dict[Path, Recording] = {}
    taken: set[PurePath] = set()
    for recording in found:
        if recording.problem is not None or recording.path in kept:
            kept.setdefault(recording.path, recording)
            continue
        place, number = recording.place, 1
        while place in taken:
            number += 1
            place = recording.place.with_name(f"{recording.place.name}-{number}")
        taken.add(place)
        kept[recording.path] = Recording(recording.name, recording.path, place)
    return list(kept.values())


def _spooled(file: Path, max_bytes: int) -> Path:
    with file.open("wb") as spool:
        left = max_bytes + 1
        while left and (block := sys.stdin.buffer.read(min(left, 2**16))):
            spool.write(block)
            left -= len(block)
    return file
