"""Every command of the READMEs, run as a reader would, in order."""

import os
import re
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
BLOCK = re.compile(r"^```(bash|python)\n(.*?)^```", re.MULTILINE | re.DOTALL)
RECIPE = re.compile(r'`((?:cp "|python -c ")[^`]+)`')
"""How the reader comes to a `recording.wav`, and to one that the simplest client can read."""
SERVE = "make serve"

pytestmark = [pytest.mark.models, pytest.mark.timeout(600)]


def blocks(readme: str) -> list[tuple[str, str]]:
    return [(kind, code.strip()) for kind, code in BLOCK.findall((ROOT / readme).read_text())]


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A folder that looks like a checkout, with the recording in it that the text tells how to make."""
    for entry in {*ROOT.glob("*"), ROOT / ".venv"}:
        if entry.exists() and entry.name not in ("recording.wav", "tenants.yaml"):
            (tmp_path / entry.name).symlink_to(entry)
    recipes = RECIPE.findall((ROOT / "README.md").read_text())
    assert len(recipes) == 2
    for recipe in recipes:
        subprocess.run(["bash", "-euc", recipe], cwd=tmp_path, env=environment(), check=True)
    return tmp_path


def environment() -> dict[str, str]:
    return {**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}", "VENV": str(Path(sys.prefix))}


@pytest.fixture
def background() -> Iterator[list[subprocess.Popen[bytes]]]:
    servers: list[subprocess.Popen[bytes]] = []
    yield servers
    for server in servers:
        os.killpg(server.pid, signal.SIGTERM)
        server.wait(60)


def _until_ready(server: subprocess.Popen[bytes]) -> None:
    while server.poll() is None:
        try:
            with urllib.request.urlopen("http://localhost:8000/readyz") as answer:
                if answer.status == 200:
                    return
        except OSError:
            time.sleep(0.1)
    raise AssertionError(f"make serve ended with {server.returncode}")


def test_both_languages_have_the_same_commands() -> None:
    assert blocks("README.md") == blocks("README.zh-CN.md")


def test_both_languages_link_to_the_same_pages_and_name_the_same_things() -> None:
    for what in (r"\]\((?!README)([^)]+)\)", r"(?<!`)`([^`\n]+)`(?!`)", r"^```sh\n(.*?)^```", r"^(#+) "):
        told = [
            sorted(re.findall(what, (ROOT / readme).read_text(), re.MULTILINE | re.DOTALL))
            for readme in ("README.md", "README.zh-CN.md")
        ]
        assert told[0] == told[1]


@pytest.mark.usefixtures("recordings")
def test_every_command_works_as_written(checkout: Path, background: list[subprocess.Popen[bytes]]) -> None:
    for kind, code in blocks("README.md"):
        if code == SERVE:
            background.append(
                subprocess.Popen(["make", "serve"], cwd=checkout, env=environment(), start_new_session=True)
            )
            _until_ready(background[-1])
            continue
        command = ["bash", "-euo", "pipefail", "-c", code] if kind == "bash" else [sys.executable, "-c", code]
        done = subprocess.run(command, cwd=checkout, env=environment(), capture_output=True, text=True, timeout=240)
        assert done.returncode == 0, f"{code}\n{done.stdout}\n{done.stderr}"
        if kind == "python" or "recording.wav" in code:
            assert "fox" in done.stdout.lower(), f"{code}\n{done.stdout}\n{done.stderr}"
