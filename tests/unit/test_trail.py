"""Where another worker could go on: one channel's points, and the records that brought its audio."""

from hypothesis import given
from hypothesis import strategies as st

from streamscribe.core.checkpoint import ChannelPoint
from streamscribe.core.input_log import InputLog, Place
from streamscribe.core.options import Hotword
from streamscribe.core.trail import Mark, Trail

PLACE = Place(1, 0, 0, ())


def point(heard: int, *segments: int) -> ChannelPoint:
    return ChannelPoint(heard, (heard,), None, 0, 0, segments)


def trail(*segments: int) -> Trail:
    return Trail(Mark(point(0, *segments), 0, PLACE))


def test_a_point_counts_once_all_segments_before_it_are_told() -> None:
    one = trail()
    one.open(3)
    one.close()
    one.take(point(100), 50, PLACE)
    assert (one.start, one.point) == (0, point(0, 3))
    one.open(5)
    one.check_integrity()
    one.tell()
    assert (one.start, one.point) == (50, point(100, 5))
    one.check_integrity()


def test_of_points_between_the_same_segments_the_newest_counts() -> None:
    one = trail()
    one.open(0)
    one.close()
    for heard in (100, 200, 300):
        one.take(point(heard), heard, PLACE)
        one.check_integrity()
    one.tell()
    assert one.point == point(300)


def test_segments_that_were_opened_before_get_the_ids_that_they_had() -> None:
    one = trail(4, 7)
    assert one.next_id == 4
    one.open(4)
    one.close()
    one.tell()
    assert one.next_id == 7
    one.open(7)
    one.close()
    assert one.next_id is None
    one.open(9)
    assert one.point == point(0, 4, 7, 9)
    one.check_integrity()


@given(st.lists(st.sampled_from(["open", "close", "tell", "take"]), max_size=60))
def test_law_7_what_is_kept_is_what_is_not_told(steps: list[str]) -> None:
    one, opened, closed, told, heard = trail(), 0, 0, 0, 0
    last = 0
    for step in steps:
        match step:
            case "open" if opened == closed:
                one.open(opened)
                opened += 1
            case "close" if opened > closed:
                one.close()
                closed += 1
            case "tell" if told < closed:
                one.tell()
                told += 1
            case "take":
                heard += 1
                one.take(point(heard), heard, PLACE)
        one.check_integrity()
        assert one.start >= last
        last = one.start
        assert one.point.segments == tuple(range(opened))[opened - len(one.point.segments) :]
        assert opened - len(one.point.segments) <= told


@given(st.lists(st.integers(0, 50), min_size=1, max_size=40), st.data())
def test_each_byte_is_found_in_the_record_that_brought_it_until_it_is_forgotten(
    sizes: list[int], data: st.DataObject
) -> None:
    log, offset, forgotten = InputLog(7), 7, 0
    owners: dict[int, tuple[int, int]] = {}
    for index, size in enumerate(sizes):
        log.add(index, size, index, (Hotword(str(index)),))
        owners |= {offset + skip: (index, skip) for skip in range(size)}
        offset += size
        forgotten = max(forgotten, data.draw(st.integers(0, offset)))
        log.forget_before(forgotten)
        log.check_integrity()
        for byte, (index_of, skip) in owners.items():
            if byte >= forgotten:
                assert log.find(byte) == Place(index_of, skip, index_of, (Hotword(str(index_of)),))
    assert log.find(6) is None
    log.forget_before(offset)
    assert len(log) == 1
