"""Which sounds are held to be one."""

import pytest

from streamscribe.text.sound import consonants, readings, shared_sound, voiceless


@pytest.mark.parametrize(
    ("one", "other"),
    [("zhang", "zan"), ("chi", "ci"), ("shen", "seng"), ("nin", "ling"), ("nv", "lv"), ("fei", "hui"), ("fu", "hu"),
     ("hong", "feng"), ("xiang", "xian"), ("guang", "guan"), ("huang", "fan"), ("hun", "fen")],
)  # fmt: skip
def test_syllables_that_are_confused_share_a_sound(one: str, other: str) -> None:
    assert shared_sound(one) == shared_sound(other)


@pytest.mark.parametrize(
    ("one", "other"), [("zhang", "chang"), ("ba", "pa"), ("xi", "shi"), ("ha", "fa"), ("wen", "wan")]
)
def test_others_do_not(one: str, other: str) -> None:
    assert shared_sound(one) != shared_sound(other)


def test_a_character_has_its_usual_readings_the_first_one_foremost() -> None:
    assert [(one.pinyin, one.tone) for one in readings("长")][:2] == [("zhang", "3"), ("chang", "2")]
    assert [one.pinyin for one in readings("浩")] == ["hao"]
    assert readings("a") == readings("，") == ()


@pytest.mark.parametrize(
    ("one", "other"),
    [("kubernetes", "kubernetties"), ("kafka", "cafka"), ("photo", "foto"), ("night", "nite"), ("knight", "night"),
     ("quick", "kwik"), ("schema", "skema"), ("whisper", "wisper")],
)  # fmt: skip
def test_words_that_sound_alike_have_the_same_consonants(one: str, other: str) -> None:
    assert consonants(one) == consonants(other)


def test_voices_may_be_left_out() -> None:
    assert voiceless(consonants("kuber")) == voiceless(consonants("cooper"))
    assert consonants("kuber") != consonants("cooper")
