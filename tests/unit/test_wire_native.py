"""The native dialect: what a client says is read as documented, and nothing that it sends raises."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamscribe.core.audio import AudioFormat, Encoding
from streamscribe.core.errors import BadRequest, StreamScribeError, TooLarge
from streamscribe.core.messages import Audio, End, ErrorSent, Flush, Invalid, Ping, Resume, Start, Update
from streamscribe.core.options import EndpointOptions, Hotword, Latency, Mode, SessionOptions
from streamscribe.wire.frames import pack_frame
from streamscribe.wire.native import NativeDialect, native_options_from_query
from streamscribe.wire.native_server import decode_server_message


def dialect(options: SessionOptions | None = None) -> NativeDialect:
    return NativeDialect(options or SessionOptions())


def refusal(text: str) -> Invalid:
    (message,) = dialect().decode_text(text)
    assert isinstance(message, Invalid)
    return message


def test_the_simple_client_needs_no_start():
    speaker = dialect()
    assert speaker.decode_binary(b"\x01\x02") == [Audio(b"\x01\x02")]
    assert speaker.decode_text('{"type":"end"}') == [End()]


def test_start_reads_every_option():
    text = json.dumps(
        {
            "type": "start",
            "audio": {"encoding": "mulaw", "sample_rate": 8000, "channels": 2},
            "mode": "online",
            "language": "zh-CN",
            "hotwords": [{"phrase": "阿里巴巴", "weight": 2}],
            "words": True,
            "itn": False,
            "punctuation": False,
            "endpoint": {"silence_ms": 500, "max_segment_ms": 9000, "min_speech_ms": 200},
            "latency": "adaptive",
            "chunk_ms": 300,
            "framing": "sequenced",
            "future": {"of": "the protocol"},
        }
    )
    assert dialect().decode_text(text) == [
        Start(
            SessionOptions(
                audio=AudioFormat(Encoding.MULAW, 8000, 2),
                mode=Mode.ONLINE,
                language="zh",
                hotwords=(Hotword("阿里巴巴", 2.0),),
                words=True,
                itn=False,
                punctuation=False,
                endpoint=EndpointOptions(500, 9000, 200),
                latency=Latency.ADAPTIVE,
                chunk_ms=300,
                sequenced=True,
            )
        )
    ]


def test_start_keeps_what_the_address_asked_for():
    asked = native_options_from_query({"language": "en", "hotwords": "a,b", "rate": "8000", "words": "1"})
    (start,) = dialect(asked).decode_text('{"type":"start","audio":{"encoding":"alaw"}}')
    assert isinstance(start, Start)
    assert start.options == SessionOptions(
        audio=AudioFormat(Encoding.ALAW, 8000),
        language="en",
        hotwords=(Hotword("a"), Hotword("b")),
        words=True,
    )


def test_the_mode_offline_is_a_file_and_never_paced():
    (start,) = dialect().decode_text('{"type":"start","mode":"offline"}')
    assert isinstance(start, Start)
    assert not start.options.live


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('{"type":"flush","marker":"m1"}', Flush("m1")),
        ('{"type":"flush"}', Flush("")),
        ('{"type":"update","hotwords":"a,b"}', Update((Hotword("a"), Hotword("b")))),
        ('{"type":"ping"}', Ping()),
        ('{"type":"end"}', End()),
        ('{"type":"resume","session_id":"s","resume_token":"t"}', Resume("s", "t", 0, None)),
        (
            '{"type":"resume","session_id":"s","resume_token":"t","last_version":7,"last_acked_sequence":3}',
            Resume("s", "t", 7, 3),
        ),
    ],
)
def test_each_control_message_has_its_core_type(text, expected):
    assert dialect().decode_text(text) == [expected]


@pytest.mark.parametrize(
    ("text", "field", "fatal"),
    [
        ('{"type":"start","mode":"fast"}', "mode", True),
        ('{"type":"start","audio":{"encoding":"mp3"}}', "audio.encoding", True),
        ('{"type":"start","audio":{"sample_rate":96000}}', "audio.sample_rate", True),
        ('{"type":"start","audio":{"sample_rate":' + "9" * 400 + "}}", "audio.sample_rate", True),
        ('{"type":"start","audio":{"channels":3}}', "audio.channels", True),
        ('{"type":"start","audio":[]}', "audio", True),
        ('{"type":"start","language":"klingon!"}', "language", True),
        ('{"type":"start","hotwords":5}', "hotwords", True),
        ('{"type":"start","endpoint":{"silence_ms":1}}', "endpoint.silence_ms", True),
        ('{"type":"start","endpoint":{"min_speech_ms":1001}}', "endpoint.min_speech_ms", True),
        ('{"type":"start","latency":"lowest"}', "latency", True),
        ('{"type":"start","chunk_ms":59}', "chunk_ms", True),
        ('{"type":"start","chunk_ms":6001}', "chunk_ms", True),
        ('{"type":"resume","session_id":"s"}', "resume_token", True),
        ('{"type":"resume","session_id":"s","resume_token":"t","last_acked_sequence":4294967296}',
         "last_acked_sequence", True),
        ('{"type":"update"}', "hotwords", False),
        ('{"type":"update","hotwords":"{"}', "hotwords", False),
        ('{"type":"flush","marker":' + json.dumps("m" * 129) + "}", "marker", False),
        ('{"type":"flush","marker":1}', "marker", False),
        ('{"type":"jump"}', "type", False),
        ('{"type":5}', "type", False),
        ("{}", "type", False),
        ("[]", None, False),
    ],
)  # fmt: skip
def test_a_message_of_a_wrong_shape_names_the_field(text, field, fatal):
    refused = refusal(text)
    assert isinstance(refused.error, BadRequest)
    assert refused.error.field == field
    assert refused.fatal is fatal
    assert field is None or field in refused.error.message


@pytest.mark.parametrize(
    "text",
    ["", "{", "\x00", '{"type":"flush","marker":"\\ud800"}', '{"type":"flush","marker":"\ud800"}',
     '{"type":"start","hotwords":NaN}', '{"type":"start","x":' + "[" * 50_000, '{"type":"start"} {}'],
)  # fmt: skip
def test_what_is_not_json_is_told_and_changes_nothing(text):
    assert refusal(text).error.message == "the message is not valid JSON"
    assert not refusal(text).fatal


def test_the_error_never_echoes_what_the_client_sent():
    assert "secret" not in refusal('{"type":"start","mode":"secret"}').error.message
    assert "secret" not in refusal('{"type":"secret"}').error.message


def test_a_text_message_over_the_limit_is_refused():
    refused = refusal('{"type":"flush","marker":"' + "字" * 22_000 + '"}')
    assert isinstance(refused.error, TooLarge)
    assert not refused.fatal


def test_sequenced_frames_carry_their_number():
    speaker = dialect(native_options_from_query({"framing": "sequenced"}))
    assert speaker.decode_binary(pack_frame(7, b"abc")) == [Audio(b"abc", 7)]
    assert speaker.decode_binary(pack_frame(2**32 - 1, b"")) == [Audio(b"", 2**32 - 1)]


@pytest.mark.parametrize(("frame", "field"), [(b"\0" * 7, "sequence"), (b"\0\0\0\1\0\0\0\2xy", "flags")])
def test_a_broken_header_is_fatal(frame, field):
    (refused,) = dialect(SessionOptions(sequenced=True)).decode_binary(frame)
    assert isinstance(refused, Invalid)
    assert refused.fatal
    assert refused.error.field == field


def test_the_framing_is_that_of_the_last_start_before_the_first_audio():
    started = dialect()
    started.decode_text('{"type":"start","framing":"plain"}')
    started.decode_text('{"type":"start","framing":"sequenced"}')
    assert started.decode_binary(pack_frame(0, b"ab")) == [Audio(b"ab", 0)]
    streaming = dialect()
    streaming.decode_binary(b"ab")
    streaming.decode_text('{"type":"start","framing":"sequenced"}')
    assert streaming.decode_binary(b"cd") == [Audio(b"cd")]


def test_a_resume_repeats_the_framing_of_its_session():
    speaker = dialect()
    speaker.decode_text('{"type":"resume","session_id":"s","resume_token":"t","framing":"sequenced"}')
    speaker.decode_text('{"type":"start","framing":"plain"}')
    assert speaker.decode_binary(pack_frame(9, b"ab")) == [Audio(b"ab", 9)]


def test_the_query_reads_every_option():
    params = {
        "tenant_id": "t", "token": "k", "mode": "2pass", "language": "auto", "hotwords": "", "sample_rate": "48000",
        "encoding": "pcm_f32le", "channels": "2", "words": "true", "itn": "0", "punctuation": "false",
        "silence_ms": "300", "max_segment_ms": "5000", "min_speech_ms": "0", "latency": "low", "chunk_ms": "600",
        "framing": "sequenced",
    }  # fmt: skip
    assert native_options_from_query(params) == SessionOptions(
        audio=AudioFormat(Encoding.PCM_F32, 48_000, 2),
        words=True,
        itn=False,
        punctuation=False,
        endpoint=EndpointOptions(300, 5000, 0),
        latency=Latency.LOW,
        chunk_ms=600,
        sequenced=True,
    )


@pytest.mark.parametrize(
    ("params", "field"),
    [({"rate": "fast"}, "audio.sample_rate"), ({"rate": "7999"}, "audio.sample_rate"), ({"words": "maybe"}, "words"),
     ({"mode": "x"}, "mode"), ({"language": "e n"}, "language"), ({"hotwords": "[x"}, "hotwords"),
     ({"silence_ms": "99"}, "endpoint.silence_ms"), ({"min_speech_ms": "-1"}, "endpoint.min_speech_ms"),
     ({"latency": "fast"}, "latency"), ({"chunk_ms": "many"}, "chunk_ms")],
)  # fmt: skip
def test_a_bad_query_parameter_names_the_field(params, field):
    with pytest.raises(BadRequest) as caught:
        native_options_from_query(params)
    assert caught.value.field == field


@given(st.text() | st.binary().map(lambda data: data.decode("latin-1")))
def test_arbitrary_text_never_raises(text):
    (message,) = dialect().decode_text(text)
    assert isinstance(message, Invalid)
    assert isinstance(message.error, StreamScribeError)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=8,
)
FIELDS = ["audio", "mode", "language", "hotwords", "words", "itn", "endpoint", "framing", "marker", "session_id",
          "resume_token", "last_version", "last_acked_sequence"]  # fmt: skip
KINDS = st.sampled_from(["start", "flush", "update", "ping", "end", "resume"])


@given(KINDS, st.dictionaries(st.sampled_from(FIELDS), JSON, max_size=5), st.booleans())
def test_arbitrary_fields_never_raise(kind, fields, ascii_only):
    (message,) = dialect().decode_text(json.dumps({**fields, "type": kind}, ensure_ascii=ascii_only))
    if isinstance(message, Invalid):
        (told,) = dialect().encode(ErrorSent(message.error))
        assert decode_server_message(told)


@given(st.binary(max_size=40), st.booleans())
def test_arbitrary_bytes_never_raise(data, sequenced):
    (message,) = dialect(SessionOptions(sequenced=sequenced)).decode_binary(data)
    assert isinstance(message, Audio | Invalid)


def test_a_phrase_that_cannot_be_taken_loses_no_other_and_is_told():
    hotwords = json.dumps(["ok", "x" * 65, {"phrase": 7}, {"phrase": "light", "weight": -1}, "file:///etc/passwd"])
    accepted = (Hotword("ok"), Hotword("file:///etc/passwd"))
    (update,) = dialect().decode_text('{"type":"update","hotwords":' + hotwords + "}")
    assert update.hotwords == accepted
    assert [one.phrase for one in update.ignored] == ["x" * 64, "", "light"]
    (start,) = dialect().decode_text('{"type":"start","hotwords":' + hotwords + "}")
    assert (start.options.hotwords, start.options.ignored_hotwords) == (accepted, update.ignored)
    asked = native_options_from_query({"hotwords": hotwords})
    assert (asked.hotwords, asked.ignored_hotwords) == (accepted, update.ignored)


def test_a_connection_carries_one_native_session():
    assert not dialect().reusable
