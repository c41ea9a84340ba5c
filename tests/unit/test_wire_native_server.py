"""What the server says in the native dialect: as documented, and read back by our own client."""

import json

from hypothesis import given
from hypothesis import strategies as st

from streamscribe.core.errors import BadRequest, InternalError, QuotaExceeded
from streamscribe.core.ids import SessionId, TenantId, TraceId
from streamscribe.core.messages import (
    Ack,
    Closed,
    Connected,
    ErrorSent,
    FlushDone,
    GoAway,
    Heartbeat,
    HotwordsTold,
    Pong,
    ResultSent,
    Resumed,
    RuleHitsSent,
    ServerMessage,
    SessionBounds,
    SlowDown,
    SpeechActivity,
)
from streamscribe.core.options import IgnoredHotword, SessionOptions
from streamscribe.core.results import Result, ResultType, Word
from streamscribe.core.rules import RuleHit, RuleKind
from streamscribe.wire.native import NativeDialect
from streamscribe.wire.native_server import decode_server_message, to_wire


def dialect(options: SessionOptions | None = None) -> NativeDialect:
    return NativeDialect(options or SessionOptions())


TEXT = st.text(st.characters(exclude_categories=["Cs"]))
INTEGERS = st.integers(0, 2**53)
SESSION = SessionId("s-1")
TRACE = TraceId("t-1")
UNIT = st.floats(0, 1)
RESULTS = st.builds(
    Result,
    type=st.sampled_from(ResultType),
    pass_=st.integers(1, 2),
    segment_id=INTEGERS,
    version=INTEGERS,
    sequence=INTEGERS,
    channel=st.integers(0, 1),
    text=TEXT,
    stable_chars=INTEGERS,
    start_ms=INTEGERS,
    end_ms=INTEGERS,
    words=st.lists(st.builds(Word, TEXT, INTEGERS, INTEGERS, UNIT), max_size=3).map(tuple),
    confidence=UNIT,
    language=st.none() | TEXT,
)
SERVER_MESSAGES: st.SearchStrategy[ServerMessage] = st.one_of(
    st.builds(
        Connected,
        st.just(SESSION),
        st.just(TenantId("acme")),
        st.just(TRACE),
        TEXT,
        TEXT,
        st.builds(SessionBounds, INTEGERS, INTEGERS, UNIT, UNIT),
    ),
    st.builds(Resumed, st.just(SESSION), INTEGERS, INTEGERS),
    st.builds(Ack, INTEGERS),
    st.builds(ResultSent, st.just(SESSION), st.just(TRACE), RESULTS),
    st.builds(HotwordsTold, st.lists(TEXT).map(tuple), st.lists(st.builds(IgnoredHotword, TEXT, TEXT)).map(tuple)),
    st.builds(
        RuleHitsSent,
        INTEGERS,
        st.integers(0, 1),
        st.lists(st.builds(RuleHit, TEXT, st.sampled_from(RuleKind), TEXT, INTEGERS, INTEGERS)).map(tuple),
    ),
    st.builds(SpeechActivity, st.booleans(), st.integers(0, 1), INTEGERS),
    st.builds(FlushDone, TEXT),
    st.builds(Heartbeat, INTEGERS, INTEGERS),
    st.builds(SlowDown, INTEGERS),
    st.builds(GoAway, INTEGERS, INTEGERS),
    st.builds(lambda text, field: ErrorSent(BadRequest(text, field=field)), TEXT, st.none() | TEXT),
    st.just(Pong()),
    st.builds(Closed, TEXT, INTEGERS),
)


@given(SERVER_MESSAGES)
def test_every_server_message_survives_the_wire(message):
    (text,) = dialect().encode(message)
    assert decode_server_message(text) == to_wire(message)


def test_result_is_encoded_as_documented():
    result = Result(
        ResultType.FINAL,
        2,
        3,
        9,
        40,
        1,
        "你好",
        2,
        100,
        900,
        (Word("你", 100, 400, 0.5),),
        confidence=0.5,
        language="zh",
    )
    (text,) = dialect().encode(ResultSent(SESSION, TRACE, result))
    assert json.loads(text) == {
        "type": "result", "session_id": "s-1", "sequence": 40, "result_type": "final", "pass": 2, "segment_id": 3,
        "version": 9, "channel": 1, "text": "你好", "stable_chars": 2, "start_ms": 100, "end_ms": 900,
        "words": [{"text": "你", "start_ms": 100, "end_ms": 400, "confidence": 0.5}], "confidence": 0.5,
        "is_final": True, "language": "zh", "trace_id": "t-1",
    }  # fmt: skip


def test_what_was_heard_besides_words_is_encoded_where_there_is_any():
    result = Result(
        ResultType.FINAL, 2, 0, 1, 0, 0, "ha", 2, 0, 100, emotion="happy", events=("laughter",)
    )  # fmt: skip
    (text,) = dialect().encode(ResultSent(SESSION, TRACE, result))
    told = json.loads(text)
    assert (told["emotion"], told["events"]) == ("happy", ["laughter"])


def test_connected_is_encoded_as_documented():
    bounds = SessionBounds(4096, 10_800, 30.0, 30.0)
    (text,) = dialect().encode(Connected(SESSION, TenantId("acme"), TRACE, "tok", "process", bounds))
    assert json.loads(text) == {
        "type": "connected", "code": 0, "session_id": "s-1", "user_id": "acme", "trace_id": "t-1",
        "resume_token": "tok", "durability": "process",
        "limits": {"max_message_bytes": 4096, "max_session_s": 10_800, "idle_timeout_s": 30.0, "resume_window_s": 30.0},
    }  # fmt: skip


def test_what_came_of_hot_words_is_encoded_as_documented():
    (text,) = dialect().encode(HotwordsTold(("通义",), (IgnoredHotword("x", "too long"),)))
    assert json.loads(text) == {
        "type": "hotwords", "accepted": ["通义"], "ignored": [{"phrase": "x", "reason": "too long"}],
    }  # fmt: skip


def test_rule_hits_are_encoded_as_documented():
    (text,) = dialect().encode(RuleHitsSent(3, 1, (RuleHit("promises", RuleKind.PROMISED, "保本", 100, 900),)))
    assert json.loads(text) == {
        "type": "rule_hit", "segment_id": 3, "channel": 1,
        "hits": [{"rule": "promises", "kind": "promised", "phrase": "保本", "start_ms": 100, "end_ms": 900}],
    }  # fmt: skip


def test_a_refusal_by_quota_holds_the_documented_answer():
    (text,) = dialect().encode(ErrorSent(QuotaExceeded(retry_after_s=1.5)))
    told = json.loads(text)
    assert told.items() >= {"code": 429, "message": "tenant session quota exceeded"}.items()
    assert told == {
        "type": "error", "code": 429, "name": "quota_exceeded", "message": "tenant session quota exceeded",
        "retry": "after", "retry_after_ms": 1500,
    }  # fmt: skip
    (text,) = dialect().encode(ErrorSent(InternalError()))
    assert json.loads(text).keys() == {"type", "code", "name", "message", "retry"}
