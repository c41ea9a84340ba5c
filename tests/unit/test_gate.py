"""The books of a stage's door: who is let in, and what is free once somebody has left."""

from hypothesis import given
from hypothesis import strategies as st

from streamscribe.core.batching import Priority
from streamscribe.core.gate import Gate


def test_so_many_requests_and_so_much_audio_are_let_in_and_no_more():
    gate = Gate(3, 10.0)
    assert gate.enter(Priority.URGENT, 6) is None
    assert gate.enter(Priority.URGENT, 4.1).retry_after_s > 0
    assert gate.enter(Priority.URGENT, 4) is None
    gate.leave(6)
    assert gate.enter(Priority.NORMAL, 3) is None
    assert gate.enter(Priority.NORMAL, 0) is None
    assert gate.enter(Priority.URGENT, 0) is not None
    gate.check_integrity()


def test_files_and_drafts_leave_half_of_the_room_to_live_finals():
    gate = Gate(10, 10.0)
    assert gate.enter(Priority.BULK, 5) is None
    assert gate.enter(Priority.LOW, 0.1) is not None
    assert gate.enter(Priority.URGENT, 5) is None


def test_alone_a_request_of_any_length_is_let_in():
    gate = Gate(10, 10.0)
    assert gate.enter(Priority.BULK, 100) is None
    gate.leave(100)
    assert (gate.requests, gate.audio_s) == (0, 0)


@given(st.lists(st.tuples(st.booleans(), st.sampled_from(Priority), st.floats(0, 30))))
def test_what_is_inside_is_the_sum_of_who_is(visits):
    gate, inside = Gate(5, 40.0), []
    for leaves, priority, audio_s in visits:
        if leaves and inside:
            gate.leave(inside.pop())
        elif gate.enter(priority, audio_s) is None:
            inside.append(audio_s)
        gate.check_integrity()
        assert gate.requests == len(inside)
        assert abs(gate.audio_s - sum(inside)) < 1e-6
