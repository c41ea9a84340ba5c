"""Rules and redaction: what is found and when it was said, and what nobody sees."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamscribe.compiled import Compiled
from streamscribe.core.ids import TenantId
from streamscribe.core.results import Word
from streamscribe.core.rules import Rule, RuleHit, RuleKind, TextPolicy
from streamscribe.text.phrases import Found, PhraseFinder, fold, leftmost_longest
from streamscribe.text.pipeline import Finished, FinishRequest, TextPipeline
from streamscribe.text.redaction import MASK, Redactor
from streamscribe.text.spoken_digits import DIGIT_CHARS
from streamscribe.text.timed import shown_words
from tests.text.kit import TEXT

PROMISES = Rule("promises", RuleKind.PROMISED, ("保本", "保本保息", "百分之百", "in writing"))
PRODUCTS = Rule("products", RuleKind.PRODUCT, ("ABC Pro", "余额宝"))
RULES = TextPolicy((PROMISES, PRODUCTS))
DIGITS = TextPolicy(redact_digits=True)


def finish(text: str, policy: TextPolicy, *, times: tuple[int, int] = (0, 900), **more: object) -> Finished:
    language = "en" if text.isascii() else "zh"
    start_ms, end_ms = times
    return TEXT.finish(
        FinishRequest(text, language=language, policy=policy, start_ms=start_ms, end_ms=end_ms, **more)  # type: ignore[arg-type]
    )


def each_char(text: str) -> tuple[Word, ...]:
    return tuple(Word(char, at * 100, at * 100 + 100, 1.0) for at, char in enumerate(text))


def found(text: str, *phrases: str) -> list[str]:
    return [text[one.start : one.end] for one in PhraseFinder(phrases).find(text)]


@pytest.mark.parametrize(
    ("text", "phrase", "expected"),
    [
        ("我们保本", "保本", ["保本"]),
        ("我们保 本", "保本", ["保 本"]),
        ("用 ＡＢＣ  pro 吧", "abc Pro", ["ＡＢＣ  pro"]),
        ("用ABC吧", "用 abc 吧", ["用ABC吧"]),
        ("in writing", "IN  WRITING", ["in writing"]),
        ("inwriting", "in writing", []),
        ("an annual plan", "an", ["an"]),
        ("15G和5G", "5g", ["5G"]),
        ("İstanbul", "istanbul", []),
        ("Straße", "STRASSE", []),
        ("", "x", []),
        ("x", " ", []),
    ],
)
def test_phrases_are_found_whatever_their_case_width_and_spacing(text: str, phrase: str, expected: list[str]) -> None:
    assert found(text, phrase) == expected


def test_phrases_that_are_equal_when_folded_are_all_found() -> None:
    assert [one.phrase for one in PhraseFinder(["保本", "x", "保 本"]).find("保本")] == [0, 2]


def test_of_phrases_that_overlap_the_leftmost_and_longest_stay() -> None:
    overlapping = [Found(0, 0, 2), Found(1, 0, 4), Found(2, 3, 6), Found(3, 4, 5)]
    assert leftmost_longest(overlapping) == [Found(1, 0, 4), Found(3, 4, 5)]
    longest = PhraseFinder(["保本", "保本保息", "本保"], longest=True).find("保本保息")
    assert [one.phrase for one in longest] == [1]


@given(st.text(st.sampled_from("aB　Ａ 保本\nẞİ１"), max_size=12))
def test_folded_characters_know_where_they_stand(text: str) -> None:
    folded, places = fold(text)
    assert len(folded) == len(places)
    assert all(one < other for one, other in pairwise(places))
    assert all(0 <= place < len(text) for place in places)


def test_law_5_a_hit_has_the_times_of_its_words() -> None:
    text = "我们保本保息"
    told = finish(text, RULES, words=each_char(text))
    assert told.hits == (RuleHit("promises", RuleKind.PROMISED, "保本保息", 200, 600),)
    assert told.text == text


def test_a_hit_in_a_text_without_words_has_the_segments_times() -> None:
    assert finish("我们保本", RULES, times=(700, 1900)).hits == (
        RuleHit("promises", RuleKind.PROMISED, "保本", 700, 1900),
    )


def test_each_rule_has_its_own_hits() -> None:
    policy = TextPolicy((Rule("a", RuleKind.PRODUCT, ("ABC Pro",)), Rule("b", RuleKind.FORBIDDEN, ("pro",))))
    assert [(hit.rule, hit.phrase) for hit in finish("use abc pro now", policy).hits] == [
        ("a", "ABC Pro"),
        ("b", "pro"),
    ]


def test_a_phrase_is_found_as_it_was_spoken_and_as_it_is_written_but_once() -> None:
    assert [hit.phrase for hit in finish("百分之百保本", RULES).hits] == ["百分之百", "保本"]
    written = TextPolicy((Rule("all", RuleKind.PROMISED, ("100%", "保本")),))
    assert sorted(hit.phrase for hit in finish("百分之百保本", written).hits) == ["100%", "保本"]


def test_a_phrase_in_traditional_characters_is_found_in_simplified_text() -> None:
    policy = TextPolicy((Rule("r", RuleKind.FORBIDDEN, ("保證",)),), redact=("張三",))
    told = finish("我們保證，張三說", policy)
    assert [hit.phrase for hit in told.hits] == ["保证"]
    assert "张三" not in told.text
    assert "**说" in told.text


def test_a_text_without_rules_has_no_hits() -> None:
    assert finish("我们保本", TextPolicy()).hits == ()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("卡号是六二二五八八零零一二", "卡号是**********"),
        ("电话一三八，零零一三，八零零零", None),
        ("尾号是八八零六，余额五万三千二百元", None),
        ("密码是六", "密码是*"),
        ("我有一个问题，第一次来，一起走", "我有一个问题，第一次来，一起走"),
        ("千万不要万一", "千万不要万一"),
        ("my pin is four two", None),
        ("no one knows", "no one knows"),
    ],
)
def test_digits_are_masked_in_finals_also_where_they_are_told_in_words(text: str, expected: str | None) -> None:
    for itn in (True, False):
        told = finish(text, DIGITS, itn=itn).text
        assert not any(char.isdigit() for char in told)
        assert not set("二三四五六七八九零") & set(told)
        assert "two" not in told
        if expected is not None:
            assert told.lower() == expected


def test_listed_words_are_masked_wherever_they_are_and_overlap() -> None:
    policy = TextPolicy(redact=("张三", "三丰", "Bob"))
    assert finish("张三丰和 bob 说 bobby", policy).text == "***和 *** 说 bobby"


def test_law_5_masked_words_keep_their_times() -> None:
    text = "我叫张三"
    told = finish(text, TextPolicy(redact=("张三",)), words=each_char(text))
    assert [(word.text, word.start_ms) for word in told.words] == [("我", 0), ("叫", 100), ("*", 200), ("*", 300)]


def test_a_hit_does_not_tell_what_is_redacted() -> None:
    policy = TextPolicy((Rule("r", RuleKind.FORBIDDEN, ("张三", "密码123")),), ("张三",), redact_digits=True)
    told = finish("张三的密码123", policy)
    assert [hit.phrase for hit in told.hits] == ["**", "密码***"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("卡号是六二", "卡号是**"),
        ("一个人", "*个人"),
        ("1２³", "***"),
        ("my pin is four tw", "my pin is ****"),
        ("my pin is twenty two", "my pin is ******"),
        ("my pin is twenty two.", "my pin is ****** ***."),
        ("wonder", "wonder"),
        ("我叫张", "我叫"),
        ("我叫张三", "我叫"),
        ("我叫张三丰", "我叫***"),
        ("我叫张三吧", "我叫**吧"),
        ("我叫张开", "我叫张开"),
        ("I am bo", "I am"),
        ("I am bob", "I am"),
        ("I am bob,", "I am ***,"),
        ("I am bobby ", "I am bobby "),
        ("", ""),
    ],
)
def test_drafts_are_masked_and_hold_back_what_may_become_a_listed_word(text: str, expected: str) -> None:
    policy = TextPolicy(redact=("张三", "张三丰", "Bob"), redact_digits=True)
    assert TEXT.draft(text, "en" if text.isascii() else "zh", TEXT.policy(policy)) == expected


def test_the_words_of_a_draft_are_masked_with_it() -> None:
    words = (Word("卡", 0, 100, 1.0), Word("號", 100, 200, 1.0), Word("6", 200, 300, 1.0), Word("张", 300, 400, 1.0))
    text = "卡號6张"
    draft = TEXT.draft(text, "zh", TEXT.policy(TextPolicy(redact=("张三",), redact_digits=True)))
    told = shown_words(text, draft, words)
    assert [(word.text, word.start_ms) for word in told] == [("卡", 0), ("号", 100), ("*", 200)]
    assert shown_words("other", "other", words) == ()
    assert shown_words("other", "other", ()) == ()


def test_a_draft_without_a_policy_is_as_it_was() -> None:
    assert TEXT.draft("卡号是六二25", "zh") == "卡号是六二25"


CHARS = st.sampled_from([*"张三丰一二六个 ，12２", *"bob twoneLé"])
WORDS = st.lists(st.text(CHARS, min_size=1, max_size=4), max_size=4)


@given(WORDS, st.booleans(), st.text(CHARS, max_size=20))
def test_nothing_listed_is_left_and_the_length_stays(words: list[str], digits: bool, text: str) -> None:
    redactor = Redactor(words, digits=digits)
    for told in (redactor.mask(text), redactor.draft(text)):
        for one in PhraseFinder(words).find(text):
            assert set(told[one.start : one.end]) <= {MASK, " "}
        assert not (digits and any(char.isdigit() for char in told))
    assert len(redactor.mask(text)) == len(text)
    assert not (digits and set(DIGIT_CHARS) & set(redactor.draft(text)))


@given(WORDS, st.booleans(), st.text(CHARS, max_size=20), st.integers(0, 20))
def test_the_draft_of_a_text_that_goes_on_goes_on(words: list[str], digits: bool, text: str, at: int) -> None:
    redactor = Redactor(words, digits=digits)
    assert redactor.draft(text).startswith(redactor.draft(text[:at]).rstrip())


def test_what_was_made_of_a_list_is_kept_within_bounds() -> None:
    made: list[str] = []
    cache = Compiled(lambda text: made.append(text) or text.upper(), len, max_entries=2, max_size=6)
    for text in ("ab", "ab", "cd", "ab", "ef", "ab", "cd", "too long", "too long"):
        assert cache.of(None, text) == text.upper()
        cache.check_integrity()
    assert made == ["ab", "cd", "ef", "cd", "too long", "too long"]
    assert len(cache) == 2


def test_law_9_what_was_made_for_one_tenant_serves_no_other() -> None:
    made: list[str] = []
    cache = Compiled(lambda text: made.append(text) or text.upper(), len)
    for tenant in ("one", "other", "one"):
        assert cache.of(TenantId(tenant), "ab") == "AB"
    assert made == ["ab", "ab"]
    pipeline = TextPipeline()
    one, other, again = (pipeline.policy(DIGITS, TenantId(tenant)) for tenant in ("one", "other", "one"))
    assert one is again
    assert one is not other
