"""The FunASR dialect's own rules: configuration in every variant, append-only increments, stamps, one last message."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamscribe.core.errors import AudioTooLong, BadRequest, QuotaExceeded, TooLarge, UnsupportedFormat
from streamscribe.core.ids import SessionId, TraceId
from streamscribe.core.messages import (
    Audio,
    Closed,
    End,
    ErrorSent,
    Invalid,
    Pong,
    ResultSent,
    Start,
    Update,
)
from streamscribe.core.options import Hotword, Mode
from streamscribe.core.results import Result, ResultType, Word
from streamscribe.wire.dialects.funasr import PCM_ONLY, FunasrDialect
from streamscribe.wire.dialects.funasr_config import FunasrConfig, read_control
from streamscribe.wire.dialects.funasr_results import remainder, separator
from streamscribe.wire.dialects.funasr_stamps import page_count, stamps

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
        ({"mode": None, "chunk_size": "5,10,5"}, FunasrConfig()),
        ({"chunk_size": [5, 10, 5], "chunk_interval": 10, "encoder_chunk_look_back": 4}, FunasrConfig()),
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


# --- 2pass


def test_increments_are_the_growth_of_the_stable_prefix():
    dialect = talk()
    messages = told(dialect, result("欢迎大", stable=2), result("欢迎大家", stable=2), result("欢迎大家来", stable=4))
    assert [(m["text"], m["slice_type"], m["is_final"]) for m in messages] == [("欢迎", 0, False), ("大家", 1, False)]


def test_a_sentence_replaces_its_increments():
    dialect = talk()
    assert texts(dialect, result("hello"), result("Hello, world.", final=True, pass_=2)) == [
        ("2pass-online", "hello"),
        ("2pass-offline", "Hello, world."),
    ]


def test_a_later_segment_waits_until_the_shown_one_is_final():
    dialect = talk()
    assert texts(dialect, result("one"), result("two", 1)) == [("2pass-online", "one")]
    assert texts(dialect, result("One.", final=True, pass_=2)) == [("2pass-offline", "One."), ("2pass-online", " two")]


def test_a_late_sentence_does_not_lose_the_increments_of_the_next():
    dialect = talk()
    told(dialect, result("two", 1))
    assert texts(dialect, result("One.", 0, final=True, pass_=2)) == [
        ("2pass-offline", "One."),
        ("2pass-online", " two"),
    ]


def test_an_empty_final_takes_back_what_was_shown_and_else_says_nothing():
    dialect = talk()
    assert texts(dialect, result("", final=True, pass_=2)) == []
    told(dialect, result("noise", 1))
    assert texts(dialect, result("", 1, final=True, pass_=2)) == [("2pass-offline", "")]


def test_a_first_pass_is_shown_and_the_second_replaces_it():
    dialect = talk()
    assert texts(dialect, result("helo", final=True)) == [("2pass-online", "helo")]
    assert texts(dialect, result("hello", final=True, pass_=2)) == [("2pass-offline", "hello")]


def test_a_first_pass_whose_second_never_comes_is_a_sentence_at_the_end():
    dialect = talk()
    told(dialect, result("hello", final=True))
    dialect.decode_text('{"is_speaking":false}')
    assert texts(dialect, CLOSED) == [("2pass-offline", "hello")]


def test_the_last_sentence_after_the_end_is_the_final_message():
    dialect = talk()
    dialect.decode_text('{"is_speaking":false}')
    assert texts(dialect, result("one", final=True, pass_=2)) == []
    assert texts(dialect, result("two", 1, final=True, pass_=2)) == [("2pass-offline", "one")]
    (last,) = told(dialect, CLOSED)
    assert (last["text"], last["is_final"]) == (" two", True)


def test_the_last_message_is_empty_where_all_was_said():
    dialect = talk()
    told(dialect, result("one", final=True, pass_=2, end=900))
    dialect.decode_text('{"is_speaking":false}')
    (last,) = told(dialect, CLOSED)
    assert (last["mode"], last["text"], last["is_final"], last["end_time"]) == ("2pass-offline", "", True, 900)


# --- online and offline


def test_online_a_final_is_what_was_not_said_yet():
    dialect = talk("online")
    messages = [
        result("你好", stable=2),
        result("你好世界。", final=True),
        result("hello", 1),
        result("hello", 1, final=True),
    ]
    assert texts(dialect, *messages) == [
        ("2pass-online", "你好"),
        ("2pass-online", "世界。"),
        ("2pass-online", "hello"),
    ]


def test_online_a_final_without_increments_does_not_disturb_a_later_segment():
    dialect = talk("online", "online")
    messages = [result("two", 1), result("one", 0, final=True), result("two three", 1, final=True)]
    assert texts(dialect, *messages) == [("online", "two"), ("online", " one"), ("online", " three")]


def test_offline_all_is_in_one_message():
    dialect = talk("offline")
    words = [Word("你", 0, 100, 1), Word("好", 100, 200, 1)]
    assert (
        told(
            dialect, result("draft"), result("hello", 1, final=True, start=500), result("hi", 1, final=True, start=500)
        )
        == []
    )
    assert told(dialect, result("你好。", 0, final=True, words=words)) == []
    (message,) = told(dialect, CLOSED)
    assert (message["mode"], message["text"], message["is_final"]) == ("offline", "你好。hi", True)
    assert (message["start_time"], message["end_time"]) == (0, 1000)


@given(
    st.lists(st.tuples(st.integers(0, 3), st.text("ab 你好。", max_size=6), st.booleans()), max_size=12),
    st.sampled_from(["2pass", "online", "offline"]),
)
def test_whatever_comes_one_final_message_ends_and_the_text_is_that_of_the_finals(steps, mode):
    dialect = talk(mode)
    done: dict[int, str] = {}
    answers = []
    for segment, text, final in steps:
        if segment in done:
            continue
        if final:
            done[segment] = text
        answers += told(dialect, result(text, segment, final=final, pass_=2, stable=len(text) // 2, start=segment))
    dialect.decode_text('{"is_speaking":false}')
    answers += told(dialect, CLOSED)
    assert [answer["is_final"] for answer in answers] == [False] * (len(answers) - 1) + [True]
    if mode == "2pass":
        sentences = "".join(answer["text"] for answer in answers if answer["mode"] == "2pass-offline")
        assert sentences.replace(" ", "") == "".join(done.values()).replace(" ", "")


@given(st.text("ab 你。", max_size=8), st.text("ab 你。", max_size=8))
def test_an_increment_never_takes_back(shown, text):
    growth = remainder(shown, text)
    assert text.endswith(growth)
    if text.startswith(shown):
        assert shown + growth == text


def test_changed_marks_and_cases_are_not_said_again():
    assert remainder("hello world how", "Hello, world. How are you?") == " are you?"
    assert remainder("a long text", "short") == ""


@pytest.mark.parametrize(
    ("left", "right", "between"),
    [("", "a", ""), ("a", "", ""), ("one.", "two", " "), ("你好。", "再见", ""), ("好", "ok", ""), ("ok", "好", ""),
     ("a ", "b", ""), ("a", " b", ""), ("a", ", b", ""), ("안녕", "하세요", " ")],
)  # fmt: skip
def test_pieces_are_joined_as_their_scripts_want(left, right, between):
    assert separator(left, right) == between


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


# --- stamps


def words(*pairs):
    return [Word(text, begin, end, 1.0) for text, begin, end in pairs]


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("你好。", 2),
        ("hello world", 2),
        ("hello, world.", 2),
        ("It's", 4),
        ("2024年", 5),
        ("你好！", 3),
        ("", 0),
        ("😀", 2),
    ],
)
def test_the_page_counts_words_of_letters_and_else_characters(text, count):
    assert page_count(text) == count


def test_stamps_are_one_pair_for_each_word_and_one_sentence_for_each_clause():
    made = stamps("你好，世界。", words(("你", 0, 10), ("好，", 10, 20), ("世界", 30, 50)))
    assert made.timestamp == "[[0,10],[10,20],[30,40],[40,50]]"
    assert made.sentences is not None
    assert [(s.text_seg, s.punc, s.start, s.end) for s in made.sentences] == [
        ("你 好", "，", 0, 20),
        ("世 界", "。", 30, 50),
    ]
    assert made.sentences[1].ts_list == [[30, 40], [40, 50]]


def test_where_the_page_would_miscount_only_the_sentences_are_told():
    made = stamps("It's fine", words(("It's", 0, 10), ("fine", 10, 20)))
    assert made.timestamp is None
    assert made.sentences is not None
    assert made.sentences[0].text_seg == "It's fine"


@pytest.mark.parametrize(
    "given", [(), (("other", 0, 1),), (("你", 0, 1),), (("好", 0, 1), ("你", 1, 2)), (("好", 0, 1),), (("。", 0, 1),)]
)
def test_words_that_are_not_the_texts_own_make_no_stamps(given):
    made = stamps("你好。", words(*given))
    assert made.timestamp is None
    assert made.sentences is None


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
