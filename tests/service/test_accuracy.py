"""The service hears what is said: on telephone prompts, and on Chinese recordings where they are at hand."""

import json
from pathlib import Path

import pytest

from streamscribe.bench import accuracy
from streamscribe.bench.report import Report
from streamscribe.client.local_server import RunningServer
from streamscribe.settings import load
from tests.service.conftest import shared_audio

pytestmark = [pytest.mark.models, pytest.mark.timeout(600)]

AT_ONCE = 4
PROMPTS = 20
"""Of the sixty that `make bench` hears."""

CHINESE = {
    "zh-aishell-BAC009S0724W0121.wav": "广州市房地产中介协会分析",
    "zh-news-mid.wav": "大学生利用漏洞免费吃肯德基获刑",
    "zh-news-long.wav": "富士康在印度工厂出现大规模感染目前工厂产量已下降超百分之五十",
}


def _rates_hold(report: Report) -> set[str]:
    """The error rates that have a bar, each of which must hold; how fast it was is not a test's business."""
    rates = [bar for bar in report.bars if "er_" in bar.figure]
    assert all(bar.holds for bar in rates), report.figures
    return {bar.figure for bar in rates}


def test_what_is_said_is_right_and_the_platform_costs_no_words(server: RunningServer) -> None:
    report = accuracy.run(load(), manifest=None, prompts=PROMPTS, url=server.address.http, at_once=AT_ONCE)
    assert _rates_hold(report) == {"wer_websocket", "wer_rest", "wer_above_bare_engine"}


if shared_audio() is not None:

    def test_chinese_recordings_come_out_in_simplified_characters(server: RunningServer, tmp_path: Path) -> None:
        folder = shared_audio()
        assert folder is not None
        lines = [json.dumps({"audio": str(folder / name), "text": text}) for name, text in CHINESE.items()]
        manifest = tmp_path / "chinese.jsonl"
        manifest.write_text("\n".join(lines), encoding="utf-8")
        report = accuracy.run(load(), manifest=manifest, prompts=0, url=server.address.http)
        assert _rates_hold(report) == {"cer_websocket", "cer_rest"}
