"""Who is to blame where workers end."""

import pytest

from streamscribe.core.quarantine import NO_ENDS, Ends


def after(*places: int | None) -> Ends:
    ends = NO_ENDS
    for place in places:
        ends = ends.ended(place)
    return ends


@pytest.mark.parametrize(
    ("places", "suspect", "guilty"),
    [
        ((), False, False),
        ((None,), False, False),
        ((7,), False, False),
        ((None, 7), False, False),
        ((7, 8), False, False),
        ((None, None), True, False),
        ((7, 7), True, True),
        ((None, None, 7), True, False),
        ((7, 8, 9), True, False),
        ((None, None, 7, 7), True, True),
        ((7, 7, 8), True, False),
    ],
)
def test_two_ends_at_one_place_or_three_on_the_way_make_a_session_suspect_and_two_at_a_known_one_guilty(
    places: tuple[int | None, ...], suspect: bool, guilty: bool
) -> None:
    ends = after(*places)
    assert (ends.count, ends.suspect, ends.guilty) == (len(places), suspect, guilty)
