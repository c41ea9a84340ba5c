"""The one form of every measurement."""

import json
import tomllib
from importlib.resources import files

import pytest
import typer
from typer.testing import CliRunner

import streamscribe.bench
from streamscribe.bench.report import OPERATORS, report
from streamscribe.cli import bench, measured

BARS = tomllib.loads(files(streamscribe.bench).joinpath("bars.toml").read_text())
GOOD = {
    "added_latency_p99_ms": 9.0,
    "cores": 0.4,
    "memory_per_connection_kib": 20.0,
    "health_p99_ms": 5.0,
    "whole_server_health_p99_ms": 5.0,
    "lost_sessions": 0.0,
    "whole_server_lost_sessions": 0.0,
    "chunks": 100.0,
}


@pytest.fixture
def shows(capsys):
    """What a command prints of figures, and its exit code."""

    def show(figures, **flags):
        made = report("gateway", {"sessions": 1}, figures)
        code = 0
        try:
            measured.tell("measuring", lambda: made, **{"as_json": False, "check": False, **flags})
        except typer.Exit as left:
            code = left.exit_code
        return code, capsys.readouterr().out

    return show


def test_every_bar_is_an_operator_and_a_number():
    service = {"accuracy", "endurance", "gateway", "hotwords", "passes", "silence", "streams"}
    assert BARS.keys() >= service | {"stack", "step", "text"}
    for rule in (rule for bars in BARS.values() for rule in rules_of(bars)):
        assert rule.keys() == {"op", "bar"}
        assert rule["op"] in OPERATORS
        assert isinstance(rule["bar"], int | float)


def rules_of(bars):
    """Those of a bench, and of its parts."""
    for one in bars.values():
        yield from [one] if "op" in one else one.values()


def test_bars_of_a_part_are_held_where_it_ran():
    figures = {"local_added_p99_ms": 1.0}
    assert report("bus", {}, figures, ["memory", "local"]).holds
    assert not report("bus", {}, figures, ["memory", "local", "kafka"]).holds


def test_a_bar_whose_figure_is_absent_does_not_hold_and_is_shown(shows):
    code, printed = shows({name: value for name, value in GOOD.items() if name != "cores"}, check=True)
    assert code == 1
    (row,) = [line for line in printed.splitlines() if "cores" in line and line.startswith("│")]
    assert "absent" in row
    assert "<= 0.5 ✗" in row


def test_the_bars_are_those_of_the_issue():
    assert BARS["gateway"]["added_latency_p99_ms"] == {"op": "<=", "bar": 10}
    assert BARS["gateway"]["cores"] == {"op": "<=", "bar": 0.5}
    assert BARS["gateway"]["memory_per_connection_kib"] == {"op": "<=", "bar": 40}
    assert (
        BARS["accuracy"]["words"]["wer_websocket"] == BARS["accuracy"]["words"]["wer_rest"] == {"op": "<=", "bar": 0.06}
    )
    assert BARS["accuracy"]["bare_engine"]["wer_above_bare_engine"] == {"op": "<=", "bar": 0.005}
    assert (
        BARS["accuracy"]["characters"]["cer_websocket"]
        == BARS["accuracy"]["characters"]["cer_rest"]
        == {"op": "<=", "bar": 0.2}
    )
    assert BARS["silence"]["cost_last_over_first"] == {"op": "<=", "bar": 1.1}
    assert BARS["streams"]["sessions"] == {"op": ">=", "bar": 150}
    assert BARS["streams"]["partial_lag_p95_ms"] == {"op": "<=", "bar": 300}
    assert BARS["streams"]["final_after_silence_p99_ms"] == {"op": "<=", "bar": 350}
    assert BARS["streams"]["refusal_p99_ms"] == {"op": "<=", "bar": 50}
    assert BARS["step"]["real_torch"]["real_torch_gain_16"] == {"op": ">=", "bar": 4}
    assert BARS["step"]["real_onnx_oracle"]["real_onnx_over_generate_16"] == {"op": ">=", "bar": 8}
    assert BARS["stack"]["real"]["real_stack_over_loop"] == {"op": ">=", "bar": 0.9}
    assert set(map(str, BARS["endurance"].values())) == {str({"op": "<=", "bar": 1.05})}
    assert set(map(str, BARS["passes"].values())) == {str({"op": "<=", "bar": 0})}
    assert BARS["hotwords"] == {
        "recall_gain_points": {"op": ">=", "bar": 30},
        "new_errors": {"op": "<=", "bar": 0},
    }
    assert BARS["text"]["itn_zh_lines"] == {"op": ">=", "bar": 300}
    assert BARS["text"]["itn_en_lines"] == {"op": ">=", "bar": 100}


def test_a_report_has_the_stated_fields_and_holds_its_figures_against_their_bars():
    told = report("gateway", {"sessions": 1}, GOOD | {"cores": 0.6}).as_dict()
    assert told.keys() == {"bench", "machine", "settings", "figures", "bars"}
    assert {bar["figure"]: bar["holds"] for bar in told["bars"]} == {name: name != "cores" for name in BARS["gateway"]}
    assert all(bar.keys() == {"figure", "op", "bar", "holds"} for bar in told["bars"])


def test_a_figure_that_is_no_number_holds_no_bar():
    assert not report("gateway", {}, GOOD | {"cores": float("nan")}).holds


def test_json_is_one_object(shows):
    code, printed = shows(GOOD, as_json=True)
    assert code == 0
    assert json.loads(printed)["figures"] == GOOD


def test_check_exits_1_where_a_bar_does_not_hold(shows):
    assert shows(GOOD, check=True)[0] == 0
    assert shows(GOOD | {"cores": 0.6}, check=True)[0] == 1
    assert shows(GOOD | {"cores": 0.6}, check=False)[0] == 0


def test_the_table_shows_each_figure_with_its_bar(shows):
    _, printed = shows(GOOD | {"cores": 0.6})
    rows = {line.split("│")[1].strip(): line for line in printed.splitlines() if line.startswith("│")}
    assert rows.keys() == {*GOOD}
    assert "<= 0.5 ✗" in rows["cores"]
    assert "<= 10 ✓" in rows["added_latency_p99_ms"]


def test_a_manifest_that_cannot_be_used_is_told_in_one_line(tmp_path):
    from streamscribe.bench.corpus import read_manifest
    from streamscribe.core.errors import BadRequest

    manifest = tmp_path / "lines.jsonl"
    for text, reason in (
        ("", "no utterances"),
        ("{", "line 1"),
        ('{"audio": "x.wav", "text": "x"}', "x.wav: no such file"),
        ('{"audio": "x.wav"}', "missing required field `text`"),
    ):
        manifest.write_text(text)
        with pytest.raises(BadRequest, match=reason):
            read_manifest(manifest)
    with pytest.raises(BadRequest, match="No such file"):
        read_manifest(tmp_path / "absent.jsonl")


def test_an_address_that_is_none_is_a_mistake_of_usage():
    done = CliRunner().invoke(bench.app, ["accuracy", "--url", "ftp://x", "--manifest", "absent.jsonl"])
    assert done.exit_code in (2, 3)
