"""What the tests of the FunASR dialect share."""

import json

from streamscribe.core.ids import SessionId, TraceId
from streamscribe.core.messages import (
    Closed,
    ResultSent,
)
from streamscribe.core.results import Result, ResultType
from streamscribe.wire.dialects.funasr import FunasrDialect

CLOSED = Closed("done", 1000)


def result(text, segment=0, *, final=False, pass_=1, stable=None, start=0, end=1000, words=()):
    kind = ResultType.FINAL if final else ResultType.PARTIAL
    stable_chars = len(text) if stable is None else stable
    return ResultSent(
        SessionId("s"),
        TraceId("t"),
        Result(kind, pass_, segment, 1, 0, 0, text, stable_chars, start, end, tuple(words)),
    )


def talk(mode="2pass", label="2pass-online"):
    """A dialect with its first audio taken."""
    dialect = FunasrDialect(label)
    dialect.decode_text(json.dumps({"mode": mode, "wav_name": "w"}))
    dialect.decode_binary(b"\0\0\0\0")
    return dialect


def told(dialect, *messages):
    return [json.loads(text) for message in messages for text in dialect.encode(message)]


def texts(dialect, *messages):
    return [(message["mode"], message["text"]) for message in told(dialect, *messages)]
