"""What breaks around an encoder, or in it: nobody waits for ever, and only who is guilty fails."""

import logging
import threading

import numpy as np
import pytest

from streamscribe.core.errors import InternalError, ModelUnavailable
from streamscribe.encoder.encoding import Lookup
from streamscribe.models.ports import Window
from tests.encoder.kit import FakeEncoder, WatchedCache, clip, poisoned, results, rig, right, until

NOT_A_NUMBER = {"type": lambda rows: rows.tolist(), "nothing": lambda rows: None, "name": lambda rows: "rows"}


class FullCache(WatchedCache):
    """Has no memory left for anything."""

    def put(self, *what, **how):
        raise MemoryError


def test_a_cache_that_cannot_keep_leaves_nobody_without_an_answer(caplog):
    with rig(cache=FullCache()) as one, caplog.at_level(logging.ERROR):
        one.occupy()
        futures = [one.submit(clip(1)), one.submit(clip(1)), one.submit(clip(2))]
        one.encoder.gate.set()
        assert all(np.array_equal(got.embedding, right(clip(1))) for got in results(futures)[:2])
        assert not len(one.service._flights)


def test_what_counts_may_fail_and_leaves_nobody_without_an_answer():
    with rig(cache=WatchedCache()) as one:
        one.submit(clip(1)).result(timeout=60)

        def broken(result, saved_s):
            raise MemoryError

        one.observer.looked_up = broken
        for samples in (clip(1), clip(2)):  # a hit and a miss
            with pytest.raises(InternalError):
                one.submit(samples).result(timeout=60)


@pytest.mark.parametrize("spoil", NOT_A_NUMBER.values(), ids=NOT_A_NUMBER)
def test_an_encoder_that_gives_no_arrays_fails_its_requests(spoil):
    with rig() as one:
        one.encoder.spoil = spoil
        with pytest.raises(InternalError):
            one.submit(clip(1)).result(timeout=60)
        one.encoder.spoil = lambda rows: rows
        assert one.submit(clip(1)).result(timeout=60).lookup is Lookup.MISS


BAD_BATCHES = {
    "fails": lambda rows: 1 // 0,
    "runs out of memory": lambda rows: np.zeros(1 << 60, np.float64),
    "one is missing": lambda rows: rows[1:],
    "no numbers": lambda rows: [one * np.float32(np.nan) for one in rows],
    "no arrays": lambda rows: [one.tolist() for one in rows],
    "another dtype": lambda rows: [one.astype(np.float64) for one in rows],
    "nothing": lambda rows: None,
}


@pytest.mark.parametrize("spoil", BAD_BATCHES.values(), ids=BAD_BATCHES)
def test_an_encoder_that_can_make_nothing_of_a_batch_encodes_one_by_one_and_says_so(spoil, capsys):
    class OneByOne(FakeEncoder):
        def encode(self, batch):
            rows = super().encode(batch)
            return spoil(rows) if len(batch) > 1 else rows

    with rig(OneByOne()) as one:
        assert not one.service.batches
        assert "batching is off" in capsys.readouterr().out
        futures = [one.occupy(), *(one.submit(clip(seed)) for seed in range(3))]
        one.queued(4)
        one.encoder.gate.set()
        for seed, encoding in enumerate(results(futures[1:])):
            assert np.array_equal(encoding.embedding, right(clip(seed)))


class Contagious(FakeEncoder):
    """One poisoned clip makes its whole pass no numbers, as padding together can."""

    def encode(self, batch):
        self.batches.append([one.tobytes() for one in batch])
        self.gate.wait()
        guilty = any(one.size and one[0, 0] == poisoned()[0] for one in batch)
        return [right(one.ravel()) * (np.float32(np.nan) if guilty else 1) for one in batch]


def test_law_8_a_clip_that_makes_its_whole_batch_no_numbers_fails_alone():
    with rig(Contagious(), max_batch_size=8) as one:
        one.occupy()
        futures = [one.submit(clip(seed)) for seed in range(7)]
        guilty = one.submit(poisoned())
        one.queued(9)
        one.encoder.gate.set()
        with pytest.raises(InternalError):
            guilty.result(timeout=60)
        for seed, got in enumerate(results(futures)):
            assert np.array_equal(got.embedding, right(clip(seed)))
        assert len(one.encoder.batches) - 1 <= 9


def test_an_encoder_that_gives_only_what_is_no_number_is_put_out_of_readiness_until_a_trial_gives_numbers():
    with rig() as one:
        one.encoder.spoil = lambda rows: rows * np.float32(np.nan)
        for seed in range(5):
            with pytest.raises(InternalError):
                one.submit(clip(seed)).result(timeout=60)
        until(lambda: not one.service.ready)
        with pytest.raises(ModelUnavailable):
            until(lambda: one.submit(clip(9)).exception(timeout=60) is None)


def test_a_request_that_comes_while_the_service_closes_is_answered():
    for _ in range(30):
        with rig() as one:
            futures, begun = [], threading.Event()

            def ask(one=one, futures=futures, begun=begun):
                for seed in range(200):
                    begun.set()
                    try:
                        futures.append(one.submit(clip(seed, 1600)))
                    except ModelUnavailable:
                        return

            asking = threading.Thread(target=ask)
            asking.start()
            begun.wait()
            one.service.close()
            asking.join()
            for future in futures:
                future.exception(timeout=60)


def test_a_request_that_was_let_in_just_before_the_close_is_answered(monkeypatch):
    with rig() as one:
        monkeypatch.setattr(one.service, "outage", lambda: None)  # as if it had been asked before
        one.service.close()
        assert isinstance(one.submit(clip(1)).exception(timeout=60), ModelUnavailable)


def test_a_step_is_bounded_by_what_the_encoder_reads_of_its_segments_and_not_by_their_audio():
    """The fake reads two seconds of a clip of one in its full window: of eight, four fill a step of eight seconds."""
    with rig(max_batch_size=8, max_batch_s=8) as one:
        one.occupy()
        futures = [one.submit(clip(seed), window=Window.FULL) for seed in range(8)]
        one.queued(9)
        one.encoder.gate.set()
        results(futures)
        assert [len(batch) for batch in one.encoder.batches[1:]] == [4, 4]
        until(lambda: len(one.observer.steps) == 3)
        assert [step.audio_s for step in one.observer.steps] == [1, 8, 8]


def test_no_step_has_more_bytes_than_those_of_its_seconds():
    """Seconds are counted by what is read, so that one bound holds for seconds, frames and bytes, padding included."""
    largest = 8 * 16_000 * np.dtype(np.float32).itemsize
    with rig(max_batch_size=64, max_batch_s=8) as one:
        one.occupy()
        sizes = np.random.default_rng(0).integers(1_600, 64_000, 60)
        futures = [one.submit(clip(seed, int(size)), window=list(Window)[seed % 2]) for seed, size in enumerate(sizes)]
        one.queued(61)
        one.encoder.gate.set()
        results(futures)
        padded = [len(batch) * max(map(len, batch)) for batch in one.encoder.batches if len(batch) > 1]
        assert padded
        assert max(padded) <= largest


def test_a_spared_encoding_is_counted_by_its_rows():
    with rig(cache=WatchedCache()) as one:
        for window in Window:
            one.submit(clip(1), window=window).result(timeout=60)
        until(lambda: len(one.observer.steps) == 2)
        saved = []
        for window in Window:
            before = one.observer.saved_s
            one.submit(clip(1), window=window).result(timeout=60)
            saved.append(one.observer.saved_s - before)
        assert saved[1] == pytest.approx(2 * saved[0])
