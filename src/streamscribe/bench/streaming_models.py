"""The streaming Paraformers that steps are measured on: the small one, or one of real size that hears nonsense."""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from streamscribe.bench.kinds import Engine, Size
from streamscribe.bench.real_size import export_int8, random_streaming_paraformer
from streamscribe.bootstrap.extras import need_extras
from streamscribe.settings import Settings, load

_STREAMING = "tiny-paraformer-streaming"


@contextmanager
def kept_or_passing(folder: Path | None) -> Iterator[Path]:
    """The folder, or one that is gone at the end."""
    if folder is not None:
        yield folder
        return
    with TemporaryDirectory() as passing:
        yield Path(passing)


def thread_count(size: Size, threads: int) -> int:
    """What `threads` 0 means: all cores for the large model, one for the small one."""
    return threads or (1 if size is Size.TINY else os.cpu_count() or 1)


def settings_of(size: Size, engine: Engine, *, folder: Path, threads: int, **others: Any) -> Settings:
    """The profile `tiny` with a streaming Paraformer of the size; `others` are dotted paths with `__` for the dot.

    A model of real size is taken from the folder, or written into it. Raises SettingsError where the packages that
    write it are missing.
    """
    overrides = {
        "model.profile": "tiny",
        "model.engine": engine.value,
        "model.threads": thread_count(size, threads),
        "observe.log_level": "error",
        **{name.replace("__", "."): value for name, value in others.items()},
    }
    if size is Size.REAL:
        overrides[f"model.folders.{_STREAMING}"] = real_size(folder, engine)
    return load(None, overrides)


def real_size(folder: Path, engine: Engine) -> Path:
    """Where in `folder` the engine's form of the model is; it is written first where it is not there."""
    torch = folder / "torch"
    if engine is Engine.TORCH:
        return written(torch, _write_torch)
    return written(folder / "int8", lambda target: export_int8(written(torch, _write_torch), target))


def _write_torch(target: Path) -> None:
    need_extras("a model of real size", "funasr")
    random_streaming_paraformer(target)


def written(target: Path, write: Callable[[Path], None]) -> Path:
    """The folder, which `write` fills under another name if it is not there: what is there is whole."""
    if not target.is_dir():
        target.parent.mkdir(parents=True, exist_ok=True)
        with TemporaryDirectory(dir=target.parent) as passing:
            unfinished = Path(passing) / target.name
            write(unfinished)
            unfinished.rename(target)
    return target
