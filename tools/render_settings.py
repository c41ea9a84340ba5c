"""Writes the tables of settings into SECURITY.md and docs/settings.md, between their markers.

python tools/render_settings.py          writes
python tools/render_settings.py --check  exits 1 if a table is not up to date
"""

import sys
from pathlib import Path
from typing import Any

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from streamscribe.settings import Settings

ROOT = Path(__file__).parents[1]


def _number(value: float) -> str:
    for unit, size in (("GiB", 2**30), ("MiB", 2**20), ("KiB", 2**10)):
        if value >= size and value % size == 0:
            return f"{value // size:g} {unit}"
    return f"{value:,g}" if value < 10**6 else f"{value:,.0f}"


def _shown(name: str, value: object) -> str:
    if isinstance(value, bool) or value is None:
        return str(value).lower()
    if isinstance(value, int | float):
        return _number(value) if name.endswith(("_bytes", "_cache_size")) else f"{value:,}"
    return f"`{value}`"


def _bounds(name: str, field: FieldInfo) -> str:
    low = next((m.ge for m in field.metadata if hasattr(m, "ge")), None)
    high = next((m.le for m in field.metadata if hasattr(m, "le")), None)
    if low is not None and high is not None:
        return f"{_shown(name, low)} to {_shown(name, high)}"
    values: tuple[Any, ...] = getattr(field.annotation, "__args__", ())
    return ", ".join(f"`{v}`" for v in values if isinstance(v, str))


def table(section: str, model: type[BaseModel]) -> str:
    """A Markdown table of one section's fields."""
    rows = [f"| `{section}.*` | default | bound | what |", "|---|---|---|---|"]
    for name, field in model.model_fields.items():
        rows.append(f"| `{name}` | {_shown(name, field.default)} | {_bounds(name, field)} | {field.description} |")
    return "\n".join(rows)


def render(text: str) -> str:
    """The document with each `<!-- settings: a b -->` ... `<!-- end -->` region filled anew."""
    parts = text.split("<!-- settings: ")
    done = [parts[0]]
    for part in parts[1:]:
        names, rest = part.split(" -->", 1)
        _, after = rest.split("<!-- end -->", 1)
        models = {name: Settings.model_fields[name].annotation for name in names.split()}
        body = "\n\n".join(table(name, model) for name, model in models.items() if model is not None)
        done.append(f"{names} -->\n{body}\n<!-- end -->{after}")
    return "<!-- settings: ".join(done)


def main() -> int:
    """Renders both documents."""
    stale = False
    for path in (ROOT / "SECURITY.md", ROOT / "docs/settings.md"):
        text = path.read_text()
        fresh = render(text)
        stale |= fresh != text
        if "--check" not in sys.argv and fresh != text:
            new = path.with_suffix(".new")
            new.write_text(fresh)
            new.replace(path)
    if stale and "--check" in sys.argv:
        print("settings tables are stale: run python tools/render_settings.py")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
