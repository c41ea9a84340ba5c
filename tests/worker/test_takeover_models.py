"""The same takeover with the real detector and the tiny Paraformer, on speech."""

import random
from collections.abc import Iterator

import numpy as np
import pytest
import soxr

from streamscribe.bench.recordings import recordings
from streamscribe.bootstrap.models import load_models
from streamscribe.core.audio import AudioFormat, Encoding
from streamscribe.core.options import EndpointOptions, Mode, SessionOptions
from streamscribe.models.pool import Models
from streamscribe.settings import ModelSettings
from tests.worker.kit import silence
from tests.worker.takeover import View, live, session

pytestmark = pytest.mark.models


@pytest.fixture(scope="module")
def models() -> Iterator[Models]:
    models = load_models(ModelSettings(profile="tiny"))
    models.start()
    models.wait_ready()
    yield models
    models.close()


def speech(*which: int) -> bytes:
    """Recordings with pauses between them, of which some have one within."""
    chosen = [recordings("paused")[one % 4] if one % 2 else recordings()[one] for one in which]
    return silence(700) + b"".join(one.samples.astype("<i2").tobytes() + silence(900) for one in chosen)


def stereo(left: bytes, right: bytes) -> bytes:
    length = min(len(left), len(right))
    return np.stack([np.frombuffer(side[:length], "<i2") for side in (left, right)], axis=1).tobytes()


def heard(view: View) -> list[tuple[object, ...]]:
    """What was said, when and by whom; the confidence's last digits depend on what shared a step."""
    return [
        (
            f.segment_id,
            f.pass_,
            f.channel,
            f.text,
            f.start_ms,
            f.end_ms,
            [(w.text, w.start_ms, w.end_ms) for w in f.words],
        )
        for f in view.finals
    ]


CASES = {
    "2pass": (SessionOptions(words=True), speech(0, 1, 2, 3)),
    "online": (SessionOptions(words=True, mode=Mode.ONLINE), speech(4, 5, 6)),
    "file": (SessionOptions(words=True, mode=Mode.OFFLINE, live=False), speech(1, 7, 8)),
    "cut": (
        SessionOptions(words=True, endpoint=EndpointOptions(silence_ms=3000, max_segment_ms=3000)),
        speech(0, 2, 4, 6),
    ),
    "stereo": (SessionOptions(words=True, audio=AudioFormat(channels=2)), stereo(speech(0, 1, 2), speech(3, 4, 5))),
    "telephone": (
        SessionOptions(words=True, audio=AudioFormat(Encoding.PCM_S16, 8_000)),
        soxr.resample(np.frombuffer(speech(0, 1, 2), "<i2"), 16_000, 8_000).astype("<i2").tobytes(),
    ),
}


@pytest.mark.parametrize("case", CASES)
async def test_law_4_what_is_heard_is_the_same_whichever_worker_died_and_when(case: str, models: Models) -> None:
    options, audio = CASES[case]
    rng = random.Random(case)
    records = session(audio, options, rng, most_bytes=12_000, controls=3)
    undisturbed = View()
    await live(records, models, undisturbed, None, ahead=4)
    undisturbed.check_laws()
    assert len("".join(final.text for final in undisturbed.finals)) > 10
    for _ in range(4):
        view, checkpoint = View(), None
        for _ in range(2):
            last = rng.randrange(1 if checkpoint is None else checkpoint.index, len(records) - 1)
            checkpoint = (await live(records, models, view, checkpoint, ahead=4, last=last)).checkpoint
        await live(records, models, view, checkpoint, ahead=4)
        view.check_laws()
        assert heard(view) == heard(undisturbed)
        assert (view.flushes, view.voice, view.ended) == (undisturbed.flushes, undisturbed.voice, undisturbed.ended)
