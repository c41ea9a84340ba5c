"""What every punctuator promises. A test class of an engine inherits it and names its fixture.

Beside `punctuator`, an engine gives `texts`: three texts without marks that are of several words each.
"""

import pytest

from streamscribe.models.ports import Punctuator

ENDS = "。？！.?!"


class PunctuatorContract:
    @pytest.fixture
    def punctuator(self) -> Punctuator:
        raise NotImplementedError

    @pytest.fixture
    def texts(self) -> list[str]:
        raise NotImplementedError

    def test_marks_stand_in_order_behind_characters_and_the_last_ends_the_sentence(self, punctuator, texts):
        for text, marks in zip(texts, punctuator.punctuate(texts), strict=True):
            places = [mark.at for mark in marks]
            assert places == sorted(set(places))
            assert places[0] > 0
            assert all(not text[place - 1].isspace() for place in places)
            assert places[-1] == len(text.rstrip())
            assert marks[-1].text in ENDS

    def test_a_word_is_never_cut(self, punctuator, texts):
        for text, marks in zip(texts, punctuator.punctuate(texts), strict=True):
            for at in (mark.at for mark in marks if mark.at < len(text)):
                assert not (text[at - 1].isascii() and text[at].isascii() and text[at - 1 : at + 1].isalpha())

    def test_law_4_batch_mates_change_nothing(self, punctuator, texts):
        batch = ["", *texts, texts[0] * 30, texts[1][:1], texts[0]]
        assert punctuator.punctuate(batch) == [punctuator.punctuate([text])[0] for text in batch]

    def test_a_long_text_gets_marks_to_its_end(self, punctuator, texts):
        text = texts[0] * 100
        (marks,) = punctuator.punctuate([text])
        assert marks[0].at < 300
        assert marks[-1].at == len(text)

    def test_nothing_has_no_marks(self, punctuator):
        assert punctuator.punctuate(["", " ", "\n"]) == [(), (), ()]

    def test_characters_of_any_kind_are_taken(self, punctuator):
        texts = ["①②③", "𠮷野家", "\u0000a\u00a0b", "😀", "ключ", "한국어 좋아요"]
        assert all(marks[-1].at == len(text) for text, marks in zip(texts, punctuator.punctuate(texts), strict=True))

    def test_an_empty_batch_is_nothing(self, punctuator):
        assert punctuator.punctuate([]) == []
