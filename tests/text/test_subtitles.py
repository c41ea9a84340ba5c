"""Cues that can be read, in both formats."""

import re

from hypothesis import given, settings
from hypothesis import strategies as st

from streamscribe.core.results import Result, ResultType, Word
from streamscribe.text.subtitles import MAX_CUE_MS, srt, vtt

_TIMES = re.compile(r"(\d+):(\d\d):(\d\d)[,.](\d{3}) --> (\d+):(\d\d):(\d\d)[,.](\d{3})")


def final(text: str, start_ms: int, end_ms: int, words: tuple[Word, ...] = (), channel: int = 0) -> Result:
    return Result(ResultType.FINAL, 2, 0, 1, 0, channel, text, len(text), start_ms, end_ms, words)


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


def test_srt_counts_its_cues_and_writes_whole_milliseconds() -> None:
    assert srt([final("你好。", 0, 999), final("Bye.", 3_599_999, 3_600_000)]) == (
        "1\n00:00:00,000 --> 00:00:00,999\n你好。\n\n2\n00:59:59,999 --> 01:00:00,000\nBye.\n"
    )


def test_vtt_has_its_header_and_escapes_markup() -> None:
    assert vtt([final("a < b & c --> d", 0, 1000)]) == (
        "WEBVTT\n\n00:00:00.000 --> 00:00:01.000\na &lt; b &amp; c --&gt; d\n"
    )


def test_srt_has_no_second_arrow_and_no_empty_line() -> None:
    assert srt([final("a --> b\n\nc", 0, 1000)]).split("\n")[2] == "a → b c"


def test_nothing_said_is_no_cue() -> None:
    assert srt([final("  ", 0, 1000)]) == ""
    assert vtt([]) == "WEBVTT\n"


def test_a_long_segment_is_cut_at_its_clauses() -> None:
    text = "今天我们在会议室里讨论了很多的问题，后来大家又去楼下的饭店一起吃了晚饭，然后各自坐车回家休息。"
    assert [lines for _, _, lines in cues(srt([spoken(text, 150)]))] == [
        ["今天我们在会议室里讨论了很多的问题，", "后来大家又去楼下的饭店一起吃了晚饭，"],
        ["然后各自坐车回家休息。"],
    ]


def test_two_lines_are_of_about_one_length_and_tear_no_word() -> None:
    text = "Ask not what your country can do for you, ask what you can do for your country."
    ((_, _, lines),) = cues(vtt([spoken(text, 300)]))
    assert lines == ["Ask not what your country can do for you,", "ask what you can do for your country."]


def test_slow_speech_is_cut_by_time() -> None:
    assert [(start, end) for start, end, _ in cues(srt([spoken("一 二 三 四", 3_000)]))] == [
        (0, 6_000),
        (6_000, 12_000),
    ]


def test_without_words_times_are_guessed_from_the_text() -> None:
    found = cues(srt([final("很" * 80, 0, 20_000)]))
    assert [(start, end) for start, end, _ in found] == [(0, 7_000), (7_000, 14_000), (14_000, 20_000)]
    assert "".join(line for _, _, lines in found for line in lines) == "很" * 80


def test_channels_are_told_in_the_order_of_their_times() -> None:
    results = [final("one", 0, 900), final("three", 2000, 2500), final("two", 1000, 3000, channel=1)]
    assert [lines for _, _, lines in cues(srt(results))] == [["one"], ["two"], ["three"]]


_WORDS = st.lists(
    st.tuples(st.sampled_from(["你", "好，", "世界。", "hello ", "world. ", "x" * 60 + " "]), st.integers(0, 9000)),
    min_size=1,
    max_size=40,
)


@settings(deadline=None)
@given(_WORDS, st.booleans(), st.integers(0, 10_000))
def test_cues_are_monotone_readable_and_tell_all(said: list[tuple[str, int]], timed: bool, start_ms: int) -> None:
    text, at, words = "", start_ms, []
    for word, ms in said:
        text += word
        words.append(Word(word.strip(), at, at + ms, 1.0))
        at += ms
    result = final(text, start_ms, at, tuple(words) if timed else ())
    found = cues(srt([result]))
    assert cues(vtt([result])) == found
    assert "".join("".join(lines) for _, _, lines in found).replace(" ", "") == text.replace(" ", "")
    assert [start for start, _, _ in found] == sorted(start for start, _, _ in found)
    for start, end, lines in found:
        assert start < end <= start + MAX_CUE_MS
        assert len(lines) <= 2
        assert all(len(line) <= 42 for line in lines if "x" * 60 not in line)
