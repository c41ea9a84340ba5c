"""Cues that can be read, in both formats."""

import re
from dataclasses import replace
from itertools import count, pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamscribe.core.results import Result, ResultType, Word
from streamscribe.text.cues import MAX_CUE_MS, MIN_CUE_MS
from streamscribe.text.subtitles import srt, vtt

_TIMES = re.compile(r"(\d\d+):(\d\d):(\d\d)[,.](\d{3}) --> (\d\d+):(\d\d):(\d\d)[,.](\d{3})")
_IDS = count()


def final(text: str, start_ms: int, end_ms: int, words: tuple[Word, ...] = (), channel: int = 0) -> Result:
    return Result(ResultType.FINAL, 2, next(_IDS), 1, 0, channel, text, len(text), start_ms, end_ms, words)


def spoken(text: str, ms_a_word: int, start_ms: int = 0) -> Result:
    said = text.split() if " " in text else list(text)
    times = range(start_ms, start_ms + ms_a_word * len(said), ms_a_word)
    words = tuple(Word(one, at, at + ms_a_word, 1.0) for one, at in zip(said, times, strict=True))
    return final(text, start_ms, words[-1].end_ms, words)


def cues(subtitles: str) -> list[tuple[int, int, list[str]]]:
    """Start, end and lines of each cue."""
    found = []
    for block in subtitles.strip().split("\n\n"):
        lines = block.split("\n")
        while lines and not _TIMES.fullmatch(lines[0]):
            lines.pop(0)
        if lines:
            h1, m1, s1, ms1, h2, m2, s2, ms2 = map(int, _TIMES.fullmatch(lines[0]).groups())  # type: ignore[union-attr]
            found.append((((h1 * 60 + m1) * 60 + s1) * 1000 + ms1, ((h2 * 60 + m2) * 60 + s2) * 1000 + ms2, lines[1:]))
    return found


def lines(subtitles: str) -> list[list[str]]:
    return [lines for _, _, lines in cues(subtitles)]


def times(subtitles: str) -> list[tuple[int, int]]:
    return [(start, end) for start, end, _ in cues(subtitles)]


def test_srt_counts_its_cues_and_writes_whole_milliseconds() -> None:
    assert srt([final("你好。", 0, 1999), final("Bye.", 3_599_999, 3_601_000)]) == (
        "1\n00:00:00,000 --> 00:00:01,999\n你好。\n\n2\n00:59:59,999 --> 01:00:01,000\nBye.\n"
    )


@pytest.mark.parametrize(
    ("ms", "clock"),
    [(59_999, "00:00:59.999"), (60_000, "00:01:00.000"), (86_399_999, "23:59:59.999"), (360_000_000, "100:00:00.000")],
)
def test_clocks_carry_to_minutes_and_hours(ms: int, clock: str) -> None:
    assert vtt([final("好", ms, ms + 1000)]).split("\n")[2].startswith(clock + " --> ")


def test_vtt_has_its_header_and_escapes_markup() -> None:
    assert vtt([final("a < b & c --> d", 0, 1000)]) == (
        "WEBVTT\n\n00:00:00.000 --> 00:00:01.000\na &lt; b &amp; c --&gt; d\n"
    )


def test_srt_has_no_second_arrow_and_no_empty_line() -> None:
    assert srt([final("a --> b\n\nc", 0, 1000)]).split("\n")[2] == "a → b c"


def test_nothing_said_is_no_cue() -> None:
    assert srt([final("  ", 0, 1000)]) == ""
    assert vtt([]) == "WEBVTT\n"


def test_only_the_last_pass_of_a_segment_is_told() -> None:
    first = Result(ResultType.FINAL, 1, 7, 3, 0, 0, "first pass", 10, 0, 2000)
    second = replace(first, pass_=2, version=5, text="second pass")
    partial = replace(first, type=ResultType.PARTIAL, pass_=2, version=9, text="partial")
    other = replace(first, segment_id=8, text="another", start_ms=3000, end_ms=5000)
    assert lines(srt([first, second, partial, other])) == [["second pass"], ["another"]]


def test_a_long_segment_is_cut_at_its_clauses() -> None:
    text = "今天我们在会议室里讨论了很多的问题，后来大家又去楼下的饭店一起吃了晚饭，然后各自坐车回家休息。"
    expected = [
        ["今天我们在会议室里讨论了很多的问题，", "后来大家又去楼下的饭店一起吃了晚饭，"],
        ["然后各自坐车回家休息。"],
    ]
    assert lines(srt([spoken(text, 150)])) == expected
    assert lines(srt([final(text, 0, 9000)])) == expected


def test_two_lines_are_of_about_one_length_and_tear_no_word() -> None:
    text = "Ask not what your country can do for you, ask what you can do for your country."
    assert lines(vtt([spoken(text, 300)])) == [
        ["Ask not what your country can do for you,", "ask what you can do for your country."]
    ]


def test_a_line_ends_with_a_clause_rather_than_in_the_middle() -> None:
    text = "我昨天去了北京的故宫，今天打算去长城看看风景"
    assert lines(srt([final(text, 0, 5000)])) == [["我昨天去了北京的故宫，", "今天打算去长城看看风景"]]


