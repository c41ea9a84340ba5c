"""The FunASR dialect's own rules: configuration in every variant, one last message, errors, nothing raises."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamscribe.core.errors import AudioTooLong, BadRequest, QuotaExceeded, TooLarge, UnsupportedFormat
from streamscribe.core.messages import (
    Audio,
    End,
    ErrorSent,
    Invalid,
    Pong,
    Start,
    Update,
)
from streamscribe.core.options import Hotword, Mode
from streamscribe.wire.dialects.funasr import PCM_ONLY, FunasrDialect
from streamscribe.wire.dialects.funasr_config import FunasrConfig, read_control
from tests.unit.funasr_kit import CLOSED, result, talk, told

# --- configuration


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({}, FunasrConfig()),
        ({"mode": "offline"}, FunasrConfig(mode=Mode.OFFLINE)),
        ({"mode": "office"}, FunasrConfig(mode=Mode.OFFLINE, misspelt=True)),
        ({"mode": "Online"}, FunasrConfig(mode=Mode.ONLINE)),
        ({"mode": "3pass"}, FunasrConfig(mode=Mode.TWO_PASS)),
        ({"mode": ["offline"]}, FunasrConfig(mode=Mode.TWO_PASS)),
        ({"mode": None, "chunk_size": "5,10,5"}, FunasrConfig(chunk_ms=600)),
        ({"chunk_size": [8, 8, 4], "chunk_interval": 10, "encoder_chunk_look_back": 4}, FunasrConfig(chunk_ms=480)),
        ({"chunk_size": "[0, 5, 5]"}, FunasrConfig(chunk_ms=300)),
        ({"chunk_size": [0, "10", 5]}, FunasrConfig(chunk_ms=600)),
        *(
            ({"chunk_size": odd}, FunasrConfig())
            for odd in ([5], [], "", "wide", 5, {}, [0, 0, 0], [0, 101, 0], [0, {}])
        ),
        ({"wav_name": 17}, FunasrConfig(wav_name="17")),
        ({"wav_format": "MP3"}, FunasrConfig(wav_format="mp3")),
        ({"audio_fs": 8000}, FunasrConfig(sample_rate=8000)),
        ({"audio_fs": 16000.0}, FunasrConfig()),
        ({"audio_fs": "48000"}, FunasrConfig(sample_rate=48_000)),
        ({"hotwords": '{"阿里":20}'}, FunasrConfig(hotwords=(Hotword("阿里", 20.0),))),
        ({"hotwords": {"阿里": "20"}}, FunasrConfig(hotwords=(Hotword("阿里", 20.0),))),
        ({"hotwords": "hello world"}, FunasrConfig(hotwords=(Hotword("hello"), Hotword("world")))),
        ({"hotwords": ""}, FunasrConfig()),
        ({"itn": 0}, FunasrConfig(itn=False)),
        ({"store": "0"}, FunasrConfig(store=False)),
        ({"itn": "false", "svs_itn": "1"}, FunasrConfig(itn=False)),
        ({"svs_lang": "yue"}, FunasrConfig(language="yue")),
        ({"svs_lang": "auto"}, FunasrConfig()),
    ],
)
def test_configuration_is_read_in_every_form(fields, expected):
    assert read_control(json.dumps(fields), FunasrConfig()).config == expected


@pytest.mark.parametrize(
    ("fields", "name"),
    [({"audio_fs": 7999}, "audio_fs"), ({"audio_fs": "fast"}, "audio_fs"), ({"audio_fs": [1]}, "audio_fs"),
     ({"hotwords": 5}, "hotwords"), ({"itn": "perhaps"}, "itn"), ({"is_speaking": []}, "is_speaking"),
     ({"svs_lang": "nonsense!"}, "svs_lang"), ({"svs_lang": 5}, "svs_lang"), ({"wav_format": "x" * 33}, "wav_format"),
     ({"wav_name": "x" * 1025}, "wav_name")],
)  # fmt: skip
def test_a_bad_field_is_named_and_fatal(fields, name):
    (refused,) = FunasrDialect().decode_text(json.dumps(fields))
    assert isinstance(refused, Invalid)
    assert refused.fatal
    assert isinstance(refused.error, BadRequest)
    assert refused.error.field == name


@pytest.mark.parametrize("text", ["", "{", "[]", "5", '"ping"', '{"a":NaN}', "[" * 50_000, '{"wav_name":"\ud800"}'])
def test_what_is_not_a_json_object_is_refused_and_then_nothing_is_heard(text):
    dialect = FunasrDialect()
    (refused,) = dialect.decode_text(text)
    assert isinstance(refused, Invalid)
    assert dialect.decode_text("{}") == []
    assert dialect.decode_binary(b"ab") == []


def test_a_text_message_over_the_limit_is_refused():
    (refused,) = FunasrDialect().decode_text(json.dumps({"x": "字" * 30_000}))
    assert isinstance(refused, Invalid)
    assert isinstance(refused.error, TooLarge)


@pytest.mark.parametrize(
    ("fields", "mode"),
    [({}, Mode.TWO_PASS), ({"chunk_size": [5, 10, 5]}, Mode.TWO_PASS), ({"wav_format": "pcm"}, Mode.OFFLINE),
     ({"wav_format": "pcm", "mode": "2pass"}, Mode.TWO_PASS)],
)  # fmt: skip
def test_without_a_mode_only_the_file_client_is_offline(fields, mode):
    dialect = FunasrDialect()
    dialect.decode_text(json.dumps(fields))
    (start, _) = dialect.decode_binary(b"\0\0\0\0")
    assert isinstance(start, Start)
    assert start.options.mode is mode


def test_the_chunk_is_what_the_client_named_and_online_increments_are_told_as_they_were_heard():
    dialect = FunasrDialect()
    dialect.decode_text('{"chunk_size":[5,5,5],"mode":"online","itn":true}')
    (start, _) = dialect.decode_binary(b"\0\0\0\0")
    assert (start.options.chunk_ms, start.options.itn) == (300, False)
    dialect = FunasrDialect()
    dialect.decode_text('{"mode":"2pass"}')
    (start, _) = dialect.decode_binary(b"\0\0\0\0")
    assert (start.options.chunk_ms, start.options.itn) == (None, True)


# --- the course of an utterance


def test_audio_before_any_configuration_is_taken_as_2pass():
    (start, audio) = FunasrDialect().decode_binary(b"abcd")
    assert isinstance(start, Start)
    assert start.options.mode is Mode.TWO_PASS
    assert start.options.words
    assert audio == Audio(b"abcd")


def test_late_configuration_changes_the_hotwords_and_the_name():
    dialect = talk()
    assert dialect.decode_text('{"hotwords":"a,b","mode":"online"}') == [Update((Hotword("a"), Hotword("b")))]
    assert dialect.decode_text('{"hotwords":"a,b","wav_name":"other"}') == []
    assert told(dialect, result("x"))[0]["wav_name"] == "other"
    assert told(dialect, result("x"))[:1] == []


@pytest.mark.parametrize("end", ['{"is_speaking":false}', '{"is_finished":true}', '{"is_speaking":0,"is_end":true}'])
def test_each_form_of_the_end_ends(end):
    dialect = talk()
    assert dialect.decode_text(end) == [End()]
    assert dialect.finalizing


def test_an_end_without_audio_is_answered_too():
    dialect = FunasrDialect()
    dialect.decode_text('{"mode":"offline","wav_name":"w"}')
    (start, end) = dialect.decode_text('{"is_speaking":false}')
    assert isinstance(start, Start)
    assert end == End()
    (message,) = told(dialect, CLOSED)
    assert message["text"] == ""
    assert message["is_final"]


def test_a_repeated_end_says_nothing_unless_it_asks():
    dialect = talk()
    dialect.decode_text('{"is_speaking":false}')
    assert dialect.decode_text('{"is_speaking":false}') == []
    assert len(told(dialect, CLOSED)) == 1
    assert dialect.decode_text('{"is_speaking":false}') == []
    assert len(dialect.decode_text('{"is_speaking":false,"is_end":true}')) == 2
    assert [message.get("is_end") for message in told(dialect, CLOSED)] == [None, True]


def test_an_acknowledgement_may_be_asked_for_while_the_end_is_awaited():
    dialect = talk()
    dialect.decode_text('{"is_speaking":false}')
    assert dialect.decode_text('{"is_end":true}') == []
    assert dialect.decode_binary(b"late") == []
    assert [message.get("is_end") for message in told(dialect, CLOSED)] == [None, True]


def test_the_next_utterance_keeps_the_configuration_and_starts_counting_anew():
    dialect = talk()
    told(dialect, result("你好。", final=True, pass_=2))
    dialect.decode_text('{"is_speaking":false}')
    told(dialect, CLOSED)
    assert not dialect.finalizing
    dialect.decode_binary(b"\0\0\0\0")
    (message,) = told(dialect, result("再见。", final=True, pass_=2))
    assert (message["index"], message["wav_name"], message["text"]) == (0, "w", "再见。")


def test_an_empty_frame_is_nothing():
    assert FunasrDialect().decode_binary(b"") == []


# --- errors


def test_an_error_ends_the_utterance_once():
    dialect = talk()
    (message,) = told(dialect, ErrorSent(QuotaExceeded()))
    assert message["is_final"]
    assert message["error"]["code"] == "quota_exceeded"
    assert told(dialect, CLOSED) == []


def test_an_error_after_the_end_loses_no_sentence_and_fails_the_acknowledgement():
    dialect = talk()
    dialect.decode_text('{"is_speaking":false,"is_end":true}')
    told(dialect, result("one", final=True, pass_=2))
    last, ack = told(dialect, ErrorSent(QuotaExceeded()))
    assert (last["text"], last["is_final"], last["error"]["code"]) == ("one", True, "quota_exceeded")
    assert (ack["is_end"], ack["is_final"], ack["error"]) == (True, False, "tenant session quota exceeded")


def test_an_offline_session_that_was_too_long_gives_its_text_with_the_error():
    dialect = talk("offline")
    told(dialect, result("one", final=True))
    (last,) = told(dialect, ErrorSent(AudioTooLong()))
    assert (last["text"], last["is_final"], last["error"]["code"]) == ("one", True, "audio_too_long")


def test_a_close_before_any_audio_says_nothing():
    assert told(FunasrDialect(), CLOSED, Pong()) == []
    assert told(FunasrDialect(), result("stray")) == []


def test_a_close_that_the_client_did_not_ask_for_still_ends_with_one_final():
    dialect = talk("offline")
    told(dialect, result("one", final=True))
    (message,) = told(dialect, CLOSED)
    assert (message["text"], message["is_final"]) == ("one", True)


@pytest.mark.parametrize("mode", ["2pass", "online"])
def test_a_live_stream_that_is_not_pcm_is_refused_in_cpps_words(mode):
    dialect = FunasrDialect()
    dialect.decode_text(json.dumps({"mode": mode, "wav_format": "mp3"}))
    (refused,) = dialect.decode_binary(b"ID3....")
    assert isinstance(refused, Invalid)
    assert isinstance(refused.error, UnsupportedFormat)
    assert refused.error.message == PCM_ONLY
    ended = FunasrDialect()
    ended.decode_text(json.dumps({"mode": mode, "wav_format": "mp3"}))
    assert len(ended.decode_text('{"is_speaking":false}')) == 1


@pytest.mark.parametrize("wav_format", ["mp3", "others", "m4a"])
def test_an_offline_file_is_marked_and_passed_on_whole(wav_format):
    dialect = FunasrDialect()
    dialect.decode_text(json.dumps({"mode": "offline", "wav_format": wav_format}))
    assert dialect.container is None
    (start, audio) = dialect.decode_binary(b"ID3 and so on")
    assert isinstance(start, Start)
    assert dialect.container == wav_format
    assert [audio, *dialect.decode_binary(b"more")] == [Audio(b"ID3 and so on"), Audio(b"more")]
    dialect.decode_text('{"is_speaking":false}')
    told(dialect, CLOSED)
    assert dialect.container is None


# --- nothing raises


@given(st.lists(st.text() | st.binary(max_size=64), max_size=6))
def test_arbitrary_frames_never_raise(frames):
    dialect = FunasrDialect()
    for frame in frames:
        messages = dialect.decode_text(frame) if isinstance(frame, str) else dialect.decode_binary(frame)
        assert isinstance(messages, list)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=6,
)
FIELDS = ["mode", "wav_name", "wav_format", "is_speaking", "is_finished", "is_end", "audio_fs", "hotwords", "itn"]


@given(st.dictionaries(st.sampled_from(FIELDS), JSON, max_size=5))
def test_arbitrary_fields_never_raise(fields):
    dialect = FunasrDialect()
    messages = dialect.decode_text(json.dumps(fields)) + dialect.decode_binary(b"abcd")
    for message in messages:
        if isinstance(message, Invalid):
            assert len(told(dialect, ErrorSent(message.error))) >= 1


def test_hot_words_that_cannot_be_taken_are_passed_over_in_silence():
    dialect = FunasrDialect("2pass-online")
    hotwords = json.dumps(json.dumps({"阿里": 20, "x" * 65: 1, "light": "heavy", "file:///etc/passwd": 1}))
    assert dialect.decode_text('{"hotwords":' + hotwords + "}") == []
    start, _ = dialect.decode_binary(b"\0" * 320)
    assert start.options.hotwords == (Hotword("阿里", 20.0), Hotword("file:///etc/passwd"))
