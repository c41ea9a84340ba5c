"""Which work began before a purge: nothing that did is ever taken for younger, and what is remembered is bounded."""

from hypothesis import given
from hypothesis import strategies as st

from streamscribe.core.purges import PurgeEpochs

OWNERS = st.sampled_from(["a", "b", "c", "d", "e", None])


def test_a_purge_makes_stale_what_its_owner_had_begun_and_nothing_else():
    epochs = PurgeEpochs()
    began = epochs.now
    epochs.purge("a")
    assert epochs.stale("a", began)
    assert not epochs.stale("b", began)
    assert not epochs.stale("a", epochs.now)


def test_a_purge_of_everyone_makes_all_stale_that_was_begun_also_what_has_no_owner():
    epochs = PurgeEpochs()
    began = epochs.now
    epochs.purge()
    assert all(epochs.stale(owner, began) for owner in ("a", None))
    assert not any(epochs.stale(owner, epochs.now) for owner in ("a", None))


def test_one_owner_that_purges_without_end_makes_nothing_of_others_stale():
    epochs = PurgeEpochs(max_owners=2)
    began = epochs.now
    for _ in range(100):
        epochs.purge("a")
    assert not epochs.stale("b", began)


@given(st.integers(1, 3), st.lists(st.tuples(st.sampled_from(["begin", "purge"]), OWNERS), max_size=40))
def test_nothing_that_began_before_its_owners_purge_is_taken_for_younger(max_owners, steps):
    epochs, begun, purged = PurgeEpochs(max_owners), [], []
    for number, (what, owner) in enumerate(steps):
        if what == "begin":
            begun.append((number, owner, epochs.now))
        else:
            epochs.purge(owner)
            purged.append((number, owner))
        epochs.check_integrity()
        for at, whose, began in begun:
            since = {other for when, other in purged if when > at}
            must = bool(since & {whose, None}) if whose is not None else None in since
            assert epochs.stale(whose, began) >= must
            if len({other for _, other in purged}) <= max_owners:
                assert epochs.stale(whose, began) == must
