"""Options that several commands share, and how they become settings."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer

from streamscribe.bench.kinds import ClusterPart, Engine, Part, Size
from streamscribe.cli.output import Exit, fail
from streamscribe.core.options import Latency, Mode

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


def numbers(text: str) -> list[int]:
    """Several numbers of sessions: those of `1,4,16`. Raises ValueError."""
    told = text.split(",")
    counts = [int(number) for number in told if number.isdecimal() and 0 < int(number) <= 1024]
    if len(counts) < len(told) or any(max(counts) % count for count in counts):
        raise ValueError("write numbers from 1 to 1024, as in 1,4,16, each dividing the largest")
    return counts


ConfigOption = Annotated[Path | None, typer.Option("--config", help="Settings file (default: ./streamscribe.yaml).")]
SetOption = Annotated[list[str] | None, typer.Option("--set", help="One setting, as section.field=value; repeatable.")]
ProfileOption = Annotated[
    str | None, typer.Option("--profile", help="Models: whisper, tiny, zh, or fake (load tests).")
]
ModelOption = Annotated[
    str | None,
    typer.Option(
        "--model",
        help="What recognises segments in the profiles tiny and zh: paraformer, sensevoice, nano, funasr, or auto, "
        "which takes one for short segments and another for long ones.",
    ),
]
HostOption = Annotated[str | None, typer.Option(help="Address to listen on (default 127.0.0.1).")]
PortOption = Annotated[int | None, typer.Option(help="Port of HTTP and WebSocket (default 8000; 0 takes a free one).")]
FunasrPortOption = Annotated[
    int | None, typer.Option(help="Port of FunASR's WebSocket (default 10095; 0 a free one, -1 none).")
]
TenantsOption = Annotated[Path | None, typer.Option(help="Tenants file; see `streamscribe keys new`.")]
NoAuthOption = Annotated[bool, typer.Option("--no-auth", help="Serve without keys on any address.")]
LogFormatOption = Annotated[str | None, typer.Option(help="json or console.")]
HealthPortOption = Annotated[
    int | None, typer.Option(help="Port of /readyz, /healthz and /metrics (default 8010; 0 takes a free one).")
]
FinalizerPortOption = Annotated[
    int | None, typer.Option("--health-port", help="As a worker's (default 8020; 0 takes a free one).")
]
ListeningJsonOption = Annotated[
    bool, typer.Option("--json", help="Say where it listens as one line of JSON, once it is ready.")
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

CheckOption = Annotated[bool, typer.Option("--check", help="Exit with 1 where a bar does not hold.")]
ManifestOption = Annotated[
    Path | None, typer.Option(help="Lines of JSON: audio (path, relative to the file), text, language.")
]
OthersOption = Annotated[
    Path | None,
    typer.Option(help="Clips without the names: lines of JSON, audio (path) and text; else those of the package."),
]
PromptsOption = Annotated[int, typer.Option(min=1, max=1000, help="So many prompts.")]
UrlOption = Annotated[
    str | None, typer.Option(help="A running server; else one is started. Without keys, or with STREAMSCRIBE_KEY.")
]
TwoPassProfileOption = Annotated[str, typer.Option("--profile", help="Which models: tiny or zh.")]
SwapProfileOption = Annotated[str, typer.Option("--profile", help="Which models are replaced: tiny, whisper or zh.")]
SwapsOption = Annotated[int, typer.Option(min=1, max=1000, help="How often, one after the other.")]
SessionsOption = Annotated[int, typer.Option(min=1, max=5000, help="Live sessions at once, in real time.")]
SecondsOption = Annotated[float, typer.Option(min=1, max=3600, help="How long to measure.")]
HarmSecondsOption = Annotated[
    float, typer.Option(min=10, max=3600, help="How long to measure; one kill and what follows take 10 s.")
]
ModeOption = Annotated[Mode, typer.Option(help="Which passes run.")]
LatencyOption = Annotated[Latency, typer.Option(help="How long the chunks of the first pass are.")]
MinutesOption = Annotated[int, typer.Option(min=2, max=230, help="Minutes of audio, heard as fast as possible.")]
SilentMinutesOption = Annotated[float, typer.Option(min=1, max=230, help="Minutes of silence before the speech.")]
ChunkEngineOption = Annotated[
    Engine, typer.Option(help="What runs the streaming model; `torch` needs the extra `funasr`.")
]
SizeOption = Annotated[
    Size, typer.Option("--model", help="`real`: 220 M random weights, in 8 bits for `onnx`; needs the extra `funasr`.")
]
BatchesOption = Annotated[
    str, typer.Option(callback=checked(numbers), help="Sessions in a step; each must divide the largest.")
]
TogetherOption = Annotated[int, typer.Option(min=1, max=256, help="Sessions at once.")]
SpeechOption = Annotated[float, typer.Option(min=1, max=25, help="Seconds of speech that each session hears.")]
StepThreadsOption = Annotated[
    int, typer.Option("--threads", min=0, max=256, help="Of a step; 0: all cores, or one for `tiny`.")
]
RoundsOption = Annotated[int, typer.Option(min=1, max=1000, help="Turns of each; medians are told.")]
OracleOption = Annotated[
    bool, typer.Option("--oracle", help="Time FunASR's own calls too; needs `--model real` and the extra `funasr`.")
]
FolderOption = Annotated[
    Path | None, typer.Option(help="Where the model of real size is kept, or written at first; else it is not kept.")
]
WorkloadOption = Annotated[
    str,
    typer.Option(help="`synthetic`, or lines of JSON: audio (path), text, language; a request each, in their order."),
]
SmallOption = Annotated[bool, typer.Option("--small", help="136 synthetic requests for 83 clips, not 1,088 for 666.")]
LevelsOption = Annotated[
    bool, typer.Option("--levels", help="Instead: what each level adds to those below, 5 at a time.")
]
ClusterPartsOption = Annotated[list[ClusterPart] | None, typer.Option("--part", help="Measure only this; repeatable.")]
RolledOption = Annotated[
    int, typer.Option(min=1, max=5000, help="Live sessions at once while all workers are replaced.")
]
PartsOption = Annotated[list[Part] | None, typer.Option("--part", help="Measure only this; repeatable.")]


PROFILES_OF_SEGMENT_MODELS = ("tiny", "zh")
"""Those in which what recognises segments can be chosen."""


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
    settings = load(config, overrides)
    if "model.second_pass" in overrides and settings.model.profile not in PROFILES_OF_SEGMENT_MODELS:
        others = " or ".join(f"--profile {name}" for name in PROFILES_OF_SEGMENT_MODELS)
        raise SettingsError(
            f"setting model.second_pass: {settings.model.profile} has one model for segments, and no "
            f"{settings.model.second_pass}; add {others}"
        )
    return settings


def require_models(settings: "Settings", *others: str, wanted: Callable[[str], bool] = lambda model_id: True) -> None:
    """Ends with exit code 3 and the one command to type where the profile's models, or `others`, are not installed.

    Of the profile's only those that are `wanted` are looked for.
    """
    from streamscribe.models.registry import find, installed, of_profile

    directory = settings.model.dir.expanduser()
    whole_profile = of_profile(settings.model.profile)
    of_this_profile = [model for model in whole_profile if wanted(model.id)]
    missing = [model.id for model in (*of_this_profile, *map(find, others)) if not installed(model, directory)]
    if not missing:
        return
    if len(of_this_profile) < len(whole_profile):
        names = missing
    else:
        names = [f"--profile {settings.model.profile}"] if any(one.id in missing for one in of_this_profile) else []
        names += [id_ for id_ in others if id_ in missing]
    fail(f"not installed: {', '.join(missing)}; type: streamscribe models pull {' '.join(names)}", Exit.NOT_INSTALLED)
