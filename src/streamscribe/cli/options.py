"""Options that several commands share, and how they become settings."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer

from streamscribe.cli.output import Exit, fail

if TYPE_CHECKING:
    from streamscribe.settings import Settings

T = TypeVar("T")


def checked(reader: Callable[[T], Any]) -> Callable[[T], T]:
    """A callback for an option whose value `reader` must take; what it raises is a mistake of usage."""

    def check(value: T) -> T:
        from streamscribe.core.errors import BadRequest

        try:
            reader(value)
        except (BadRequest, ValueError) as error:
            raise typer.BadParameter(str(error)) from None
        return value

    return check


def _language(value: str | None) -> None:
    from streamscribe.wire.fields import parse_language

    parse_language(value, field="it")


def _hotwords(value: list[str] | None) -> None:
    from streamscribe.core.hotwords import parse_hotwords

    parse_hotwords(value)


ConfigOption = Annotated[Path | None, typer.Option("--config", help="Settings file (default: ./streamscribe.yaml).")]
SetOption = Annotated[list[str] | None, typer.Option("--set", help="One setting, as section.field=value; repeatable.")]
ProfileOption = Annotated[
    str | None, typer.Option("--profile", help="Models: whisper, tiny, zh, or fake (load tests).")
]
JsonOption = Annotated[bool, typer.Option("--json", help="One JSON value for machines.")]
LanguageOption = Annotated[
    str | None,
    typer.Option(
        "--language", "-l", callback=checked(_language), help="Spoken language, as zh or en; else recognised."
    ),
]
HotwordOption = Annotated[
    list[str] | None,
    typer.Option("--hotword", "-w", callback=checked(_hotwords), help="A phrase to listen for; repeatable."),
]


def settings_from(config: Path | None, assignments: list[str] | None, **flags: Any) -> "Settings":
    """The settings tree of a command; `flags` are dotted paths with `__` for the dot. Raises SettingsError."""
    from streamscribe.settings import SettingsError, load

    overrides: dict[str, Any] = {}
    for assignment in assignments or []:
        path, equals, value = assignment.partition("=")
        if not equals or "." not in path:
            raise SettingsError(f"--set {assignment}: write section.field=value, as in gateway.port=8001")
        overrides[path] = value
    overrides.update({name.replace("__", "."): value for name, value in flags.items() if value is not None})
    return load(config, overrides)


def require_models(settings: "Settings", *others: str) -> None:
    """Ends with exit code 3 and the one command to type where the profile's models, or `others`, are not installed."""
    from streamscribe.models.registry import find, installed, of_profile

    directory = settings.model.dir.expanduser()
    of_this_profile = of_profile(settings.model.profile)
    missing = [model.id for model in (*of_this_profile, *map(find, others)) if not installed(model, directory)]
    if not missing:
        return
    names = [f"--profile {settings.model.profile}"] if any(model.id in missing for model in of_this_profile) else []
    names += [id_ for id_ in others if id_ in missing]
    fail(f"not installed: {', '.join(missing)}; type: streamscribe models pull {' '.join(names)}", Exit.NOT_INSTALLED)
