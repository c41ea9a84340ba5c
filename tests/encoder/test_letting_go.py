"""What the encoder service leaves in memory behind an answer, and behind its end."""

import gc
import weakref

import pytest

from streamscribe.core.errors import InternalError
from streamscribe.models.ports import Window
from tests.encoder.kit import FakeEncoder, WatchedCache, clip, poisoned, rig, until


@pytest.fixture
def no_collector():
    """Nothing is freed but by reference counts: a server's collector is slow to come."""
    gc.collect()
    gc.disable()
    yield
    gc.enable()


def ask_in_every_way(one):
    """Encoded, merged, found, failed, given up by all, given up by the leader."""
    one.submit(clip(1)).result()
    one.submit(clip(1)).result()
    assert isinstance(one.submit(poisoned()).exception(), InternalError)
    held = one.occupy()
    merged, leader, follower, nobodys = [one.submit(clip(seed)) for seed in (10_000, 2, 2, 3)]
    one.queued(3)
    assert leader.cancel()
    assert nobodys.cancel()
    one.encoder.gate.set()
    one.errors.clear()  # a kept error keeps the frames that raised it
    for future in (held, merged, follower):
        future.result()


@pytest.mark.usefixtures("no_collector")
def test_audio_and_embedding_are_let_go_with_the_answer_and_not_when_garbage_is_collected():
    samples = clip(1)
    audio = weakref.ref(samples)
    with rig() as one:
        future = one.submit(samples)
        del samples
        embedding = weakref.ref(future.result().embedding)
        del future
        until(lambda: audio() is None and embedding() is None)


@pytest.mark.usefixtures("no_collector")
def test_audio_and_features_are_let_go_once_encoded_though_a_language_model_still_works_with_the_embedding():
    class Watched(FakeEncoder):
        rows = None

        def features(self, samples, frames=None, window=Window.SHORT):
            rows = super().features(samples, frames, window)
            self.rows = weakref.ref(rows if rows.base is None else rows.base)
            return rows

    samples = clip(1)
    audio = weakref.ref(samples)
    with rig(Watched(), WatchedCache()) as one:
        encoding = one.submit(samples).result()
        del samples
        until(lambda: audio() is None and one.encoder.rows() is None)
        assert (len(encoding.embedding), len(encoding.audio_fingerprint)) == (encoding.num_audio_tokens, 64)


@pytest.mark.usefixtures("no_collector")
def test_a_closed_service_lets_go_of_its_encoder_whatever_was_asked_of_it():
    with rig(cache=WatchedCache()) as one:
        ask_in_every_way(one)
        encoder = weakref.ref(one.encoder)
    del one
    until(lambda: encoder() is None)
