"""The models on disk: one folder per model in the model folder. Nothing here touches the network."""

import hashlib
import shutil
from importlib import resources
from pathlib import Path

from streamscribe.models.registry.catalogue import FilePin, Model, find
from streamscribe.models.registry.errors import ChangedOnDisk, NotInstalled, PartOfThePackage


def path(model: Model, directory: Path) -> Path:
    """Where the model lies, or would: in the model folder, or in the package."""
    if model.bundled:
        return Path(str(resources.files("streamscribe.models"))) / "bundled" / model.id
    return directory / model.id


def installed(model: Model, directory: Path) -> bool:
    """Whether all files are there in their right size; `verify` reads them too."""
    folder = path(model, directory)
    return all(_size(folder / pin.name) == pin.size_bytes for pin in model.files)


def verify(model: Model, directory: Path) -> list[str]:
    """What is wrong with the installed files, one line each; raises NotInstalled when there are none at all."""
    folder = path(model, directory)
    if not folder.is_dir():
        raise NotInstalled(model.id)
    return [problem for pin in model.files if (problem := _problem(folder / pin.name, pin))]


def open_verified(model_id: str, directory: Path) -> dict[str, Path]:
    """The files of an installed model, each read and checked against its sum just now (145 MB take about 0.1 s).

    Raises NotFound for an id that is not of the catalogue, NotInstalled, and ChangedOnDisk for any other content.
    """
    model = find(model_id)
    if problems := verify(model, directory):
        raise ChangedOnDisk(model_id, problems)
    return {pin.name: path(model, directory) / pin.name for pin in model.files}


def remove(model: Model, directory: Path) -> int:
    """Deletes the model and what an interrupted pull left; returns the bytes freed.

    Raises NotInstalled, and PartOfThePackage for one that is bundled.
    """
    if model.bundled:
        raise PartOfThePackage(model.id)
    left = [folder for folder in (path(model, directory), partial_path(model, directory)) if folder.is_dir()]
    if not left:
        raise NotInstalled(model.id)
    freed = sum(tree_bytes(folder) for folder in left)
    for folder in left:
        shutil.rmtree(folder)
    return freed


def partial_path(model: Model, directory: Path) -> Path:
    """Where a pull gathers the files, beside their later place so that one rename installs them."""
    return directory / f".{model.id}.partial"


def tree_bytes(folder: Path) -> int:
    """Bytes of all files below a folder that others may be writing to."""
    return sum(_size(file) or 0 for file in folder.rglob("*"))


def sum_of(file: Path) -> str:
    """The file's sha256 in hexadecimal."""
    with file.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def _problem(file: Path, pin: FilePin) -> str | None:
    size = _size(file)
    if size is None:
        return f"{pin.name}: missing"
    if size != pin.size_bytes:
        return f"{pin.name}: {size} bytes, not {pin.size_bytes}"
    if (found := sum_of(file)) != pin.sha256:
        return f"{pin.name}: sha256 is {found}, not {pin.sha256}"
    return None


def _size(file: Path) -> int | None:
    """The size of a regular file, None where there is none."""
    try:
        return file.stat().st_size if file.is_file() else None
    except OSError:
        return None
