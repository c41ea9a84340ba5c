"""What a log line may hold, and what never gets into one."""

import io
import json
import logging
from collections.abc import Iterator
from typing import Any

import pytest
import structlog
from python_multipart.exceptions import MultipartParseError
from python_multipart.multipart import MultipartParser

from streamscribe.core.errors import BadRequest, InternalError
from streamscribe.observe.logs import configure, get_logger
from streamscribe.settings import ObserveSettings

SECRET = "canary-7f3a"


@pytest.fixture
def stream() -> Iterator[io.StringIO]:
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    stream = io.StringIO()
    configure(ObserveSettings(log_level="debug"), stream)
    yield stream
    structlog.reset_defaults()
    root.handlers[:] = handlers
    root.setLevel(level)
    logging.getLogger("streamscribe").setLevel(logging.NOTSET)


def lines(stream: io.StringIO) -> list[dict[str, Any]]:
    return [json.loads(line) for line in stream.getvalue().splitlines()]


def test_a_line_has_a_message_time_level_and_known_attributes(stream: io.StringIO) -> None:
    get_logger("streamscribe.test").info("session opened", session_id="s1", sessions=3)
    (line,) = lines(stream)
    assert line.pop("timestamp").endswith("Z")
    assert line == {
        "event": "session opened",
        "level": "info",
        "logger": "streamscribe.test",
        "session_id": "s1",
        "sessions": 3,
    }


def test_attributes_that_are_not_listed_are_dropped(stream: io.StringIO) -> None:
    get_logger("streamscribe.test").warning(
        "odd", text=SECRET, key=SECRET, path=SECRET, query=SECRET, hotwords=[SECRET]
    )
    assert SECRET not in stream.getvalue()
    assert lines(stream)[0]["event"] == "odd"


def test_the_parser_of_forms_tells_no_bytes_of_a_bad_one(stream: io.StringIO) -> None:
    with pytest.raises(MultipartParseError):
        MultipartParser(b"x").write(b"--x" + SECRET.encode())
    assert stream.getvalue() == ""


def test_long_values_are_cut(stream: io.StringIO) -> None:
    get_logger("streamscribe.test").info("odd", reason="x" * 10_000)
    assert len(lines(stream)[0]["reason"]) == 200


def test_a_failure_tells_its_class_and_place_but_not_its_text(stream: io.StringIO) -> None:
    log = get_logger("streamscribe.test")
    try:
        raise ValueError(SECRET)
    except ValueError:
        log.exception("broke")
    log.error("broke", exc_info=BadRequest("mode is not valid"))
    caused = InternalError()
    caused.__cause__ = FileNotFoundError(SECRET)
    log.error("broke", exc_info=caused)
    assert SECRET not in stream.getvalue()
    first, second, third = (line["failure"] for line in lines(stream))
    assert (first["error"], first["message"]) == ("ValueError", "")
    assert "test_logs.py" in first["at"][-1]
    assert (second["error"], second["message"]) == ("BadRequest", "mode is not valid")
    assert [one["cause"] for one in (first, second, third)] == ["", "", "FileNotFoundError"]


def test_libraries_keep_their_template_and_lose_what_it_was_formatted_with(stream: io.StringIO) -> None:
    log = logging.getLogger("uvicorn.error")
    log.warning('%s - "WebSocket %s" 403', "127.0.0.1", f"/ws/asr?token={SECRET}")
    log.info("%s", SECRET)
    try:
        raise RuntimeError(SECRET)
    except RuntimeError:
        log.exception("Exception in ASGI application\n")
    assert SECRET not in stream.getvalue()
    assert [line["event"] for line in lines(stream)] == ['%s - "WebSocket %s" 403', "Exception in ASGI application"]


def test_people_get_lines_without_json(capsys: pytest.CaptureFixture[str], stream: io.StringIO) -> None:
    console = io.StringIO()
    configure(ObserveSettings(log_format="console"), console)
    get_logger("streamscribe.other").info("session opened", session_id="s1")
    assert "session opened" in console.getvalue()
    assert "session_id=s1" in console.getvalue()
