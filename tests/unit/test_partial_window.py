"""Which stretch a partial decodes again."""

from streamscribe.core.partial_window import PartialWindow
from streamscribe.core.results import Word
from tests.unit.session_kit import word

SPOKEN = [word(f"w{i}", i * 500, i * 500 + 400) for i in range(200)]


def heard(start_ms: int, end_ms: int) -> list[Word]:
    """What a perfect model hears in a stretch."""
    return [w for w in SPOKEN if w.start_ms >= start_ms and w.end_ms <= end_ms]


def text_of(words: list[Word]) -> str:
    return " ".join(w.text for w in words)


def test_a_short_segment_is_decoded_whole() -> None:
    window = PartialWindow(0, 12_000)
    for end_ms in range(500, 9_000, 500):
        assert window.begin(end_ms) == 0
        words = heard(0, end_ms)
        assert window.read(text_of(words), words) == text_of(words)
        window.check_integrity()


def test_a_long_segment_moves_its_window_and_keeps_its_text() -> None:
    window = PartialWindow(0, 12_000)
    starts = set()
    for end_ms in range(500, 60_000, 500):
        start_ms = window.begin(end_ms)
        assert 0 <= end_ms - start_ms <= 9_500
        words = heard(start_ms, end_ms)
        assert window.read(text_of(words), words) == text_of(heard(0, end_ms))
        window.check_integrity()
        starts.add(start_ms)
    assert len(starts) > 5


def test_words_that_two_decodes_do_not_agree_on_are_not_committed() -> None:
    window = PartialWindow(0, 4_000)
    window.begin(3_400)
    window.read("a b c", [word("a", 0, 500), word("b", 500, 1000), word("c", 1000, 1500)])
    window.begin(3_800)
    window.read("a x c", [word("a", 0, 500), word("x", 500, 1000), word("c", 1000, 1500)])
    assert window.begin(4_000) == 500
    assert window.read("b c", []) == "a b c"


def test_without_word_times_the_whole_text_is_committed_at_the_bound() -> None:
    window = PartialWindow(1_000, 4_000)
    window.begin(4_900)
    window.read("今天天气", [])
    assert window.begin(5_400) == 4_900
    assert window.read("很好", []) == "今天天气很好"
    window.check_integrity()


def test_a_decode_that_was_given_up_leaves_its_stretch_to_the_next() -> None:
    window = PartialWindow(0, 4_000)
    window.begin(2_000)
    window.read("one", [])
    window.begin(3_900)
    assert window.begin(4_500) == 2_000
    window.check_integrity()


def test_nothing_decoded_for_longer_than_the_window_is_left_to_the_final() -> None:
    window = PartialWindow(0, 4_000)
    assert window.begin(10_000) == 6_000
    window.check_integrity()


def test_a_word_that_is_not_in_the_text_is_no_place_to_cut() -> None:
    window = PartialWindow(0, 4_000)
    for end_ms in (3_500, 3_900):
        window.begin(end_ms)
        window.read("eleven", [word("11", 0, 500)])
    assert window.begin(4_000) == 0
