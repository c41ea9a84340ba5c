"""Whisper base with its real weights: the recogniser's contract, languages, hot words, and no text where none is."""

import itertools

import numpy as np
import pytest
import soundfile

from streamscribe.core.audio import to_samples
from streamscribe.core.errors import AudioTooLong, BadRequest
from streamscribe.core.options import Hotword, Task
from streamscribe.models.encoder_decoder import EncoderDecoderRecognizer
from streamscribe.models.ports import Hypothesis, Samples, SegmentRequest
from streamscribe.models.registry import open_verified
from streamscribe.models.whisper import WhisperModel
from streamscribe.text.script import Simplifier
from tests.contracts.segment_recognizer import SegmentRecognizerContract

pytestmark = [pytest.mark.models, pytest.mark.timeout(300)]

COMFY = (Hotword("ComfyUI"),)


@pytest.fixture(scope="module")
def whisper(model_dir) -> WhisperModel:
    return WhisperModel(open_verified("whisper-base", model_dir), threads=2)


@pytest.fixture(scope="module")
def clips(model_dir) -> dict[str, Samples]:
    """Recordings of two languages, 16 kHz."""
    folder = model_dir / "demo-recordings"
    return {path.stem: soundfile.read(path, dtype="float32")[0] for path in sorted(folder.glob("*/*.wav"))}


