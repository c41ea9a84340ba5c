"""Whisper's parts that need no model: features, word times, guards."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamscribe.models.whisper import guards
from streamscribe.models.whisper.features import log_mel
from streamscribe.models.whisper.model import _Job
from streamscribe.models.whisper.vocabulary import Piece
from streamscribe.models.whisper.word_times import POSITION_SAMPLES, words

GOLDEN = np.load(Path(__file__).parents[1] / "golden/whisper_features.npz")


@pytest.mark.parametrize("name", ["noise", "tone", "short", "silence"])
def test_features_equal_those_of_faster_whisper(name):
    """The golden values are faster-whisper 1.2's, every 7th frame of the first 2.5 s."""
    features = log_mel(GOLDEN[f"{name}_samples"].astype(np.float32) / 32768, 250, 80)
    assert np.abs(features[:, ::7] - GOLDEN[name]).max() < 1e-4


def test_what_follows_the_audio_is_silence_at_any_length():
    noise = np.random.default_rng(2).normal(0, 0.1, 5000).astype(np.float32)
    short, long = log_mel(noise, 100, 80), log_mel(noise, 3000, 80)
    assert np.array_equal(short, long[:, :100])
    assert len(np.unique(long[:, 40:])) == 1
    assert log_mel(noise[:0], 100, 80).shape == (80, 100)


def test_audio_longer_than_the_frames_is_cut():
    noise = np.random.default_rng(2).normal(0, 0.1, 40_000).astype(np.float32)
    assert log_mel(noise, 200, 80).shape == (80, 200)


def spoken(*pieces: str) -> list[str]:
    """The words' texts when each piece is one token that lasts one position."""
    tokens = [Piece(piece, 1) for piece in pieces]
    return [word.text for word in words(tokens, range(len(pieces) + 1), [0.5] * len(pieces), 10**6)]


@pytest.mark.parametrize(
    ("pieces", "expected"),
    [
        ([" It", " was", " his", " life", ".", " It", "'s"], ["It", "was", "his", "life.", "It's"]),
        (["你好", "世界", "，", "再", "见", "。"], ["你", "好", "世", "界，", "再", "见。"]),
        (["我", "用", " Comfy", "UI", " 做", "图"], ["我", "用", "ComfyUI", "做", "图"]),
        (["超", "50", "%", "了"], ["超", "50%", "了"]),
        ([" (", "yes", ")", " -", " no"], ["(yes)", "-", "no"]),
        (["《", "红", "楼", "》"], ["《红", "楼》"]),
        ([" สวัส", "ดี"], ["ส", "วั", "ส", "ดี"]),
        (["안녕", "하세요", " 세계"], ["안녕하세요", "세계"]),
        ([" ", ""], []),
    ],
)
def test_words_are_characters_where_the_script_has_no_spaces(pieces, expected):
    assert spoken(*pieces) == expected


def test_a_tokens_characters_share_its_time():
    heard = words([Piece("你好", 2), Piece("吗", 1)], [10, 12, 14, 20], [0.4, 0.8, 1.0], 10**6)
    assert [(word.start, word.end) for word in heard] == [
        (10 * POSITION_SAMPLES, 12 * POSITION_SAMPLES),
        (12 * POSITION_SAMPLES, 14 * POSITION_SAMPLES),
        (14 * POSITION_SAMPLES, 20 * POSITION_SAMPLES),
    ]
    assert [word.confidence for word in heard] == [0.4, 0.4, 1.0]


@given(
    st.lists(st.tuples(st.text(max_size=4), st.integers(1, 3), st.integers(0, 50)), max_size=12), st.integers(0, 9000)
)
def test_law_5_words_make_up_the_text_and_their_times_are_monotone_and_inside(parts, samples):
    pieces = [Piece(text, tokens) for text, tokens, _ in parts]
    positions = [0]
    for piece, (_, _, step) in zip(pieces, parts, strict=True):
        positions += [positions[-1] + step * (token + 1) for token in range(piece.tokens)]
    heard = words(pieces, sorted(positions), [0.5] * len(positions), samples)
    text = "".join(piece.text for piece in pieces)
    assert "".join(word.text for word in heard) == "".join(char for char in text if not char.isspace())
    times = [time for word in heard for time in (word.start, word.end)]
    assert times == sorted(times)
    assert all(0 <= time <= samples for time in times)


def test_a_decode_is_astray_when_it_does_not_end_or_repeats_itself():
    assert guards.is_degenerate(range(40), "fine", limit=40)
    assert guards.is_degenerate([7] * 20, "no", limit=40)
    assert guards.is_degenerate(range(30), "ha " * 40, limit=40)
    assert not guards.is_degenerate(range(10), "press one, press two, press three", limit=40)
    assert not guards.is_degenerate([], "", limit=40)


def test_a_text_is_doubtful_when_it_is_unlikely_stammers_or_went_astray():
    assert guards.is_doubtful([1, 2, 3], -1.1, astray=False)
    assert guards.is_doubtful([9, 5, 6, 5, 6, 5, 6, 5, 6], -0.1, astray=False)
    assert guards.is_doubtful([1, 2, 3], -0.1, astray=True)
    assert not guards.is_doubtful([5, 5, 5, 5, 1, 2, 3], -0.9, astray=False)
    assert guards.stammers([9, 5, 6, 5, 6, 5, 6, 5, 6])
    assert not guards.stammers([5, 6, 5, 6, 5, 6])


def test_every_look_at_a_segment_counts_to_whether_nobody_spoke():
    assert guards.is_no_speech([0.7])
    assert guards.is_no_speech([0.8, 0.6])
    assert not guards.is_no_speech([0.75, 0.55])


@pytest.mark.parametrize(
    ("tokens", "no_speech", "nobody_spoke"),
    [([5, 6] * 5, [0.79, 0.685], True), ([5, 6] * 5, [0.79, 0.5], False), ([5, 6, 7], [0.79, 0.685], False)],
)
def test_a_stammer_on_what_is_hardly_speech_is_nobodys_though_an_earlier_look_did_not_doubt(
    tokens, no_speech, nobody_spoke
):
    job = _Job(0, None, tokens=tokens, no_speech=no_speech, doubts=[False, True])
    assert job.nobody_spoke == nobody_spoke


def test_audio_bounds_the_tokens():
    assert guards.token_limit(0) == 24
    assert guards.token_limit(16_000) == 44
    assert guards.token_limit(480_000) == guards.MAX_TOKENS


def test_a_text_that_says_a_part_of_what_it_was_told_again_is_an_echo():
    told = list(range(100, 130))
    assert guards.is_echo([1, 2, *told[5:13]], told)
    assert guards.is_echo(told, told)
    assert not guards.is_echo([1, 2, *told[5:12], 3], told)
    assert not guards.is_echo([], told)
    assert not guards.is_echo(told, told[:7])