@pytest.mark.parametrize("whole", ["1,234.56", "35.5%", "iPhone", "3:30", "C919", "don't", "a.b/c", "$5"])
def test_no_line_break_tears_a_word_or_a_number(whole: str) -> None:
    for before in range(12, 24):
        text = "很" * before + whole + "，" + "好" * 15
        for words in ((), tuple(Word(char, 10 * at, 10 * at + 10, 1.0) for at, char in enumerate(text))):
            told = lines(srt([final(text, 0, 5000, words)]))
            assert any(whole + "，" in line for cue in told for line in cue), told


def test_no_line_begins_with_a_mark_or_ends_with_a_bracket() -> None:
    for before in range(10, 45):
        text = "很" * before + "，（好）。“对”" + "的" * 20
        for cue in lines(srt([final(text, 0, 6000)])):
            assert all(line[0] not in "，）。”" and line[-1] not in "（“" for line in cue)


def test_slow_speech_is_cut_by_time() -> None:
    assert times(srt([spoken("一 二 三 四", 3_000)])) == [(0, 6_000), (6_000, 12_000)]


def test_without_words_times_are_guessed_from_the_text() -> None:
    found = cues(srt([final("很" * 80, 0, 20_000)]))
    assert [(start, end) for start, end, _ in found] == [(0, 7_000), (7_000, 14_000), (14_000, 20_000)]
    assert "".join(line for _, _, lines in found for line in lines) == "很" * 80


def test_a_short_cue_stays_for_a_second_where_the_next_lets_it() -> None:
    assert times(srt([final("好", 0, 200), final("是", 600, 700), final("对", 5000, 5100)])) == [
        (0, 600),
        (600, 1600),
        (5000, 6000),
    ]


def test_quick_speech_stays_for_as_long_as_reading_takes() -> None:
    assert times(srt([final("很" * 38, 0, 2000)])) == [(0, 3990)]
    assert times(srt([final("很" * 38, 0, 2000), final("好", 2500, 4000)]))[0] == (0, 2500)


def test_channels_are_speakers_in_the_order_of_their_times() -> None:
    results = [final("one", 0, 900), final("three", 3000, 3500), final("two", 1000, 2000, channel=1)]
    assert lines(srt(results)) == [["Speaker 1: one"], ["Speaker 2: two"], ["Speaker 1: three"]]
    assert lines(vtt(results)) == [["<v Speaker 1>one"], ["<v Speaker 2>two"], ["<v Speaker 1>three"]]
    chinese = [final("你好", 0, 900), final("在吗", 1000, 2000, channel=1)]
    assert lines(srt(chinese)) == [["说话人1：你好"], ["说话人2：在吗"]]
    assert lines(vtt(chinese)) == [["<v 说话人1>你好"], ["<v 说话人2>在吗"]]


def test_two_that_speak_at_once_are_shown_one_after_the_other() -> None:
    results = [final("one", 0, 3000), final("two", 0, 3000, channel=1), final("three", 500, 3000, channel=1)]
    assert times(srt(results)) == [(0, 1000), (1000, 2000), (2000, 3000)]


def test_a_mark_at_the_head_is_shown_with_what_it_ends() -> None:
    words = (Word("，再", 1000, 1500, 1.0), Word("见", 1500, 2000, 1.0))
    results = [final("你好", 0, 1000, (Word("你好", 0, 1000, 1.0),)), final("，再见", 1000, 2000, words)]
    assert lines(srt(results)) == [["你好，"], ["再见"]]


_WORDS = st.lists(
    st.tuples(
        st.sampled_from(["你", "好，", "世界。", "hello ", "world. ", "3.5% ", "x" * 60 + " "]), st.integers(0, 9000)
    ),
    min_size=1,
    max_size=30,
)
_SEGMENTS = st.lists(st.tuples(_WORDS, st.booleans(), st.integers(0, 3), st.integers(-5000, 5000)), max_size=4)


@given(_SEGMENTS)
def test_cues_are_in_order_readable_apart_and_tell_all(
    segments: list[tuple[list[tuple[str, int]], bool, int, int]],
) -> None:
    results, at = [], 0
    for said, timed, channel, gap in segments:
        text, words, start_ms = "", [], max(0, at + gap)
        at = start_ms
        for word, ms in said:
            text += word
            words.append(Word(word.strip(), at, at + ms, 1.0))
            at += ms
        results.append(final(text, start_ms, at, tuple(words) if timed else (), channel))
    found = cues(srt(results))
    assert times(vtt(results)) == [(start, end) for start, end, _ in found]
    told = "".join("".join(lines) for _, _, lines in found)
    for channel in {result.channel for result in results} if len({result.channel for result in results}) > 1 else ():
        told = told.replace(f"Speaker {channel + 1}: ", "").replace(f"说话人{channel + 1}：", "")
    said = "".join(result.text for result in results)
    assert sorted(told.replace(" ", "")) == sorted(said.replace(" ", ""))
    assert all(start < end <= start + MAX_CUE_MS for start, end, _ in found)
    assert all(end <= start for (_, end, _), (start, _, _) in pairwise(found))
    for _, _, cue in found:
        assert len(cue) <= 2
        assert all(len(line) <= 42 for line in cue if "x" * 60 not in line)
    if len(found) == 1:
        assert found[0][1] - found[0][0] >= MIN_CUE_MS
