"""The command as a user runs it: a process of its own, whose output is no terminal."""

import os
import subprocess
import sys
import wave
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest


@dataclass(frozen=True)
class Done:
    code: int
    out: str
    err: str


Run = Callable[..., Done]


@pytest.fixture
def run(tmp_path: Path) -> Run:
    """Runs the command in an empty folder; fails where a traceback is shown."""

    def invoke(*arguments: str | Path, stdin: bytes = b"", **environment: str) -> Done:
        done = subprocess.run(
            [sys.executable, "-m", "streamscribe.cli", *map(str, arguments)],
            cwd=tmp_path,
            input=stdin,
            capture_output=True,
            env={**os.environ, "COLUMNS": "200", **environment},
        )
        result = Done(done.returncode, done.stdout.decode(), done.stderr.decode())
        assert "Traceback" not in result.err, result.err
        return result

    return invoke


@pytest.fixture
def recording(tmp_path: Path) -> Callable[[str], Path]:
    """Makes WAV files of a second of loud noise: voice to the fake detector."""

    def make(name: str) -> Path:
        file = tmp_path / name
        file.parent.mkdir(parents=True, exist_ok=True)
        with wave.open(str(file), "wb") as out:
            out.setparams((1, 2, 16_000, 0, "NONE", ""))
            out.writeframes(
                b"".join((12_000 * (-1) ** (i // 20)).to_bytes(2, "little", signed=True) for i in range(16_000))
            )
        return file

    return make
