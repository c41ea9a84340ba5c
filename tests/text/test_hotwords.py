"""Hot words by sound: what is written, what is left alone, what becomes of times, and what it costs."""

import json
import random
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import streamscribe.models
from streamscribe.core.options import MAX_HOTWORD_CHARS, MAX_HOTWORDS, Hotword
from streamscribe.core.results import Word
from streamscribe.core.tokens import Mark
from streamscribe.text.chinese_hotwords import WORK, ChineseHotwords
from streamscribe.text.english_hotwords import MAX_SAME_SOUND, MAX_WORDS, EnglishHotwords
from streamscribe.text.hotwords import HotwordIndex
from streamscribe.text.pipeline import FinishRequest
from streamscribe.text.sound import readings
from streamscribe.text.timed import TimedText, timed
from tests.text.kit import TEXT

DATA = Path(__file__).parents[1] / "data"
SPEECH = Path(streamscribe.models.__file__).parent / "bundled/tiny-recordings"
SENTENCES = (DATA / "everyday_sentences.txt").read_text().splitlines()
HUNDRED = (DATA / "unrelated_hotwords.txt").read_text().split()


def language_of(text: str) -> str:
    return "en" if text.isascii() else "zh"


def listed(*phrases: str, weight: float = 1.0) -> tuple[Hotword, ...]:
    return tuple(Hotword(phrase, weight) for phrase in phrases)


def corrected(text: str, *phrases: str, weight: float = 1.0) -> str:
    return HotwordIndex(listed(*phrases, weight=weight)).correct(TimedText(text), language_of(text)).text


@pytest.mark.parametrize(
    ("text", "phrases", "expected"),
    [
        ("我们在同意实验室用通一千问", ["通义实验室", "通义千问"], "我们在通义实验室用通义千问"),
        ("啊里爸爸和科大迅飞合作", ["阿里巴巴", "科大讯飞"], "阿里巴巴和科大讯飞合作"),
        ("欧阳那那来了", ["欧阳娜娜"], "欧阳娜娜来了"),
        ("章伟说", ["张伟"], "张伟说"),
        ("黄肥红画的", ["王辉宏", "黄飞虹"], "黄飞虹画的"),
        ("找领哥冲", ["令狐冲", "林歌聪"], "找林歌聪"),
        ("增一可唱歌", ["曾轶可"], "曾轶可唱歌"),
        ("请转行带客", ["杭岱恪"], "请转杭岱恪"),
        ("虫庆的火锅", ["重庆"], "重庆的火锅"),
        ("用同意 qwen 吧", ["通义Qwen"], "用通义Qwen 吧"),
        ("今天打开 comfy UI 界面", ["ComfyUI"], "今天打开 ComfyUI 界面"),
        ("打开comfyui界面", ["ComfyUI"], "打开ComfyUI界面"),
        ("I opened comfy UI yesterday.", ["ComfyUI"], "I opened ComfyUI yesterday."),
        ("I opened Comfy you I yesterday.", ["ComfyUI"], "I opened ComfyUI yesterday."),
        ("Comfy U I is open", ["ComfyUI"], "ComfyUI is open"),
        ("we run kuber netties here", ["Kubernetes"], "we run Kubernetes here"),
        ("we run kubernetis here", ["Kubernetes"], "we run Kubernetes here"),
        ("the cafka cluster", ["Kafka"], "the Kafka cluster"),
        ("a trip to new york", ["New York"], "a trip to New York"),
        ("stream scribe writes", ["StreamScribe"], "StreamScribe writes"),
    ],
)
def test_what_sounds_like_a_hot_word_is_written_as_one(text: str, phrases: list[str], expected: str) -> None:
    assert corrected(text, *phrases) == expected


@pytest.mark.parametrize(
    ("text", "phrases"),
    [
        ("道理里面有很多", ["李丽", "黎莉"]),
        ("市场很大", ["试厂"]),
        ("这件事是我的", ["世沃"]),
        ("足球比赛因为下雨推迟了", ["夏雨"]),
        ("找张伟和章炜", ["张伟", "章炜"]),
        ("通义千问很好", ["同意", "通义千问"]),
        ("give it to us", ["US", "IT"]),
        ("I read is good", ["Redis"]),
        ("the road is closed", ["Redis"]),
        ("look at the cloud", ["Claude"]),
        ("an annual report", ["Ann"]),
        ("Kubernetes is here", ["kubernetes"]),
        ("他们来了", ["file:///etc/passwd", "http://10.0.0.1/x", "../../x"]),
        ("", ["阿里巴巴"]),
    ],
)
def test_what_is_right_or_may_be_is_left_alone(text: str, phrases: list[str]) -> None:
    assert corrected(text, *phrases) == text


