"""Who computes and who waits, case by case."""

import pytest

from streamscribe.core.singleflight import Follow, Lead, SingleFlight


def test_the_first_leads_and_the_others_follow():
    flights = SingleFlight()
    assert flights.join("key", "ann") == Lead(0)
    assert flights.join("key", "bob") == Follow(0)
    assert flights.join("other", "eve") == Lead(1)
    assert flights.end(0) == ("ann", "bob")
    assert flights.end(1) == ("eve",)
    assert len(flights) == 0


def test_a_leader_that_leaves_harms_nobody():
    flights = SingleFlight()
    flights.join("key", "ann")
    flights.join("key", "bob")
    assert flights.leave("ann") is None
    assert flights.end(0) == ("bob",)


def test_the_last_one_out_cancels_and_the_next_begins_anew():
    flights = SingleFlight()
    flights.join("key", "ann")
    assert flights.leave("ann") == 0
    assert flights.join("key", "bob") == Lead(1)


def test_a_cancelled_flight_that_ends_late_answers_nobody_of_the_next():
    flights = SingleFlight()
    flights.join("key", "ann")
    flights.leave("ann")
    flights.join("key", "bob")
    assert flights.end(0) == ()
    assert flights.end(1) == ("bob",)


def test_a_failure_is_not_remembered():
    flights = SingleFlight()
    flights.join("key", "ann")
    assert flights.end(0) == ("ann",)
    assert flights.join("key", "ann") == Lead(1)


def test_leaving_twice_is_harmless_and_joining_twice_a_defect():
    flights = SingleFlight()
    flights.join("key", "ann")
    with pytest.raises(AssertionError):
        flights.join("other", "ann")
    flights.leave("ann")
    assert flights.leave("ann") is None
