"""Importing FunASR without importing all of it, and without its warnings."""

import importlib
import pkgutil
import sys
import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType
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


def _import_package_alone() -> ModuleType:
    walk = pkgutil.walk_packages
    pkgutil.walk_packages = lambda *_args, **_kwargs: iter(())
    try:
        return importlib.import_module("funasr")
    finally:
        pkgutil.walk_packages = walk


@contextmanager
def _quiet() -> Iterator[None]:
    """FunASR's own imports warn of what they use that is deprecated; none of it is ours to change."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield
