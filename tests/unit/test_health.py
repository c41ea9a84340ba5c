"""A model's health by the steps that it ran."""

from hypothesis import given
from hypothesis import strategies as st

from streamscribe.core.health import Health, State


def test_it_is_tried_out_after_several_failures_in_a_row_and_no_success_between() -> None:
    health = Health(3, retry_s=5)
    for _ in range(4):
        health.failed(1)
        health.failed(1)
        assert (health.state, health.next_trial()) == (State.HEALTHY, None)
        health.succeeded()
    for _ in range(3):
        health.failed(2)
    assert (health.state, health.ready, health.next_trial()) == (State.SUSPECT, True, 2)
    health.succeeded()
    assert health.next_trial() is None


def test_a_trial_that_fails_ejects_it_until_a_later_one_succeeds() -> None:
    health = Health(1, retry_s=5)
    health.failed(1)
    for now in (1, 6, 11):
        assert health.next_trial() == now
        health.trial_failed(now)
        assert (health.state, health.ready) == (State.EJECTED, False)
    health.succeeded()
    assert (health.state, health.ready) == (State.HEALTHY, True)


def test_short_of_memory_it_is_not_ready_but_takes_requests_until_one_succeeds() -> None:
    health = Health(3, retry_s=5)
    health.ran_short(1)
    assert (health.state, health.ready, health.next_trial()) == (State.SHORT, False, 6)
    health.trial_failed(6)
    assert (health.state, health.next_trial()) == (State.SHORT, 11)
    health.succeeded()
    assert health.ready


@given(st.lists(st.sampled_from(["succeeded", "failed", "ran_short", "trial"]), max_size=50), st.integers(1, 4))
def test_its_state_follows_from_what_happened(events: list[str], max_failures: int) -> None:
    health = Health(max_failures, retry_s=5)
    for now, event in enumerate(events):
        match event:
            case "trial" if health.next_trial() is not None:
                health.trial_failed(now)
            case "succeeded":
                health.succeeded()
            case "failed":
                health.failed(now)
            case "ran_short":
                health.ran_short(now)
        health.check_integrity()
        assert (health.next_trial() is None) == (health.state is State.HEALTHY)