def test_200_sentences_stay_as_they_are_with_100_hot_words_of_other_things() -> None:
    assert (len(SENTENCES), len(set(HUNDRED))) == (200, 100)
    for weight in (1.0, 20.0):
        changed = [text for text in SENTENCES if corrected(text, *HUNDRED, weight=weight) != text]
        assert changed == []


def test_homophones_of_hot_words_are_found_far_more_often() -> None:
    draw = random.Random(3)
    usual = sorted({char for text in SENTENCES for char in text if readings(char)})
    same_sound: dict[str, list[str]] = {}
    for char in usual:
        same_sound.setdefault(readings(char)[0].pinyin, []).append(char)
    phrases = [phrase for phrase in HUNDRED if not phrase.isascii()]
    before = after = 0
    for phrase in phrases:
        heard = "".join(draw.choice(same_sound.get(readings(char)[0].pinyin, [char])) for char in phrase)
        text = f"今天我们来谈谈{heard}的情况"
        before += phrase in text
        after += phrase in corrected(text, *HUNDRED)
    assert after - before >= 0.8 * len(phrases)


def test_rare_names_in_what_a_model_heard_are_written_and_nothing_else_changes() -> None:
    clips = json.loads((SPEECH / "hotwords.json").read_text())
    plain = json.loads((SPEECH / "manifest.json").read_text())
    names = [clip["name"] for clip in clips]
    heard = [clip for clip in clips if clip["name"] not in clip["text"]]
    right = [clip for clip in heard if corrected(clip["text"], *names) == clip["text_with_name"]]
    assert (len(clips), len(heard)) == (40, 40)
    assert len(right) >= 0.9 * len(heard)
    assert [clip["text"] for clip in plain if corrected(clip["text"], *names) != clip["text"]] == []


def test_a_weight_makes_up_for_a_sound_that_is_only_near() -> None:
    assert corrected("我们去胡建", "福建", weight=0.5) == "我们去胡建"
    assert corrected("我们去胡建", "福建", weight=4) == "我们去福建"
    assert corrected("啊里爸爸", "阿里巴巴", weight=0) == "啊里爸爸"


def test_only_the_highest_weight_takes_the_place_of_a_known_word() -> None:
    assert corrected("明天下雨", "夏雨", weight=30) == "明天下雨"
    assert corrected("明天下雨", "夏雨", weight=100) == "明天夏雨"


def test_of_hot_words_of_one_sound_the_surer_one_is_written() -> None:
    assert corrected("找章薇", "张卫", "张薇") == "找张薇"


def test_law_5_each_character_keeps_its_times() -> None:
    text = "啊里爸爸 来了"
    words = tuple(Word(char, at * 100, at * 100 + 80, 0.5) for at, char in enumerate(text) if char != " ")
    told = HotwordIndex(listed("阿里巴巴")).correct(timed(text, words), "zh")
    assert [word.text for word in told.words] == list("阿里巴巴来了")
    assert [(word.start_ms, word.end_ms) for word in told.words] == [(word.start_ms, word.end_ms) for word in words]


def test_law_5_words_that_become_one_have_its_times() -> None:
    words = (
        Word("Comfy", 0, 300, 1.0),
        Word("you", 300, 400, 0.5),
        Word("I", 400, 500, 0.6),
        Word("see", 500, 600, 1.0),
    )
    told = HotwordIndex(listed("ComfyUI")).correct(timed("Comfy you I see", words), "en")
    assert [(word.text, word.start_ms, word.end_ms) for word in told.words] == [("ComfyUI", 0, 500), ("see", 500, 600)]


def test_numbers_in_hot_words_stay_as_the_list_writes_them() -> None:
    told = TEXT.finish(FinishRequest("我看了三十六计和第三十六集", language="zh", hotwords=listed("三十六计")))
    assert told.text.startswith("我看了三十六计和")
    assert told.hotwords == ("三十六计",)


@pytest.mark.parametrize(
    ("text", "marks", "phrases", "expected"),
    [
        ("联系余验明", {3: "，", 5: "。"}, ["于雁茗"], "联系于雁茗。"),
        ("请转验诉听你好", {4: "。", 5: "？", 7: "。"}, ["晏溯汀"], "请转晏溯汀？你好。"),
        ("我用通义千问写的", {4: "，", 8: "。"}, ["通义千问"], "我用通义千问写的。"),
        ("i like comfy you i a lot", {13: ",", 24: "."}, ["ComfyUI"], "I like ComfyUI a lot."),
        ("我到了同意你去", {3: "，", 7: "。"}, ["通义千问"], "我到了，同意你去。"),
    ],
)
def test_a_punctuator_s_mark_divides_no_hot_word(
    text: str, marks: dict[int, str], phrases: list[str], expected: str
) -> None:
    told = tuple(Mark(at, mark) for at, mark in marks.items())
    request = FinishRequest(text, language=language_of(text), marks=told, hotwords=listed(*phrases))
    assert TEXT.finish(request).text == expected


