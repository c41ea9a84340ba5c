"""Leases and fencing, with a chosen clock."""

from streamscribe.core.errors import LeaseLost
from streamscribe.core.ids import SessionId
from streamscribe.core.lease import LeaseTable

SESSION = SessionId("s1")


def test_a_session_has_one_owner_until_its_lease_ends():
    table = LeaseTable(ttl_s=10)
    lease = table.acquire(SESSION, "w1", now=0.0)
    assert (lease.owner, lease.epoch, lease.expires_at) == ("w1", 1, 10.0)
    assert table.acquire(SESSION, "w2", now=9.9) is None
    assert table.acquire(SESSION, "w2", now=10.0).epoch == 2


def test_law_2_a_former_owner_can_neither_renew_nor_write():
    table = LeaseTable(ttl_s=10)
    old = table.acquire(SESSION, "w1", now=0.0)
    new = table.acquire(SESSION, "w2", now=10.0)
    assert table.renew(old, now=11.0) is None
    assert isinstance(table.fence(SESSION, old.epoch), LeaseLost)
    assert table.fence(SESSION, new.epoch) is None


def test_a_renewed_lease_lasts_longer_in_the_same_epoch():
    table = LeaseTable(ttl_s=10)
    lease = table.renew(table.acquire(SESSION, "w1", now=0.0), now=8.0)
    assert (lease.epoch, lease.expires_at) == (1, 18.0)
    assert table.acquire(SESSION, "w1", now=9.0).epoch == 1


def test_an_expired_lease_is_not_renewed_but_its_writes_stand_until_a_successor_comes():
    table = LeaseTable(ttl_s=10)
    lease = table.acquire(SESSION, "w1", now=0.0)
    assert table.renew(lease, now=10.0) is None
    assert table.fence(SESSION, lease.epoch) is None


def test_a_released_session_is_free_at_once_and_its_epoch_goes_on():
    table = LeaseTable(ttl_s=10)
    table.release(table.acquire(SESSION, "w1", now=0.0), now=1.0)
    assert table.acquire(SESSION, "w2", now=1.0).epoch == 2


def test_releasing_a_lost_lease_takes_nothing_from_its_successor():
    table = LeaseTable(ttl_s=10)
    old = table.acquire(SESSION, "w1", now=0.0)
    new = table.acquire(SESSION, "w2", now=10.0)
    table.release(old, now=11.0)
    assert table.renew(new, now=12.0) is not None


def test_nobody_writes_for_a_forgotten_session():
    table = LeaseTable(ttl_s=10)
    lease = table.acquire(SESSION, "w1", now=0.0)
    table.forget(SESSION)
    assert isinstance(table.fence(SESSION, lease.epoch), LeaseLost)
    assert len(table) == 0


def test_law_2_a_session_that_was_forgotten_and_comes_again_repeats_no_epoch():
    table = LeaseTable(ttl_s=10)
    old = table.acquire(SESSION, "w1", now=0.0)
    table.forget(SESSION)
    again = table.acquire(SESSION, "w2", now=1.0)
    assert again.epoch > old.epoch
    assert isinstance(table.fence(SESSION, old.epoch), LeaseLost)
    assert table.newest(SESSION) == again
