"""The encoder service on a fake encoder: who is encoded, how often, and what reaches whom."""

import asyncio
import random
import threading
from collections import Counter

import numpy as np
import pytest

from streamscribe.core.batching import Priority
from streamscribe.core.errors import AudioTooLong, BadRequest, InternalError, ModelUnavailable, Overloaded
from streamscribe.encoder.encoding import Lookup
from streamscribe.models.ports import SegmentRequest, Window
from tests.encoder.kit import FakeEncoder, WatchedCache, clip, poisoned, results, rig, right, tenant, until


def test_an_embedding_is_whole_frozen_and_says_where_it_came_from():
    samples = clip(1, 40_001)
    with rig(cache=WatchedCache()) as one:
        first = one.submit(samples).result()
        again = one.submit(samples.copy()).result()
    assert np.array_equal(first.embedding, right(samples))
    assert first.num_audio_tokens == len(first.embedding) == 26
    assert len(first.audio_fingerprint) == 64
    assert (first.lookup, again.lookup) == (Lookup.MISS, Lookup.HIT)
    assert again.audio_fingerprint == first.audio_fingerprint
    assert np.array_equal(again.embedding, first.embedding)
    for encoding in (first, again):
        with pytest.raises(ValueError, match="read-only"):
            encoding.embedding[0, 0] = 1


def test_a_hit_is_neither_read_nor_encoded():
    with rig(cache=WatchedCache()) as one:
        one.submit(clip(1)).result()
        one.submit(clip(1)).result()
        assert one.encoder.read == 1
        assert len(one.encoder.batches) == 1
        assert one.observer.lookups == {Lookup.MISS: 1, Lookup.HIT: 1}
        assert one.observer.saved_s > 0


def test_a_longer_clip_never_takes_the_embedding_of_its_beginning():
    samples = clip(1, 32_000)
    with rig(cache=WatchedCache()) as one:
        assert [one.submit(samples[:size]).result().lookup for size in (16_000, 16_001, 32_000)] == [Lookup.MISS] * 3


def test_the_two_windows_of_a_clip_are_two_embeddings():
    with rig(cache=WatchedCache()) as one:
        short, full = (one.submit(clip(1), window=window).result() for window in Window)
        assert (short.num_audio_tokens, full.num_audio_tokens) == (10, 20)
        assert (short.lookup, full.lookup) == (Lookup.MISS, Lookup.MISS)


