"""What no language model is to tell: text of silence, and the same again and again."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamscribe.models.guards import is_silent, loop_start
from streamscribe.models.warm_up import noise


@given(st.lists(st.integers(0, 9), max_size=20), st.lists(st.integers(0, 9), min_size=1, max_size=12))
def test_a_loop_is_found_where_it_begins_to_repeat(before, phrase):
    tokens = before + phrase * 16
    start = loop_start(tokens)
    assert start is not None
    assert start <= len(before) + len(phrase)
    assert tokens[start] in tokens[:start]


@pytest.mark.parametrize("tokens", [[], [1], [5, 5, 5, 5, 5], list(range(60)), [1, 2, 3, 1, 2, 3, 1, 2, 3]])
def test_what_people_repeat_is_no_loop(tokens):
    assert loop_start(tokens) is None


def test_silence_is_what_is_below_60_decibels():
    assert is_silent(np.full(9, 9e-4, dtype=np.float32))
    assert not is_silent(np.full(9, -2e-3, dtype=np.float32))


def test_the_warm_up_is_no_silence_of_which_the_decoder_would_see_nothing():
    assert not is_silent(noise(16_000))