def noises() -> dict[str, Samples]:
    random = np.random.default_rng(0)
    size = to_samples(1500)
    seconds = np.arange(size) / 16_000
    white = random.normal(0, 1, size)
    spectrum = np.fft.rfft(white) / np.sqrt(1 + np.arange(size // 2 + 1))
    pink = np.fft.irfft(spectrum, size)
    sounds = {
        "hiss": white * 0.003,
        "pink noise": pink / np.abs(pink).max() * 0.3,
        "tone": 0.3 * np.sin(2 * np.pi * 440 * seconds),
        "telephone keys": 0.2
        * (np.sin(2 * np.pi * 770 * seconds) + np.sin(2 * np.pi * 1336 * seconds))
        * (seconds % 0.5 < 0.25),
        "clicks": np.where(random.random(size) < 0.001, 0.8, 0.0),
    }
    return {name: sound.astype(np.float32) for name, sound in sounds.items()}


def compared(hypothesis: Hypothesis) -> tuple[object, ...]:
    times = tuple((word.text, word.start, word.end) for word in hypothesis.words)
    return hypothesis.text, hypothesis.language, times


class TestWhisper(SegmentRecognizerContract):
    @pytest.fixture
    def recognizer(self, whisper):
        return EncoderDecoderRecognizer(whisper)

    @pytest.fixture
    def utterances(self, clips):
        return [clips["counting"], clips["jishu"], clips["quick_brown_fox"]]

    def test_both_languages_are_recognised_without_being_named(self, recognizer, clips):
        fox, hello = recognizer.recognize([SegmentRequest(clips["quick_brown_fox"]), SegmentRequest(clips["pangrama"])])
        assert (fox.language, fox.text) == ("en", "The quick brown fox jumps over the lazy dog.")
        assert hello.language == "zh"
        assert Simplifier().simplify(hello.text).startswith("天地玄")

    def test_chinese_characters_have_times_of_their_own(self, recognizer, clips):
        heard = recognizer.recognize([SegmentRequest(clips["pangrama"], language="zh", words=True)])[0]
        assert max(len(word.text) for word in heard.words) <= 2  # a character, and a mark at most

    def test_law_4_any_mix_of_requests_gives_what_each_gives_alone(self, recognizer, clips):
        hows = itertools.cycle(
            [
                {"language": "en", "words": True},
                {"hotwords": COMFY, "context": "We were talking about animals."},
                {"language": "zh", "draft": True},
                {"task": Task.TRANSLATE, "words": True},
                {"hotwords": (Hotword("狐狸"), Hotword("the lazy dog", 3.0)), "draft": True},
            ]
        )
        sounds = [*clips.values(), noises()["pink noise"], clips["pangrama"][: to_samples(2500)]]
        requests = [SegmentRequest(sound, **how) for sound, how in zip(sounds, hows, strict=False)]
        alone = [compared(recognizer.recognize([request])[0]) for request in requests]
        for size in (3, len(requests)):
            parts = [requests[at : at + size] for at in range(0, len(requests), size)]
            together = [compared(heard) for part in parts for heard in recognizer.recognize(part)]
            assert together == alone

    def test_speech_in_another_language_is_translated_into_english(self, recognizer, clips):
        heard = recognizer.recognize([SegmentRequest(clips["nihao_shijie"], task=Task.TRANSLATE)])[0]
        assert "hello" in heard.text.lower()

    @pytest.mark.parametrize(
        "how",
        [
            {},
            {"language": "en", "hotwords": COMFY, "context": "It was the first great sorrow of his life."},
            {"language": "zh", "hotwords": tuple(Hotword(f"阿里巴巴{n}") for n in range(100))},
        ],
    )
    def test_noise_has_no_text_whatever_the_hot_words_and_what_came_before(self, recognizer, how):
        requests = {
            (name, draft): SegmentRequest(sound, draft=draft, **how)
            for name, sound in noises().items()
            for draft in (False, True)
        }
        heard = zip(requests, recognizer.recognize(list(requests.values())), strict=True)
        assert {sound: hypothesis.text for sound, hypothesis in heard if hypothesis.text} == {}

    def test_unspoken_hot_words_do_not_leak_into_the_text(self, recognizer, clips):
        fox = clips["quick_brown_fox"]
        many = (*COMFY, Hotword("阿里巴巴", 20.0), Hotword("<|endoftext|>"), Hotword("<|zh|>"))
        heard = recognizer.recognize([SegmentRequest(fox, hotwords=many), SegmentRequest(fox, hotwords=COMFY)])
        assert {one.text.lower().rstrip(".") for one in heard} == {"the quick brown fox jumps over the lazy dog"}

    def test_a_hot_word_that_begins_the_segment_is_still_written_there(self, recognizer, clips):
        said = {"counting": "One two three", "quick_brown_fox": "The quick brown fox", "pangrama": "天地玄黄"}
        requests = [SegmentRequest(clips[name], hotwords=(Hotword(phrase),)) for name, phrase in said.items()]
        for phrase, heard in zip(said.values(), recognizer.recognize(requests), strict=True):
            assert heard.text.lower().replace(",", "").startswith(phrase.lower())

    def test_what_was_said_before_is_not_said_again_and_may_be_longer_than_the_prompt(self, recognizer, clips):
        before = "The quick brown fox jumps over the lazy dog. " * 50
        contexts = ("", "We were talking about animals.", before)
        requests = [SegmentRequest(clips["quick_brown_fox"], context=context) for context in contexts]
        texts = {heard.text.lower().rstrip(".") for heard in recognizer.recognize(requests)}
        assert texts == {"the quick brown fox jumps over the lazy dog"}

    def test_what_was_said_before_is_not_written_on_instead_of_what_is_heard(self, recognizer, clips):
        """Told an English sentence, the model goes on with it over Chinese speech."""
        english = "It was the first great sorrow of his life. It was not so much the loss of the cotton itself."
        contexts = ("", english)
        requests = [SegmentRequest(clips["nihao_shijie"], language="zh", context=context) for context in contexts]
        plain, told = recognizer.recognize(requests)
        assert told.text == plain.text

    def test_what_was_said_before_decides_how_a_sound_is_written(self, recognizer, clips):
        request = SegmentRequest(clips["nihao_shijie"], language="zh", context="大家好，今天的你好事件。")
        assert "事件" in recognizer.recognize([request])[0].text

    def test_a_hot_word_decides_how_a_sound_is_written(self, recognizer, clips):
        plain, biased = recognizer.recognize(
            [SegmentRequest(clips["nihao_shijie"], hotwords=hotwords) for hotwords in ((), (Hotword("你好事件"),))]
        )
        assert "世界" in plain.text
        assert "事件" in biased.text

    def test_a_segment_longer_than_whispers_window_is_refused(self, recognizer):
        with pytest.raises(AudioTooLong):
            recognizer.recognize([SegmentRequest(np.zeros(recognizer.max_samples + 1, dtype=np.float32))])

    @pytest.mark.parametrize(("tag", "code"), [("zh-CN", "zh"), ("EN_us", "en"), ("yue", "zh")])
    def test_language_tags_are_understood(self, recognizer, clips, tag, code):
        assert recognizer.recognize([SegmentRequest(clips["jishu"], language=tag)])[0].language == code

    def test_an_unknown_language_is_a_bad_request_that_names_the_field(self, recognizer, clips):
        with pytest.raises(BadRequest, match="language"):
            recognizer.recognize([SegmentRequest(clips["jishu"], language="xx")])

    def test_a_few_seconds_cost_a_few_seconds_of_encoding(self, whisper, clips):
        features = whisper.features(clips["hello_world"])
        assert features.shape == (80, 500)
        assert whisper.encode([features])[0].shape == (250, 512)
