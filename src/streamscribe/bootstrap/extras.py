"""Extras of the package that a process needs: whether they are installed, and the one way in which it is told."""

from importlib.util import find_spec

from streamscribe.core.extras import install_extra
from streamscribe.settings import SettingsError

PACKAGES = {"kafka": ("confluent_kafka",), "redis": ("redis",), "funasr": ("torch", "funasr")}
"""What each brings that is looked for."""


def need_extras(who: str, *extras: str) -> None:
    """Raises SettingsError that says what to type for all of them that are not installed; `who` needs them."""
    if missing := [extra for extra in extras if any(find_spec(name) is None for name in PACKAGES[extra])]:
        raise SettingsError(f"{who} needs more packages; {install_extra(*missing)}")
