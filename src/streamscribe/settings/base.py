"""What the sections of the settings are made of."""

from typing import Any

from pydantic import BaseModel, ConfigDict, Field


class SettingsError(ValueError):
    """A setting that is not valid; the message is one line that names the field and its bound."""


class Section(BaseModel):
    """A part of the tree: frozen, and strict about names."""

    model_config = ConfigDict(frozen=True, extra="forbid")


def bounded(default: float, low: float, high: float, doc: str) -> Any:
    """A number within its limits, which errors name."""
    return Field(default=default, ge=low, le=high, description=doc)
