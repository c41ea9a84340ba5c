"""Options that several commands share, and how they become settings."""

from pathlib import Path
from typing import Annotated, Any

import typer

from streamscribe.settings import Settings, SettingsError, load

ConfigOption = Annotated[Path | None, typer.Option("--config", help="Settings file (default: ./streamscribe.yaml).")]
SetOption = Annotated[list[str] | None, typer.Option("--set", help="One setting, as section.field=value; repeatable.")]
ProfileOption = Annotated[str | None, typer.Option("--profile", help="Which models: whisper, or fake (load tests).")]
JsonOption = Annotated[bool, typer.Option("--json", help="One JSON value for machines.")]
LanguageOption = Annotated[
    str | None, typer.Option("--language", "-l", help="Spoken language, as zh or en; else recognised.")
]
HotwordOption = Annotated[list[str] | None, typer.Option("--hotword", "-w", help="A phrase to listen for; repeatable.")]


def settings_from(config: Path | None, assignments: list[str] | None, **flags: Any) -> Settings:
    """The settings tree of a command; `flags` are dotted paths with `__` for the dot."""
    overrides: dict[str, Any] = {}
    for assignment in assignments or []:
        path, equals, value = assignment.partition("=")
        if not equals or "." not in path:
            raise SettingsError(f"--set {assignment}: write section.field=value")
        overrides[path] = value
    overrides.update({name.replace("__", "."): value for name, value in flags.items() if value is not None})
    return load(config, overrides)
