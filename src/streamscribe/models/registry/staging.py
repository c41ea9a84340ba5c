"""Where a pull gathers files: only what has the pinned sum gets its name, and one rename installs all of them."""

import hashlib
import os
import shutil
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Literal

from streamscribe.models.registry.catalogue import FilePin, Model
from streamscribe.models.registry.disk import partial_path, path, sum_of, tree_bytes
from streamscribe.models.registry.errors import SourceFailed

CHUNK_BYTES = 1 << 20

Phase = Literal["download", "unpack", "copy"]


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a pull is in one of its phases; `total_bytes` is what the catalogue expects."""

    model_id: str
    phase: Phase
    done_bytes: int
    total_bytes: int


class Staging:
    """The partial folder of one model; what an earlier, interrupted pull left in it is used."""

    def __init__(self, model: Model, directory: Path, listen: Callable[[Progress], None]) -> None:
        self.model = model
        self._root = partial_path(model, directory)
        self._target = path(model, directory)
        self._listen = listen
        self._files = self._root / "files"
        self.downloads = self._root / "downloads"
        self._files.mkdir(parents=True, exist_ok=True)
        self.downloads.mkdir(exist_ok=True)

    def pending(self) -> list[FilePin]:
        """The files that are not yet here with their pinned content."""
        return [pin for pin in self.model.files if not self._is_done(pin)]

    def part(self, pin: FilePin) -> Path:
        """Where the file grows until its sum is known to be right."""
        return self._files / f"{pin.name}.part"

    def write(self, pin: FilePin, chunks: Iterable[bytes], phase: Phase, *, resume: bool = False) -> None:
        """Writes a file, or with `resume` the rest of its part, and gives it its name if it is the pinned one.

        Raises SourceFailed when it is another; a part that is only too short is kept for a later resume.
        """
        part = self.part(pin)
        part.parent.mkdir(parents=True, exist_ok=True)
        digest = hashlib.sha256()
        if resume:
            with part.open("rb") as stream:
                for chunk in chunks_of(stream):
                    digest.update(chunk)
        before = sum(p.size_bytes for p in self.model.files if (self._files / p.name).exists())
        with part.open("ab" if resume else "wb") as stream:
            for chunk in chunks:
                if stream.tell() + len(chunk) > pin.size_bytes:
                    part.unlink()
                    raise SourceFailed(f"{pin.name}: more than the {pin.size_bytes} bytes that the catalogue pins")
                stream.write(chunk)
                digest.update(chunk)
                self.report(phase, before + stream.tell(), self.model.size_bytes)
            stream.flush()
            os.fsync(stream.fileno())
            size = stream.tell()
        if size < pin.size_bytes:
            raise SourceFailed(f"{pin.name}: ended after {size} of {pin.size_bytes} bytes")
        if digest.hexdigest() != pin.sha256:
            part.unlink()
            raise SourceFailed(f"{pin.name}: sha256 is {digest.hexdigest()}, not {pin.sha256}")
        part.replace(self._files / pin.name)

    def report(self, phase: Phase, done_bytes: int, total_bytes: int) -> None:
        """Tells whoever watches."""
        self._listen(Progress(self.model.id, phase, done_bytes, total_bytes))

    def drop_downloads(self) -> None:
        """Forgets the packages of a source that failed; parts of files stay, to be resumed."""
        shutil.rmtree(self.downloads)
        self.downloads.mkdir()

    def held_bytes(self) -> int:
        """What the partial folder takes already."""
        return tree_bytes(self._root)

    def install(self) -> Path:
        """Puts the complete files in the model's place; a damaged former installation goes."""
        if self._target.exists():
            self._target.rename(self._root / "former")
        self._files.rename(self._target)
        shutil.rmtree(self._root)
        return self._target

    def _is_done(self, pin: FilePin) -> bool:
        file = self._files / pin.name
        return file.is_file() and file.stat().st_size == pin.size_bytes and sum_of(file) == pin.sha256


def chunks_of(stream: BinaryIO) -> Iterator[bytes]:
    """The rest of a stream, piece by piece."""
    while chunk := stream.read(CHUNK_BYTES):
        yield chunk
