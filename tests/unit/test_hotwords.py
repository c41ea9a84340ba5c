"""What clients send as hot words, and what comes of it."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamscribe.core.errors import BadRequest
from streamscribe.core.hotwords import (
    MAX_HOTWORDS_TEXT_CHARS,
    MAX_IGNORED,
    merge_hotwords,
    parse_hotwords,
    read_hotwords,
)
from streamscribe.core.options import MAX_HOTWORD_CHARS, MAX_HOTWORDS, Hotword


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (None, []),
        ("", []),
        ("  ", []),
        ("{}", []),
        ([], []),
        ("阿里巴巴,通义实验室", [("阿里巴巴", 1), ("通义实验室", 1)]),
        ("阿里巴巴，通义实验室、达摩院", [("阿里巴巴", 1), ("通义实验室", 1), ("达摩院", 1)]),
        ("New  York, ComfyUI,", [("New York", 1), ("ComfyUI", 1)]),
        ("阿里巴巴 通义实验室", [("阿里巴巴", 1), ("通义实验室", 1)]),
        ("阿里巴巴\n通义实验室", [("阿里巴巴", 1), ("通义实验室", 1)]),
        ('{"阿里巴巴":20,"通义实验室":30}', [("阿里巴巴", 20), ("通义实验室", 30)]),
        ('{"阿里巴巴":"20"}', [("阿里巴巴", 20)]),
        ('["one two", {"phrase": "three", "weight": 2.5}]', [("one two", 1), ("three", 2.5)]),
        ({"a": 1, "b": 2}, [("a", 1), ("b", 2)]),
        (["a", "b", "a"], [("b", 1), ("a", 1)]),
        ([{"phrase": "a"}, {"phrase": "a", "weight": 3}], [("a", 3)]),
        ((Hotword("a", 4.0),), [("a", 4)]),
        ([" ", "a"], [("a", 1)]),
    ],
)
def test_every_form_that_clients_send_is_understood(value: object, expected: list[tuple[str, float]]) -> None:
    assert parse_hotwords(value) == tuple(Hotword(phrase, float(weight)) for phrase, weight in expected)


@pytest.mark.parametrize(
    ("value", "says"),
    [
        (7, "a list, an object or a string"),
        ([1], "a string"),
        ([{"weight": 1}], "a string"),
        ("{not json", "JSON"),
        ("[" * 50_000, "JSON"),
        ('{"a": true}', "a number from 0 to 100"),
        ({"a": -1}, "a number from 0 to 100"),
        ({"a": "x"}, "a number from 0 to 100"),
        ({"a": float("nan")}, "a number from 0 to 100"),
        ({"a": 10**400}, "a number from 0 to 100"),
        ({"a": None}, "a number from 0 to 100"),
        (["a\x00b"], "printed"),
        (["x" * (MAX_HOTWORD_CHARS + 1)], str(MAX_HOTWORD_CHARS)),
        ([str(n) for n in range(MAX_HOTWORDS + 1)], str(MAX_HOTWORDS)),
        ("x" * (MAX_HOTWORDS_TEXT_CHARS + 1), str(MAX_HOTWORDS_TEXT_CHARS)),
    ],
)
def test_what_is_wrong_is_refused_by_an_error_that_names_field_and_limit(value: object, says: str) -> None:
    with pytest.raises(BadRequest, match="hotwords") as caught:
        parse_hotwords(value, field="start.hotwords")
    assert says in caught.value.message
    assert caught.value.field == "start.hotwords"


def test_the_largest_allowed_list_is_taken() -> None:
    phrases = [f"{n:0{MAX_HOTWORD_CHARS}d}" for n in range(MAX_HOTWORDS)]
    assert [hotword.phrase for hotword in parse_hotwords(json.dumps(phrases))] == phrases


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=8,
)


@given(_JSON | _JSON.map(json.dumps))
def test_anything_a_peer_sends_gives_bounded_hot_words_or_a_bad_request(value: object) -> None:
    try:
        hotwords = parse_hotwords(value)
    except BadRequest:
        return
    assert len({hotword.phrase for hotword in hotwords}) == len(hotwords) <= MAX_HOTWORDS
    for hotword in hotwords:
        assert 0 < len(hotword.phrase) <= MAX_HOTWORD_CHARS
        assert 0.0 <= hotword.weight <= 100.0
    assert parse_hotwords(hotwords) == hotwords


def test_phrases_that_cannot_be_taken_are_told_and_lose_no_other() -> None:
    read = read_hotwords(["a", 7, "x" * 65, "b\ud800", {"phrase": "c", "weight": "heavy"}, "d"])
    assert [hotword.phrase for hotword in read.accepted] == ["a", "d"]
    assert [(one.phrase, one.reason) for one in read.ignored] == [
        ("", "a phrase must be a string"),
        ("x" * 64, "a phrase is longer than 64 characters"),
        ("b\ufffd", "a phrase holds characters that cannot be printed"),
        ("c", "a weight must be a number from 0 to 100"),
    ]


def test_of_too_many_phrases_the_first_are_taken_and_what_is_told_is_bounded() -> None:
    read = read_hotwords([str(n) for n in range(3 * MAX_HOTWORDS)])
    assert [hotword.phrase for hotword in read.accepted] == [str(n) for n in range(MAX_HOTWORDS)]
    assert len(read.ignored) == MAX_IGNORED
    assert read.ignored[0].phrase == str(MAX_HOTWORDS)


@pytest.mark.parametrize("phrase", ["file:///etc/passwd", "/etc/passwd", "http://10.0.0.1/", "../x.txt", "$(id)"])
def test_a_phrase_like_a_path_or_an_address_is_a_phrase(phrase: str) -> None:
    assert parse_hotwords([phrase]) == (Hotword(phrase),)


def test_two_lists_merge_within_the_bound_and_the_first_wins() -> None:
    first = tuple(Hotword(f"s{n}", 2.0) for n in range(60))
    second = (Hotword("s0", 9.0), *(Hotword(f"t{n}") for n in range(60)))
    merged = merge_hotwords(first, second)
    assert merged == (*first, *second[1:41])
    assert len(merged) == MAX_HOTWORDS
