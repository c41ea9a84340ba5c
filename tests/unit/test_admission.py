"""Pacing and quotas, with a chosen clock."""

import pytest

from streamscribe.core.admission import AudioRate, ChunkRate, SessionQuota
from streamscribe.core.errors import Overloaded, QuotaExceeded
from streamscribe.core.ids import TenantId

ANN, BOB = TenantId("ann"), TenantId("bob")


def test_the_burst_may_come_at_once():
    rate = AudioRate(max_rate=2, burst_s=10, max_burst_s=300)
    assert rate.admit(10, now=100.0) == 100.0


def test_beyond_the_burst_reading_pauses_until_the_rate_has_caught_up():
    rate = AudioRate(max_rate=2, burst_s=10, max_burst_s=300)
    assert rate.admit(14, now=100.0) == 102.0
    assert rate.admit(2, now=102.0) == 103.0


def test_audio_at_the_allowed_rate_is_never_paused():
    rate = AudioRate(max_rate=2, burst_s=10, max_burst_s=300)
    for second in range(1000):
        until = rate.admit(2, now=float(second))
        assert until is not None
        assert until <= second


def test_beyond_the_hard_bound_audio_is_refused_and_not_counted():
    rate = AudioRate(max_rate=2, burst_s=10, max_burst_s=300)
    assert rate.admit(301, now=0.0) is None
    assert rate.admit(10, now=0.0) == 0.0


def test_the_hard_bound_is_never_below_the_burst():
    assert AudioRate(max_rate=2, burst_s=10, max_burst_s=1).admit(10, now=0.0) == 0.0


def test_a_clock_that_steps_back_gives_nothing_away():
    rate = AudioRate(max_rate=2, burst_s=10, max_burst_s=300)
    rate.admit(10, now=100.0)
    rate.admit(0, now=90.0)
    assert rate.admit(2, now=100.0) == 101.0
    rate.check_integrity()


def test_chunks_are_paced_and_never_refused():
    rate = ChunkRate(max_per_s=100)
    paused = [rate.admit(1, now=0.0) for _ in range(1000)]
    assert paused[99] == 0.0
    assert paused[999] == pytest.approx(9.0)
    rate.check_integrity()


def test_a_tenant_over_its_quota_is_refused_and_the_others_are_not():
    quota = SessionQuota(max_sessions=10)
    assert quota.admit(ANN, 1) is None
    error = quota.admit(ANN, 1)
    assert isinstance(error, QuotaExceeded)
    assert error.retry_after_s
    assert quota.admit(BOB, 1) is None
    assert (quota.of(ANN), quota.of(BOB), quota.total) == (1, 1, 2)


def test_a_full_process_refuses_every_tenant():
    quota = SessionQuota(max_sessions=1)
    assert quota.admit(ANN, 5) is None
    assert isinstance(quota.admit(BOB, 5), Overloaded)
    quota.release(ANN)
    assert quota.admit(BOB, 5) is None
    quota.check_integrity()


def test_releasing_what_was_not_admitted_is_a_defect():
    with pytest.raises(AssertionError):
        SessionQuota(max_sessions=1).release(ANN)
