"""The rules of the house that no linter knows."""

import ast
import re
import subprocess
import sys
from pathlib import Path

from streamscribe.observe.logs import ATTRIBUTES

ROOT = Path(__file__).parents[2]
SOURCES = sorted(p for folder in ("src", "tests", "tools") for p in (ROOT / folder).rglob("*.py"))
SCRIPTS = sorted((ROOT / "src/streamscribe/web").rglob("*.js"))

BANNED = {
    "unpickling": r"\bimport (pickle|marshal|shelve)\b|allow_pickle=True|weights_only=False|yaml\.load\("
    r"|torch\.load\((?!.*\bweights_only=True\))",
    "a shell": r"shell=True|os\.system\(",
    "remote code": r"trust_remote_code(?!=False\b)",
}


def test_no_file_is_longer_than_400_lines() -> None:
    long = {str(p.relative_to(ROOT)): n for p in SOURCES + SCRIPTS if (n := len(p.read_text().splitlines())) > 400}
    assert not long


def test_every_folder_says_in_one_sentence_what_it_is_for() -> None:
    silent = [p for p in (ROOT / "src/streamscribe").rglob("__init__.py") if not p.read_text().startswith('"""')]
    assert not silent


def test_nothing_dangerous_is_used() -> None:
    found = [
        f"{path.relative_to(ROOT)}: {what}"
        for path in SOURCES
        if "src" in path.parts
        for what, pattern in BANNED.items()
        if re.search(pattern, path.read_text())
    ]
    assert not found


def test_the_tables_of_settings_are_up_to_date() -> None:
    done = subprocess.run(
        [sys.executable, ROOT / "tools/render_settings.py", "--check"], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout


def test_every_queue_says_what_bounds_it() -> None:
    """`deque` and `Queue` without a size are bounded by their owner, who says so nearby: bound, most or limit."""
    silent = []
    for path in SOURCES:
        lines = path.read_text().splitlines()
        for number, line in enumerate(lines):
            if "src" in path.parts and re.search(r"\b(deque|Queue)\(\)|default_factory=(deque|asyncio\.Queue)", line):
                near = " ".join(lines[max(0, number - 15) : number + 15])
                if not re.search(r"bound|at most|limit|max_", near, re.IGNORECASE):
                    silent.append(f"{path.relative_to(ROOT)}:{number + 1}")
    assert not silent


def test_every_attribute_that_is_logged_is_on_the_list_of_what_a_line_may_have() -> None:
    """One that is not is dropped without a word. `level` is the line's own."""
    dropped = []
    for path in SOURCES:
        calls = (
            [n for n in ast.walk(ast.parse(path.read_text())) if isinstance(n, ast.Call)] if "src" in path.parts else []
        )
        for call in calls:
            match call.func:
                case ast.Attribute(
                    value=ast.Name(id="_log" | "log"),
                    attr="debug" | "info" | "warning" | "error" | "exception" | "bind",
                ):
                    names = {keyword.arg for keyword in call.keywords} - {None, "exc_info"}
                    dropped += [f"{path.relative_to(ROOT)}:{call.lineno} {name}" for name in names - ATTRIBUTES]
    assert not dropped
