"""A cache that finds nothing rests, and says so."""

from concurrent.futures import ThreadPoolExecutor

from streamscribe.cache.rest import Rest
from streamscribe.core.cache_worth import Turn, WorthPolicy

POLICY = WorthPolicy(window=10, patience=2, low=0.1, high=0.2, rest_s=60)


def test_it_tells_each_turn_once_and_may_be_asked_from_within():
    now, turns = [0.0], []

    def hear(turn):
        turns.append((turn, rest.resting()))

    rest = Rest(hear, POLICY, clock=lambda: now[0])
    for _ in range(30):
        if not rest.resting():
            rest.count(found=False)
    assert turns == [(Turn.RESTS, True)]
    now[0] = 60.0
    assert not rest.resting()
    for _ in range(10):
        rest.count(found=True)
    assert turns == [(Turn.RESTS, True), (Turn.TRIED, False), (Turn.STAYS, False)]


def test_many_threads_decide_once():
    turns = []
    rest = Rest(turns.append, POLICY, clock=lambda: 0.0)
    with ThreadPoolExecutor(8) as threads:
        list(threads.map(lambda _: rest.count(found=False), range(1000)))
    assert turns == [Turn.RESTS]
    assert rest.resting()