def test_sentences_one_after_the_other_without_a_mark_stay_as_they_are_too() -> None:
    draw = random.Random(4)
    bare = ["".join(filter(str.isalnum, text)) for text in SENTENCES if not text.isascii()]
    index = HotwordIndex(listed(*HUNDRED))
    assert [(one, other) for one in bare for other in draw.sample(bare, 5) if index.edits(one + other, "zh")] == []


def test_a_final_tells_which_hot_words_it_has() -> None:
    hotwords = listed("阿里巴巴", "ComfyUI", "达摩院")
    told = TEXT.finish(FinishRequest("啊里爸爸用 comfy UI", language="zh", hotwords=hotwords))
    assert told.text == "阿里巴巴用 ComfyUI"
    assert told.hotwords == ("阿里巴巴", "ComfyUI")


def test_other_languages_are_not_corrected_by_sound() -> None:
    told = TEXT.finish(FinishRequest("東京に行く", language="ja", hotwords=listed("冬京", "东京")))
    assert told.text == "東京に行く"


CHARS = st.sampled_from([*"阿啊里理力巴爸八同通义意一千问张章伟威的是我 ，。", *"comfyUIyou kaf"])
TEXTS = st.text(CHARS, max_size=24)
PHRASES = st.text(CHARS, max_size=8).map(lambda text: " ".join(text.split())).filter(bool)
WEIGHTS = st.sampled_from([0.0, 0.5, 1.0, 8.0, 100.0])
LISTS = st.lists(st.builds(Hotword, PHRASES, WEIGHTS), max_size=8).map(tuple)


@given(TEXTS, LISTS)
def test_edits_do_not_overlap_and_correcting_again_changes_nothing(text: str, hotwords: tuple[Hotword, ...]) -> None:
    edits = HotwordIndex(hotwords).edits(text, "zh")
    assert all(one.end <= other.start for one, other in pairwise(edits))
    assert all(edit.start < edit.end for edit in edits)
    once = HotwordIndex(hotwords).correct(TimedText(text), "zh")
    assert HotwordIndex(hotwords).correct(once, "zh") == once


@given(TEXTS, LISTS)
def test_law_5_words_tell_the_text_after_a_correction(text: str, hotwords: tuple[Hotword, ...]) -> None:
    words = tuple(Word(char, at, at + 1, 1.0) for at, char in enumerate(text) if not char.isspace())
    told = HotwordIndex(hotwords).correct(timed(text, words), "zh")
    assert "".join("".join(word.text.split()) for word in told.words) == "".join(told.text.split())
    starts = [word.start_ms for word in told.words]
    assert starts == sorted(starts)


def adversarial() -> list[tuple[Hotword, ...]]:
    """Lists of 100 phrases of up to 64 characters that all sound alike."""
    tails = [chr(0x4E00 + number) for number in range(MAX_HOTWORDS)]
    return [
        listed(*("啊" * (number % 63 + 2) + "阿" * (number // 63) for number in range(MAX_HOTWORDS))),
        listed(*("重" * (MAX_HOTWORD_CHARS - 1) + tail for tail in tails)),
        listed(*(("阿" + tail) * (MAX_HOTWORD_CHARS // 2) for tail in tails)),
    ]


@pytest.mark.parametrize("hotwords", adversarial())
@pytest.mark.parametrize("text", ["锕阿" * 200, "虫" * 400, "啊丁" * 200])
def test_law_7_lists_made_to_be_slow_cost_a_bounded_work_for_each_character(
    text: str, hotwords: tuple[Hotword, ...]
) -> None:
    index = ChineseHotwords(hotwords)
    list(index.candidates(text, ()))
    assert index.weighed <= WORK * len(text)


def test_law_7_the_work_on_a_text_does_not_grow_with_the_list() -> None:
    text = "今天我们来谈谈同意千问的情况，" * 20
    alone, among = ChineseHotwords(listed("通义千问")), ChineseHotwords(listed(*HUNDRED))
    assert "通义千问" in HUNDRED
    assert list(alone.candidates(text, ())) == list(among.candidates(text, ()))
    assert among.weighed <= 2 * alone.weighed


def test_law_7_runs_of_english_words_are_looked_up_a_bounded_number_of_times() -> None:
    index = EnglishHotwords(listed(*("ka ke ki ko " + "aeiou"[n % 5] * (n // 5) for n in range(MAX_HOTWORDS))))
    text = "ka " * 133
    list(index.candidates(text, ()))
    assert index.compared <= 133 * MAX_WORDS * (1 + MAX_SAME_SOUND)
    plain = EnglishHotwords(listed(*HUNDRED))
    list(plain.candidates("the weather is getting colder every day " * 10, ()))
    assert plain.compared <= 2 * 70
