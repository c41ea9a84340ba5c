"""Writes what docs/protocol.md takes from the code: the diagram of a session's stages and the table of errors.

python tools/render_protocol.py          writes
python tools/render_protocol.py --check  exits 1 if the document is not up to date
"""

import inspect
import sys
from collections.abc import Iterator
from pathlib import Path

from streamscribe.core.errors import StreamScribeError
from streamscribe.core.session_table import TABLE, Stage

DOCUMENT = Path(__file__).parents[1] / "docs/protocol.md"


def diagram() -> str:
    """The transition table as a mermaid state diagram; steps between the same two stages share an arrow."""
    lines = ["```mermaid", "stateDiagram-v2", f"    [*] --> {Stage.CREATED}"]
    for stage, row in TABLE.items():
        for target in dict.fromkeys(row.values()):
            labels = ", ".join(step for step, to in row.items() if to is target)
            lines.append(f"    {stage} --> {target}: {labels}")
    return "\n".join([*lines, f"    {Stage.CLOSED} --> [*]", "```"])


def errors() -> str:
    """Every error a client can get, by close code."""
    rows = ["| close code | `name` | `code` | `retry` | when |", "|---|---|---|---|---|"]
    tree = {error.code: error for error in _tree(StreamScribeError) if error.code != StreamScribeError.code}
    tree[StreamScribeError.code] = StreamScribeError.__subclasses__()[0]
    for error in sorted(tree.values(), key=lambda error: (error.close_code, error.code)):
        when = (inspect.getdoc(error) or "").split("\n\n")[0].replace("\n", " ")
        rows.append(f"| {error.close_code} | `{error.code}` | {error.http_status} | {error.retry} | {when} |")
    return "\n".join(rows)


def _tree(root: type[StreamScribeError]) -> Iterator[type[StreamScribeError]]:
    for error in root.__subclasses__():
        if error.__module__ == StreamScribeError.__module__:  # others are special cases of these, and may be imported
            yield error
            yield from _tree(error)


PARTS = {"stages": diagram, "errors": errors}


def render(text: str) -> str:
    """The document with each `<!-- generated: name -->` ... `<!-- end -->` region filled anew."""
    parts = text.split("<!-- generated: ")
    done = [parts[0]]
    for part in parts[1:]:
        name, rest = part.split(" -->", 1)
        _, after = rest.split("<!-- end -->", 1)
        done.append(f"{name} -->\n{PARTS[name]()}\n<!-- end -->{after}")
    return "<!-- generated: ".join(done)


def main() -> int:
    """Renders the document."""
    text = DOCUMENT.read_text()
    fresh = render(text)
    if "--check" not in sys.argv:
        DOCUMENT.write_text(fresh)
    elif fresh != text:
        print("docs/protocol.md is stale: run python tools/render_protocol.py")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