@pytest.mark.parametrize("cache", [None, WatchedCache(max_entries=0), WatchedCache(max_bytes=0)])
def test_a_hundred_equal_requests_at_once_are_encoded_once_without_a_cache_too(cache):
    samples, barrier, futures = clip(1), threading.Barrier(20), []
    with rig(cache=cache) as one:
        occupied = one.occupy()

        def ask():
            barrier.wait()
            futures.extend(one.submit(samples.copy()) for _ in range(5))

        threads = [threading.Thread(target=ask) for _ in range(20)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        until(lambda: len(one.service._flights) == 2 and len(one.service._flights._flight_of) == 101)
        one.encoder.gate.set()
        encodings = results(futures)
        occupied.result()
        assert one.encoder.encoded(samples) == 1
    assert all(np.array_equal(encoding.embedding, right(samples)) for encoding in encodings)
    assert one.observer.lookups == {Lookup.MISS: 2, Lookup.MERGED: 99}


async def test_cancelling_anybody_at_any_moment_loses_nobody_else():
    with rig(wait_ms=0) as one:
        for seed in range(500):
            choose = random.Random(seed)
            samples = clip(seed, 1600)
            tasks = [one.task(samples) for _ in range(choose.randrange(2, 6))]
            leaving = [tasks[0], *(task for task in tasks[1:] if choose.random() < 0.3)]
            for task in leaving:
                for _ in range(choose.randrange(12)):
                    await asyncio.sleep(0 if choose.random() < 0.8 else 0.0002)
                task.cancel()
            answers = await asyncio.gather(*tasks, return_exceptions=True)
            for task, answer in zip(tasks, answers, strict=True):
                if task not in leaving:
                    assert np.array_equal(answer.embedding, right(samples)), seed
            one.service.check_integrity()
        until(lambda: not one.service.replica.inflight)
        assert not len(one.service._flights)


def test_the_leader_leaves_and_its_follower_is_served():
    with rig() as one:
        one.occupy()
        leader, follower = one.submit(clip(1)), one.submit(clip(1))
        until(lambda: len(one.service._flights._flight_of) == 3)
        assert leader.cancel()
        one.encoder.gate.set()
        assert follower.result().lookup is Lookup.MISS  # it was encoded, and for nobody else
        assert one.observer.lookups == {Lookup.MISS: 2}
        assert one.encoder.encoded(clip(1)) == 1
        assert not one.observer.cancellations


def test_queued_work_whose_last_waiter_left_is_not_encoded():
    with rig() as one:
        occupied = one.occupy()
        futures = [one.submit(clip(1)), one.submit(clip(1)), one.submit(clip(2))]
        one.queued(3)
        until(lambda: len(one.service._flights._flight_of) == 4)
        assert futures[0].cancel()
        assert futures[1].cancel()
        one.encoder.gate.set()
        results([occupied, futures[2]])
        assert one.encoder.encoded(clip(1)) == 0
        assert one.observer.cancellations == 1


def test_an_encoding_is_as_urgent_as_the_most_urgent_who_waits_for_it():
    with rig(max_batch_size=1) as one:
        futures = [one.occupy(), *(one.submit(clip(seed), priority=Priority.BULK) for seed in (1, 2, 3))]
        one.queued(4)
        futures.append(one.submit(clip(3), priority=Priority.URGENT))
        until(lambda: len(one.service._flights._flight_of) == 5)
        until(lambda: not one.service.replica._coming)
        one.encoder.gate.set()
        results(futures)
        order = [batch[0] for batch in one.encoder.batches[1:]]
        assert order[0] == one.encoder.features(clip(3)).tobytes()
        assert one.encoder.encoded(clip(3)) == 1


def test_law_8_one_poisoned_clip_of_eight_fails_alone_and_costs_at_most_nine_passes():
    with rig(max_batch_size=8) as one:
        occupied = one.occupy()
        clips = [clip(seed) for seed in range(8)]
        clips[5] = poisoned()
        futures = [one.submit(samples) for samples in clips]
        one.queued(9)
        one.encoder.batches.clear()
        one.encoder.gate.set()
        with pytest.raises(InternalError) as failure:
            futures.pop(5).result()
        assert "secret" not in str(failure.value)
        del clips[5]
        for samples, encoding in zip(clips, results(futures), strict=True):
            assert np.array_equal(encoding.embedding, right(samples))
        occupied.result()
        assert len(one.encoder.batches) <= 9
        until(lambda: len(one.observer.steps) == 2)
        assert one.observer.steps[1].fallbacks == len(one.encoder.batches) - 1
        assert one.observer.steps[1].failed == 1


def test_a_failure_reaches_all_who_wait_for_it_each_with_its_own_error_and_is_not_kept():
    cache = WatchedCache()
    with rig(cache=cache) as one:
        one.occupy()
        futures = [one.submit(poisoned()) for _ in range(5)]
        until(lambda: len(one.service._flights._flight_of) == 6)
        one.encoder.gate.set()
        errors = [future.exception() for future in futures]
        assert {type(error) for error in errors} == {InternalError}
        assert len(set(map(id, errors))) == 5
        assert len(cache.given) == 1
        with pytest.raises(InternalError):
            one.submit(poisoned()).result()
        assert one.submit(clip(1)).result().lookup is Lookup.MISS


def test_after_running_out_of_memory_batches_shrink_and_the_next_request_succeeds():
    with rig(max_batch_size=8) as one:
        occupied = one.occupy()
        one.encoder.room = 2
        futures = [one.submit(clip(seed)) for seed in range(8)]
        one.queued(9)
        one.encoder.gate.set()
        for seed, encoding in enumerate(results(futures)):
            assert np.array_equal(encoding.embedding, right(clip(seed)))
        occupied.result()
        one.encoder.room = 0
        with pytest.raises(ModelUnavailable, match="memory"):
            one.submit(clip(20)).result()
        one.encoder.room = 2
        assert one.submit(clip(20)).result().lookup is Lookup.MISS


BAD_VALUES = {
    "no number": lambda rows: np.where(np.arange(rows.size).reshape(rows.shape) == 3, np.nan, rows),
    "wrong shape": lambda rows: rows[:, :2],
    "wrong dtype": lambda rows: rows.astype(np.float64),
    "wrong token count": lambda rows: rows[:-1],
    "no rows": lambda rows: rows.ravel(),
}


@pytest.mark.parametrize("spoil", BAD_VALUES.values(), ids=BAD_VALUES)
def test_what_is_no_embedding_of_the_audio_is_not_taken_from_the_cache(spoil):
    cache = WatchedCache()
    with rig(cache=cache) as one:
        good = one.submit(clip(1)).result().embedding
        cache.put(None, cache.given[0], spoil(good).astype(spoil(good).dtype))
        again = one.submit(clip(1)).result()
        assert again.lookup is Lookup.INVALID
        assert np.array_equal(again.embedding, right(clip(1)))
        assert one.encoder.encoded(clip(1)) == 2
        assert one.submit(clip(1)).result().lookup is Lookup.HIT
        assert one.observer.lookups == {Lookup.MISS: 1, Lookup.INVALID: 1, Lookup.HIT: 1}


@pytest.mark.parametrize("spoil", BAD_VALUES.values(), ids=BAD_VALUES)
def test_what_an_encoder_gives_is_looked_at_before_anybody_gets_it(spoil):
    cache = WatchedCache()
    with rig(cache=cache) as one:
        one.encoder.spoil = spoil
        with pytest.raises(InternalError):
            one.submit(clip(1)).result()
        assert not cache.given


def test_law_9_tenants_never_share_an_embedding_in_10_000_random_operations():
    """Asked for in waves, so that they meet on the way too: what is found or joined is of the same tenant."""
    choose, missed, lookups = random.Random(0), Counter(), Counter()
    whose, clips = {}, [clip(seed, 1600) for seed in range(30)]
    with rig(cache=WatchedCache()) as one:
        for _ in range(400):
            wave = [(choose.choice(["a", "b", None]), choose.randrange(30)) for _ in range(25)]
            futures = [one.submit(clips[seed], tenant_id=who and tenant(who)) for who, seed in wave]
            for asked, encoding in zip(wave, results(futures), strict=True):
                assert whose.setdefault(encoding.audio_fingerprint, asked) == asked
                missed[asked] += encoding.lookup is Lookup.MISS
                lookups[encoding.lookup] += 1
            assert all(missed[asked] == 1 for asked in wave)
        assert len(whose) == len(missed) == 90
        assert lookups.keys() == {Lookup.MISS, Lookup.HIT, Lookup.MERGED}
        assert lookups[Lookup.HIT] > 9_000
        assert all(one.encoder.encoded(samples) == 3 for samples in clips)


def test_law_9_equal_audio_of_two_tenants_at_once_is_encoded_twice():
    with rig() as one:
        one.occupy()
        futures = [one.submit(clip(1), tenant_id=tenant(name)) for name in ("a", "b", "a")]
        until(lambda: len(one.service._flights._flight_of) == 4)
        one.encoder.gate.set()
        assert len({encoding.audio_fingerprint for encoding in results(futures)}) == 2
        assert one.encoder.encoded(clip(1)) == 2


def test_nothing_is_kept_of_a_request_that_says_so_but_it_shares_what_is_on_its_way():
    cache = WatchedCache()
    with rig(cache=cache) as one:
        assert [one.submit(clip(1), store=False).result().lookup for _ in range(2)] == [Lookup.BYPASS] * 2
        assert not cache.given
        one.occupy()
        given = len(cache.given)
        futures = [one.submit(clip(1), store=False) for _ in range(2)]
        until(lambda: len(one.service._flights._flight_of) == 3)
        one.encoder.gate.set()
        assert sorted(encoding.lookup for encoding in results(futures)) == [Lookup.BYPASS, Lookup.MERGED]
        one.service.close()
        assert len(cache.given) == given + 1  # what occupied the encoder


def test_drafts_have_no_fingerprint_and_bypass_the_cache():
    cache = WatchedCache()
    with rig(cache=cache) as one:
        for _ in range(2):
            encoding = one.submit(clip(1), draft=True).result()
            assert (encoding.lookup, encoding.audio_fingerprint) == (Lookup.BYPASS, "")
        assert one.encoder.encoded(clip(1)) == 2
        assert not cache.given


@pytest.mark.parametrize("samples", [np.zeros(16_000, np.float32), np.zeros(0, np.float32)])
def test_silence_is_not_encoded(samples):
    with rig() as one:
        encoding = one.submit(samples).result()
        assert encoding.silent
        assert encoding.embedding.shape == (0, 4)
        assert not one.encoder.batches


def test_what_cannot_be_encoded_is_refused():
    broken = clip(1)
    broken[7] = np.nan
    with rig() as one:
        with pytest.raises(AudioTooLong):
            one.submit(clip(1, one.encoder.max_samples + 1)).result()
        with pytest.raises(BadRequest):
            one.submit(broken).result()
        assert one.submit(clip(1, one.encoder.max_samples)).result().num_audio_tokens == 300


def test_no_more_requests_are_taken_than_the_policy_says():
    with rig(max_inflight=2) as one:
        futures = [one.occupy(), one.submit(clip(1))]
        with pytest.raises(Overloaded):
            one.submit(clip(2))
        one.encoder.gate.set()
        results(futures)
        until(lambda: not one.service.inflight)
        one.submit(clip(2)).result()


def test_an_encoder_whose_batches_differ_from_single_segments_encodes_one_by_one():
    encoder = FakeEncoder()
    encoder.batch_error = 1.0
    with rig(encoder) as one:
        assert not one.service.batches
        futures = [one.occupy(), *(one.submit(clip(seed)) for seed in range(5))]
        one.queued(6)
        one.encoder.gate.set()
        results(futures)
        assert {len(batch) for batch in one.encoder.batches} == {1}


def test_what_waits_shares_a_pass_and_its_padding_is_told():
    with rig() as one:
        futures = [one.occupy(), one.submit(clip(1, 16_000)), one.submit(clip(2, 8_000))]
        one.queued(3)
        one.encoder.gate.set()
        results(futures)
        until(lambda: len(one.observer.steps) == 2)
        step = one.observer.steps[1]
        assert (step.batch_size, step.padded_share, step.audio_s) == (2, 0.25, 1.5)
        assert (step.fallbacks, step.failed) == (0, 0)


@pytest.mark.parametrize("priority", Priority)
def test_a_step_waits_for_whoever_is_being_read_and_for_nobody_else(priority):
    with rig(wait_ms=3_600_000) as one:
        one.submit(clip(1), priority=priority).result(timeout=60)
        results([one.submit(clip(seed), priority=priority) for seed in range(2, 6)])


@pytest.mark.parametrize("priority", [Priority.URGENT, Priority.BULK])
def test_segments_that_come_together_share_a_step_though_they_are_read_one_after_the_other(priority):
    class Slow(FakeEncoder):
        reading = threading.Event()

        def features(self, samples, frames=None, window=Window.SHORT):
            if len(samples) == 8_000:
                self.reading.wait()
            return super().features(samples, frames, window)

    with rig(Slow(), wait_ms=3_600_000) as one:
        late = one.submit(clip(0, 8_000), priority=priority)
        futures = [one.submit(clip(seed), priority=priority) for seed in range(1, 6)]
        one.queued(5)
        Slow.reading.set()
        results([late, *futures])
        assert [len(batch) for batch in one.encoder.batches] == [6]


def test_features_are_taken_from_their_store_and_put_there():
    class Store(dict):
        def put(self, tenant, key, rows):
            self[key] = rows

    store = Store()
    with rig(features=store) as one:
        for store_it in (True, True, False):
            assert np.array_equal(one.submit(clip(1), store=store_it).result().embedding, right(clip(1)))
            until(lambda: store)
        assert one.encoder.read == 2
        assert len(store) == 1


async def test_close_fails_whoever_waits():
    with rig() as one:
        one.occupy()
        waiting = one.submit(clip(1))
        one.queued(2)
        closing = asyncio.create_task(asyncio.to_thread(one.service.close))
        with pytest.raises(ModelUnavailable):
            await asyncio.wrap_future(waiting)
        one.encoder.gate.set()
        await closing
        with pytest.raises(ModelUnavailable):
            await one.service.encode(SegmentRequest(clip(1)), priority=Priority.URGENT)
