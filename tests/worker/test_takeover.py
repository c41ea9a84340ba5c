"""Whenever a worker dies, the next one tells the rest, and a client has what it would have had (laws 3, 4 and 7)."""

import random
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
import soxr

from streamscribe.core.audio import AudioFormat
from streamscribe.core.options import EndpointOptions, Hotword, Mode, SessionOptions
from streamscribe.core.records import Finished
from streamscribe.models.pool import Models
from tests.worker.kit import fake_models, silence, stereo, two_pass_models, voice
from tests.worker.takeover import CountsHotwords, View, live, session

QUICK = EndpointOptions(silence_ms=300, max_segment_ms=2000, min_speech_ms=150)
MODES = [
    (Mode.ONLINE, True),
    (Mode.ONLINE, False),
    (Mode.OFFLINE, False),
    (Mode.TWO_PASS, True),
    (Mode.TWO_PASS, False),
]


def models_of(*, first_pass: bool) -> Models:
    recognizer = CountsHotwords()
    models = two_pass_models(recognizer=recognizer) if first_pass else fake_models(recognizer)
    models.start()
    return models


def talk(rng: random.Random, seconds: float) -> bytes:
    """Voices and pauses: short and long ones, some longer than a segment may be."""
    said = b""
    while len(said) < seconds * 32_000:
        said += silence(rng.choice((60, 200, 400, 900, 2500))) + voice(
            rng.choice((110, 140, 300, 900, 2500, 5000)), rng.randrange(10**6)
        )
    return said + silence(rng.choice((0, 500)))


def same(view: View, undisturbed: View) -> None:
    """Nothing is lost, doubled or changed."""
    view.check_laws()
    assert view.finals == undisturbed.finals
    assert view.flushes == undisturbed.flushes
    assert view.voice == undisturbed.voice
    assert view.ended == undisturbed.ended


@pytest.mark.parametrize("seed", range(30))
async def test_laws_3_and_4_a_client_whose_workers_die_has_what_it_would_have_had(seed: int) -> None:
    rng = random.Random(seed)
    mode, first_pass = MODES[seed % len(MODES)]
    channels = rng.choice((1, 2))
    audio = talk(rng, 9) if channels == 1 else stereo(talk(rng, 7), talk(rng, 7))
    options = SessionOptions(
        audio=AudioFormat(channels=channels),
        mode=mode,
        words=True,
        live=rng.random() < 0.7,
        endpoint=replace(QUICK, silence_ms=rng.choice((200, 300, 700))),
        hotwords=(Hotword("first"),),
    )
    records = session(audio, options, rng, most_bytes=rng.choice((2000, 9000, 40_000)), controls=rng.randrange(8))
    models = models_of(first_pass=first_pass)
    try:
        undisturbed = View()
        await live(records, models, undisturbed, None, ahead=3)
        undisturbed.check_laws()
        assert undisturbed.finals
        view, checkpoint = View(), None
        for _ in range(rng.randrange(1, 6)):
            at = 1 if checkpoint is None else checkpoint.index
            dies = {"events": rng.randrange(1, 40)} if rng.random() < 0.6 else {"last": rng.randrange(at, len(records))}
            life = await live(records, models, view, checkpoint, ahead=rng.choice((1, 4, 1000)), **dies)
            checkpoint = life.checkpoint
        if view.ended is None:
            await live(records, models, view, checkpoint, ahead=rng.choice((1, 4, 1000)))
        same(view, undisturbed)
    finally:
        models.close()


@pytest.mark.parametrize("first_pass", [True, False], ids=["2pass", "drafts"])
async def test_a_worker_may_die_after_any_record_and_the_next_one_before_it_has_caught_up(first_pass: bool) -> None:
    rng = random.Random(41)
    options = SessionOptions(audio=AudioFormat(channels=2), words=True, endpoint=QUICK)
    audio = stereo(talk(rng, 4), talk(rng, 4))
    records = session(audio, options, rng, most_bytes=40_000, controls=4)
    models = models_of(first_pass=first_pass)
    try:
        undisturbed = View()
        await live(records, models, undisturbed, None, ahead=2)
        assert len(undisturbed.finals) > 4
        for last in range(1, len(records) - 1):
            view = View()
            first = await live(records, models, view, None, ahead=2, last=last)
            second = await live(records, models, view, first.checkpoint, ahead=2, last=last)
            await live(records, models, view, second.checkpoint, ahead=2)
            same(view, undisturbed)
    finally:
        models.close()


@pytest.mark.parametrize("rate", [8_000, 11_025, 48_000])
async def test_law_4_at_another_rate_segments_and_answers_are_the_same_whoever_died(rate: int) -> None:
    rng = random.Random(rate)
    samples = np.frombuffer(talk(rng, 8), "<i2")
    audio = soxr.resample(samples, 16_000, rate).astype("<i2").tobytes()
    options = SessionOptions(audio=AudioFormat(sample_rate=rate), words=True, endpoint=QUICK)
    records = session(audio, options, rng, most_bytes=6000, controls=6)
    models = models_of(first_pass=True)

    def heard(view: View) -> list[tuple[object, ...]]:
        """All but what the last digits of a sample change in the fake models' texts."""
        times = [[(word.start_ms, word.end_ms) for word in final.words] for final in view.finals]
        return [(f.segment_id, f.pass_, f.start_ms, f.end_ms, *t) for f, t in zip(view.finals, times, strict=True)]

    try:
        undisturbed = View()
        await live(records, models, undisturbed, None, ahead=2)
        assert len(undisturbed.finals) > 4
        for _ in range(5):
            view, checkpoint = View(), None
            for _ in range(2):
                last = rng.randrange(1 if checkpoint is None else checkpoint.index, len(records) - 1)
                checkpoint = (await live(records, models, view, checkpoint, ahead=2, last=last)).checkpoint
            await live(records, models, view, checkpoint, ahead=2)
            view.check_laws()
            assert heard(view) == heard(undisturbed)
            assert (view.flushes, view.voice, view.ended) == (undisturbed.flushes, undisturbed.voice, undisturbed.ended)
    finally:
        models.close()


@pytest.mark.parametrize("mode", [Mode.ONLINE, Mode.OFFLINE, Mode.TWO_PASS])
async def test_law_7_a_bus_that_keeps_no_more_than_the_longest_segment_and_two_seconds_ends_any_session(
    mode: Mode,
) -> None:
    rng = random.Random(7)
    audio = talk(rng, 10) + silence(12_000) + voice(8000, 1) + silence(1000) + talk(rng, 10)
    records = session(audio, SessionOptions(mode=mode, endpoint=QUICK), rng, packet_bytes=3200)
    models = models_of(first_pass=True)
    try:
        view = View()
        await live(records, models, view, None, ahead=10, keep=(2 + 2) * 10)
        assert isinstance(view.ended, Finished)
        assert len(records) > 400
    finally:
        models.close()


async def test_checkpoints_come_about_once_a_second_of_silence_and_with_each_final() -> None:
    rng = random.Random(3)
    records = session(silence(20_000), SessionOptions(), rng, packet_bytes=640)
    models = models_of(first_pass=False)
    try:
        life = await live(records, models, View(), None, ahead=4)
        starts = [checkpoint.start for checkpoint in life.checkpoints]
        assert 17 <= len(starts) <= 20
        assert all(after - before == 16_000 for before, after in pairwise(starts))
    finally:
        models.close()
