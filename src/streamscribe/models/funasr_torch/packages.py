"""Importing FunASR without importing all of it, and without its warnings."""

import importlib
import logging
import pkgutil
import sys
import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from streamscribe.core.errors import ModelUnavailable

_importing = threading.Lock()


def import_funasr(*modules: str) -> None:
    """Imports FunASR's `modules`, which then stand in its registry; 3 s instead of 35 s for the whole package.

    `funasr/__init__` imports every submodule that `pkgutil.walk_packages` finds, only to fill the registry: while it
    runs, none is found. Raises ModelUnavailable where the extra is not installed.
    """
    with _importing, _quiet():
        try:
            if "funasr" not in sys.modules:
                _import_package_alone()
            for module in modules:
                importlib.import_module(module)
        except ImportError as error:
            raise ModelUnavailable(f"the funasr extra is not installed: {error.name} is missing") from error


def import_all_of_funasr() -> Any:
    """The package with every model in its registry, as `import funasr` gives it."""
    import_funasr()
    with _importing, _quiet():
        funasr = sys.modules["funasr"]
        funasr.import_submodules("funasr")
        return funasr


def _import_package_alone() -> None:
    logging.getLogger().addFilter(_tells_no_speech)
    walk = pkgutil.walk_packages
    pkgutil.walk_packages = lambda *_args, **_kwargs: iter(())
    try:
        importlib.import_module("funasr")
    finally:
        pkgutil.walk_packages = walk


def _tells_no_speech(record: logging.LogRecord) -> bool:
    """FunASR logs hot words and texts by the root logger, which then passes on its errors only."""
    return record.levelno >= logging.ERROR or "/funasr/" not in record.pathname.replace("\\", "/")


@contextmanager
def _quiet() -> Iterator[None]:
    """FunASR's own imports warn of what they use that is deprecated; none of it is ours to change."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield
