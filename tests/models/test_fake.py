"""What the platform's tests rely on in the fake recogniser."""

import numpy as np
import pytest

from streamscribe.models.fake.recognizer import POISON, WINDOW_SAMPLES, FakeRecognizer
from streamscribe.models.ports import SegmentRequest

NOISE = np.random.default_rng(7).normal(0, 0.1, 10 * WINDOW_SAMPLES).astype(np.float32)


def text_of(samples, **how):
    return FakeRecognizer().recognize([SegmentRequest(samples, **how)])[0].text


def test_a_draft_of_a_beginning_is_a_beginning_of_the_final():
    final = text_of(NOISE)
    drafts = [text_of(NOISE[:end], draft=True) for end in range(WINDOW_SAMPLES, len(NOISE), 1600)]
    assert all(final.startswith(draft) for draft in drafts)
    assert drafts == sorted(drafts, key=len)
    assert len(final.split()) == 10


def test_other_audio_has_other_words():
    others = np.random.default_rng(8).normal(0, 0.1, 100 * WINDOW_SAMPLES).astype(np.float32)
    assert len(set(text_of(others).split())) == 100


def test_a_quiet_window_has_no_word():
    quiet = NOISE.copy()
    quiet[WINDOW_SAMPLES : 2 * WINDOW_SAMPLES] = 0
    words = text_of(NOISE).split()
    assert text_of(quiet).split() == [words[0], *words[2:]]


def test_poison_anywhere_in_the_audio_makes_it_raise():
    poison = np.frombuffer(POISON, dtype="<i2").astype(np.float32) / 32768
    with pytest.raises(ValueError, match="poison"):
        text_of(np.concatenate([NOISE[:12_345], poison, NOISE]))
