"""docs/protocol.md says what the code does."""

import re
from pathlib import Path

from tools.render_protocol import DOCUMENT, diagram, errors, render

from streamscribe.core.errors import SequenceGap


def test_the_generated_parts_are_up_to_date() -> None:
    text = DOCUMENT.read_text()
    assert render(text) == text, "run python tools/render_protocol.py"


def test_rendering_keeps_what_people_wrote() -> None:
    assert render("a\n<!-- generated: stages -->\nold\n<!-- end -->\nb").startswith(
        "a\n<!-- generated: stages -->\n```mermaid"
    )
    assert render("a <!-- generated: errors -->old<!-- end --> b").endswith("<!-- end --> b")


def test_every_stage_and_error_is_shown() -> None:
    assert "streaming --> detached: connection lost" in diagram()
    assert f"| {SequenceGap.close_code} | `sequence_gap` | 400 | resume |" in errors()
    assert errors().count("`internal`") == 1


def test_every_message_type_of_the_wire_is_named() -> None:
    text = DOCUMENT.read_text()
    wire = (Path(DOCUMENT.parents[1]) / "src/streamscribe/wire").glob("native_*.py")
    tags = [part.split('"')[0] for path in wire for part in path.read_text().split('tag="')[1:]]
    assert len(tags) > 10
    assert [tag for tag in tags if f"`{tag}`" not in text] == []


def test_every_example_sends_files_as_files_and_lets_its_pings_wait_behind_the_audio() -> None:
    calls = re.findall(r"\bconnect\((.*)\) as ", DOCUMENT.read_text())
    assert calls
    assert [call for call in calls if "mode=offline" not in call or "ping_timeout=None" not in call] == []
