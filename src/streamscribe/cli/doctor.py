"""`streamscribe doctor`: what is here, what is missing, and what to type."""

import importlib.metadata
import importlib.util
import platform
import shutil
import socket
import sys
from collections.abc import Iterator
from dataclasses import asdict, dataclass

import typer

from streamscribe.cli.options import ConfigOption, JsonOption, SetOption, settings_from
from streamscribe.cli.output import Exit, out, print_json
from streamscribe.settings import Settings

MIN_FREE_BYTES = 2**30


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing looked at; `needed` ones that are missing fail the command."""

    name: str
    ok: bool
    detail: str
    type_this: str = ""
    needed: bool = True


def mount(app: typer.Typer) -> None:
    """Adds the command."""
    app.command()(doctor)


def doctor(config: ConfigOption = None, set_: SetOption = None, json: JsonOption = False) -> None:
    """Say what is installed, what is missing, and what to type; exits 1 where something needed is missing.

    Example: `streamscribe doctor --json`
    """
    findings = list(_examine(settings_from(config, set_)))
    healthy = all(finding.ok for finding in findings if finding.needed)
    if json:
        print_json({"healthy": healthy, "findings": [asdict(finding) for finding in findings]})
    else:
        for finding in findings:
            mark = "[green]✓[/]" if finding.ok else "[red]✗[/]" if finding.needed else "[yellow]-[/]"
            out.print(f"{mark} {finding.name}: {finding.detail}")
            if finding.type_this and not finding.ok:
                out.print(f"    type: {finding.type_this}", style="bold")
    raise typer.Exit(Exit.OK if healthy else Exit.FAILED)


def _examine(settings: Settings) -> Iterator[Finding]:
    yield Finding("Python", sys.version_info >= (3, 11), platform.python_version(), "make PYTHON=python3.11 setup")
    for package in ("onnxruntime", "ctranslate2", "soundfile", "soxr", "wetext"):
        yield _package(package, f"pip install {package}", needed=True)
    yield _package("av", "pip install 'streamscribe[media]'", needed=False)
    yield from _models(settings)
    directory = settings.model.dir.expanduser()
    parent = next(folder for folder in (directory, *directory.parents) if folder.exists())
    free_bytes = shutil.disk_usage(parent).free
    yield Finding("disk", free_bytes >= MIN_FREE_BYTES, f"{free_bytes / 2**30:.1f} GiB free for models", "df -h")
    for port in (settings.gateway.port, settings.gateway.funasr_port):
        yield _port(settings.gateway.host, port)


def _package(name: str, type_this: str, *, needed: bool) -> Finding:
    found = importlib.util.find_spec(name) is not None
    detail = importlib.metadata.version(name) if found else "not installed"
    return Finding(name, found, detail, type_this, needed)


def _models(settings: Settings) -> Iterator[Finding]:
    from streamscribe.models.registry import catalogue, installed

    wanted = {"whisper": ("fsmn-vad", "whisper-base"), "fake": ()}[settings.model.profile]
    for model in catalogue().values():
        if model.id in wanted:
            here = installed(model, settings.model.dir.expanduser())
            detail = "installed" if here else "not installed"
            yield Finding(f"model {model.id}", here, detail, f"streamscribe models pull {model.id}")


def _port(host: str, port: int) -> Finding:
    if port <= 0:
        return Finding(f"port {port}", True, "chosen by the system or off", needed=False)
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError as error:
            return Finding(
                f"port {port}", False, error.strerror or "not free", "streamscribe serve --port 0", needed=False
            )
    return Finding(f"port {port}", True, "free", needed=False)
