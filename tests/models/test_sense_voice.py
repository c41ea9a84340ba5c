"""SenseVoiceSmall: equal to FunASR's own in text, tags and times, alone and in any company."""

import re

import numpy as np
import pytest

from streamscribe.core.errors import AudioTooLong, BadRequest
from streamscribe.core.tokens import Token
from streamscribe.models.ports import SegmentRequest
from streamscribe.models.sense_voice import OnnxSenseVoice
from streamscribe.models.sense_voice.pieces import text_of, words_of
from tests.contracts.segment_recognizer import SegmentRecognizerContract, requests
from tests.models import tiny


@pytest.fixture(scope="module")
def golden():
    return tiny.golden("offline.json")["sense_voice"]


@pytest.fixture(scope="module")
def sense_voice():
    return OnnxSenseVoice(tiny.files("tiny-sensevoice"))


@pytest.fixture(scope="module")
def recordings(golden):
    return [tiny.samples(file) for file in golden]


def tags(text):
    return re.findall(r"<\|(.*?)\|>", text)


def untagged(text):
    return re.sub(r"<\|.*?\|>", "", text).replace("▁", " ").strip()


class TestOnnxSenseVoice(SegmentRecognizerContract):
    @pytest.fixture
    def recognizer(self, sense_voice):
        return sense_voice

    @pytest.fixture
    def utterances(self, recordings):
        return recordings[:3]


def test_text_equals_funasr_s(sense_voice, recordings, golden):
    for itn, name in ((False, "text"), (True, "text_with_itn")):
        heard = sense_voice.recognize(requests(recordings, itn=itn))
        assert [one.text for one in heard] == [untagged(one[name]) for one in golden.values()]
        assert not any(one.punctuated for one in heard)  # the tiny model writes no marks


def test_tags_equal_funasr_s(sense_voice, recordings, golden):
    for one, expected in zip(sense_voice.recognize(requests(recordings)), golden.values(), strict=True):
        language, emotion, event, _ = tags(expected["text"])
        assert (one.language, one.emotion, event, one.events) == (language, emotion.lower(), "Speech", ())


def test_numbers_are_written_in_digits_when_asked_for(sense_voice, recordings):
    plain = "".join(one.text for one in sense_voice.recognize(requests(recordings)))
    written = "".join(one.text for one in sense_voice.recognize(requests(recordings, itn=True)))
    assert not re.search(r"\d", plain)
    assert re.search(r"\d", written)


def test_words_and_their_times_equal_funasr_s(sense_voice, recordings, golden):
    heard = sense_voice.recognize(requests(recordings, words=True))
    for one, samples, expected in zip(heard, recordings, golden.values(), strict=True):
        assert [word.text for word in one.words] == [word.removeprefix("▁") for word in expected["words"]]
        bounds = np.array([(word.start, word.end) for word in one.words]) / 16
        assert np.abs(bounds - np.clip(expected["times_ms"], 0, len(samples) / 16)).max() <= 1


def test_law_4_languages_and_itn_of_others_change_nothing(sense_voice, recordings):
    batch = [
        SegmentRequest(samples, language=(None, "zh", "en", "yue")[index % 4], words=True, itn=index % 3 == 0)
        for index, samples in enumerate(recordings)
    ]
    for request, heard in zip(batch, sense_voice.recognize(batch), strict=True):
        (alone,) = sense_voice.recognize([request])
        assert (heard.text, heard.language, heard.emotion) == (alone.text, alone.language, alone.emotion)
        assert [(word.text, word.start, word.end) for word in heard.words] == [
            (word.text, word.start, word.end) for word in alone.words
        ]
        assert heard.confidence == pytest.approx(alone.confidence, abs=1e-4)


def test_only_five_languages_are_known(sense_voice):
    for code in ("zh-CN", "EN", "yue", "ja", "ko"):
        sense_voice.check_language(code)
    with pytest.raises(BadRequest):
        sense_voice.check_language("fr")


def test_more_than_30_s_are_refused(sense_voice):
    with pytest.raises(AudioTooLong):
        sense_voice.recognize([SegmentRequest(np.zeros(sense_voice.max_samples + 1, np.float32))])


@pytest.mark.parametrize(
    ("pieces", "text", "words"),
    [
        ("你 好 ， 再 见 。", "你好，再见。", "你 好， 再 见。"),
        ("▁he llo ▁wor ld .", "hello world.", "hello world."),
        ("▁it ' s ▁9 : 3 0", "it's 9:30", "it's 9: 30"),
        ("我 说 ▁hello 你 好", "我说 hello你好", "我 说 hello 你 好"),
        ("▁ 2 0 2 6 年", "2026年", "2026 年"),
        ("あ り がとう", "ありがとう", "あ り がとう"),
        ("▁안 녕 ▁하세요", "안녕 하세요", "안녕 하세요"),
        ("▁ ▁", "", ""),
    ],
)
def test_pieces_become_words_with_the_marks_behind_them(pieces, text, words):
    tokens = [Token(piece, 10 * index, 10 * index + 10, 0.5) for index, piece in enumerate(pieces.split())]
    assert text_of([token.text for token in tokens]) == text
    assert [word.text for word in words_of(tokens)] == words.split()


def test_texts_are_kept_under_the_libraries_that_compute_features_too(sense_voice):
    import onnxruntime

    from streamscribe.models.lfr import FRONT_END

    assert {onnxruntime.__version__, np.__version__, *FRONT_END} <= set(sense_voice.identity)
