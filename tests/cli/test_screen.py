"""What a session's messages look like where no terminal is."""

import pytest

from streamscribe.cli.screen import TextScreen
from streamscribe.wire.native_server import (
    HotwordsMessage,
    IgnoredFields,
    ResultMessage,
    RuleHitFields,
    RuleHitMessage,
)


def result(text: str, *, final: bool, pass_: int = 1, segment: int = 0) -> ResultMessage:
    return ResultMessage(
        session_id="s",
        sequence=0,
        result_type="final" if final else "partial",
        pass_=pass_,
        segment_id=segment,
        version=1,
        channel=0,
        text=text,
        stable_chars=0,
        start_ms=1200,
        end_ms=2000,
        words=[],
        confidence=0.0,
        is_final=final,
        language=None,
        trace_id="t",
    )


MESSAGES = (
    result("你", final=False),
    result("你好", final=True),
    result("", final=True, segment=1),
    result("你好。", final=True, pass_=2),
)


def test_each_text_is_a_line_with_its_pass_and_what_nobody_said_is_none(
    capsys: pytest.CaptureFixture[str],
) -> None:
    screen = TextScreen(last_pass=2)
    for message in MESSAGES:
        screen.show(message)
    screen.close()
    assert capsys.readouterr().out.splitlines() == ["0:01.2  你 …", "0:01.2  你好  [pass 1]", "0:01.2  你好。"]


def test_hits_of_rules_and_hot_words_that_were_not_taken_are_a_line_each(capsys: pytest.CaptureFixture[str]) -> None:
    screen = TextScreen(last_pass=2)
    screen.show(HotwordsMessage(["Acme"], [IgnoredFields("[x]", "too short")]))
    screen.show(RuleHitMessage(0, 0, [RuleHitFields("refund", "promised", "money back", 61_500, 62_000)]))
    screen.close()
    assert capsys.readouterr().out.splitlines() == [
        "hot word not taken: [x] (too short)",
        "1:01.5  rule refund (promised): money back",
    ]
