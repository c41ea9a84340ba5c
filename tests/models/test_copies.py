"""From sessions' arrays to a batch and back."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamscribe.models.copies import apart, stacked


@given(st.integers(1, 5), st.lists(st.integers(0, 4), max_size=3), st.integers(0, 9))
def test_what_was_stacked_comes_apart_alike(count, shape, seed):
    rows = [one.astype(np.float32) for one in np.random.default_rng(seed).standard_normal((count, *shape))]
    batch = stacked(rows)
    assert np.array_equal(batch, np.stack(rows))
    for row, again in zip(rows, apart(batch), strict=True):
        assert np.array_equal(row, again)


def test_a_row_keeps_no_more_than_itself_in_memory():
    kept = apart(np.zeros((64, 3, 5), np.float32))[0]
    while isinstance(kept.base, np.ndarray):
        kept = kept.base
    assert len(kept.base) == 3 * 5 * 4


def test_what_shares_a_batch_cannot_be_changed_by_one():
    with pytest.raises(ValueError, match="read-only"):
        apart(np.zeros((2, 3), np.float32))[0][0] = 1
