"""What a session's messages look like where no terminal is."""

import pytest

from streamscribe.cli.screen import TextScreen
from streamscribe.wire.native_server import ResultMessage


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


def test_each_text_is_a_line_and_what_nobody_said_is_none(capsys: pytest.CaptureFixture[str]) -> None:
    screen = TextScreen(last_pass=2)
    for message in MESSAGES:
        screen.show(message)
    screen.close()
    assert capsys.readouterr().out.splitlines() == ["0:01.2  你 …", "0:01.2  你好", "0:01.2  你好。"]
