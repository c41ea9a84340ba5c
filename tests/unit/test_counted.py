"""Numbers with their nouns."""

import pytest

from streamscribe.core.counted import counted


@pytest.mark.parametrize(
    ("count", "told"), [(0, "0 workers"), (1, "1 worker"), (2, "2 workers"), (1200, "1,200 workers")]
)
def test_one_thing_is_told_in_the_singular_and_any_other_number_in_the_plural(count: int, told: str) -> None:
    assert counted(count, "worker") == told
