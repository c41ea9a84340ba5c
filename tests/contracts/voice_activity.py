"""What every voice activity detector promises. A test class of an engine inherits it and names its fixtures.

Beside `vad`, an engine gives `speech`: 2 to 6 s that it calls voice from its first half second to its last, without a
pause of 300 ms.
"""

from typing import ClassVar

import numpy as np
import pytest

from streamscribe.core.audio import to_samples
from streamscribe.core.errors import BadRequest
from streamscribe.models.ports import (
    FRAME_SHIFT_SAMPLES,
    Frames,
    Samples,
    VadOptions,
    VadRequest,
    VoiceActivityDetector,
    VoiceEvent,
    frame_count,
)


def silence(ms: int) -> Samples:
    return np.zeros(to_samples(ms), dtype=np.float32)


def blocks(samples: Samples, size: int) -> list[tuple[Samples, bool]]:
    """The audio in blocks of `size`, the last of which may be shorter, and whether each is the last."""
    starts = range(0, len(samples), size)
    return [(samples[start : start + size], start + size >= len(samples)) for start in starts]


def hear(vad: VoiceActivityDetector, samples: Samples, options: VadOptions, size: int | None = None):
    """All events of one stream, alone."""
    state = vad.open(options)
    events: list[VoiceEvent] = []
    for block, last in blocks(samples, size or vad.block_samples):
        events += vad.step([VadRequest(state, block, last)])[0].events
    return events


def frames(vad: VoiceActivityDetector, samples: Samples, size: int, mates: int = 0) -> Frames:
    """All frames of one stream, in the company of others that say something else."""
    states = [vad.open(VadOptions()) for _ in range(1 + mates)]
    told = []
    for block, last in blocks(samples, size):
        batch = [VadRequest(states[0], block, last)]
        batch += [VadRequest(state, block[: len(block) // i] / 2) for i, state in enumerate(states[1:], 1)]
        told.append(vad.step(batch)[0].frames)
    return np.concatenate(told)


class VoiceActivityContract:
    other_block_samples: ClassVar[tuple[int, ...]] = ()
    """Block sizes beside the engine's own for which it promises the same events."""

    @pytest.fixture
    def vad(self) -> VoiceActivityDetector:
        raise NotImplementedError

    @pytest.fixture
    def speech(self) -> Samples:
        raise NotImplementedError

    @pytest.fixture
    def talk(self, speech) -> Samples:
        """Two utterances 1.5 s apart, with silence around."""
        return np.concatenate([silence(1000), speech, silence(1500), speech, silence(2000)])

    def test_each_utterance_is_one_voice(self, vad, speech, talk):
        events = hear(vad, talk, VadOptions(silence_ms=500))
        assert [event.started for event in events] == [True, False, True, False]
        for i, said_at in enumerate((to_samples(1000), to_samples(2500) + len(speech))):
            assert abs(events[2 * i].at - said_at) <= to_samples(600)
            assert abs(events[2 * i + 1].at - (said_at + len(speech))) <= to_samples(600)

    def test_a_pause_shorter_than_the_options_silence_does_not_end_a_voice(self, vad, talk):
        assert [event.started for event in hear(vad, talk, VadOptions(silence_ms=3000))] == [True, False]

    def test_law_5_events_alternate_in_order_and_starts_lie_within_the_lookback(self, vad, talk):
        state = vad.open(VadOptions(silence_ms=500))
        position, last_at, voice = 0, 0, False
        for block, last in blocks(talk, vad.block_samples):
            for event in vad.step([VadRequest(state, block, last)])[0].events:
                assert event.started is not voice
                assert event.at >= last_at
                assert event.at <= position + len(block)
                if event.started:
                    assert event.at >= position - vad.lookback_samples
                voice, last_at = event.started, event.at
            position += len(block)
        assert not voice

    def test_silence_has_no_voice(self, vad):
        assert hear(vad, silence(5000), VadOptions()) == []

    def test_the_last_block_ends_an_open_voice(self, vad, speech):
        events = hear(vad, np.concatenate([silence(500), speech]), VadOptions())
        assert [event.started for event in events] == [True, False]
        assert events[1].at <= to_samples(500) + len(speech)

    def test_a_last_block_of_any_length_is_taken(self, vad, speech):
        heard = np.concatenate([silence(500), speech])
        for cut in (1, 159, 161, vad.block_samples - 1):
            events = hear(vad, heard[:-cut], VadOptions())
            assert [event.started for event in events] == [True, False]

    def test_an_empty_last_block_ends_an_open_voice(self, vad, speech):
        state = vad.open(VadOptions())
        heard = np.concatenate([silence(500), speech])
        whole = len(heard) - len(heard) % vad.block_samples
        events = []
        for block, _ in blocks(heard[:whole], vad.block_samples):
            events += vad.step([VadRequest(state, block)])[0].events
        events += vad.step([VadRequest(state, heard[:0], last=True)])[0].events
        assert [event.started for event in events] == [True, False]

    def test_voice_without_a_pause_is_one_voice_however_long(self, vad, speech):
        events = hear(vad, np.concatenate([silence(500), *[speech] * 15, silence(1500)]), VadOptions())
        assert [event.started for event in events] == [True, False]

    def test_law_4_streams_of_unequal_age_and_options_hear_in_one_batch_what_they_hear_alone(self, vad, speech, talk):
        streams = [
            (talk, VadOptions(silence_ms=500)),
            (silence(3000), VadOptions()),
            (talk[: len(talk) // 2 + 777], VadOptions(silence_ms=900)),
            (np.concatenate([speech, silence(700), talk]), VadOptions(silence_ms=600)),
        ]
        alone = [hear(vad, samples, options) for samples, options in streams]
        queues = [blocks(samples, vad.block_samples) for samples, _ in streams]
        states = [vad.open(options) for _, options in streams]
        together: list[list[VoiceEvent]] = [[] for _ in streams]
        for turn in range(max(len(queue) + 3 * i for i, queue in enumerate(queues))):
            joined = [i for i, queue in enumerate(queues) if 3 * i <= turn < 3 * i + len(queue)]
            batch = [VadRequest(states[i], *queues[i][turn - 3 * i]) for i in joined]
            for i, told in zip(joined, vad.step(batch), strict=True):
                together[i] += told.events
        assert together == alone

    def test_law_4_frames_depend_on_neither_block_sizes_nor_batch_mates(self, vad, talk):
        expected = frames(vad, talk, len(talk))
        assert len(expected) == frame_count(len(talk))
        for size in (vad.block_samples, *self.other_block_samples):
            assert np.array_equal(frames(vad, talk, size, mates=3), expected)

    def test_frames_are_known_as_soon_as_their_samples_are(self, vad, talk):
        state, known = vad.open(VadOptions()), 0
        for end in range(vad.block_samples, to_samples(2000), vad.block_samples):
            known += len(vad.step([VadRequest(state, talk[end - vad.block_samples : end])])[0].frames)
            assert known == frame_count(end)

    def test_law_4_block_sizes_change_nothing(self, vad, talk):
        options = VadOptions(silence_ms=500)
        expected = hear(vad, talk, options)
        for size in self.other_block_samples:
            assert hear(vad, talk, options, size) == expected

    def test_law_8_a_step_that_raises_has_changed_no_state(self, vad, talk):
        options = VadOptions(silence_ms=500)
        expected = hear(vad, talk, options)
        state, guilty = vad.open(options), vad.open(options)
        events: list[VoiceEvent] = []
        for block, last in blocks(talk, vad.block_samples):
            request = VadRequest(state, block, last)
            with pytest.raises(Exception):  # noqa: B017 - whatever the engine raises for what is no audio
                vad.step([request, VadRequest(guilty, None)])
            events += vad.step([request])[0].events
        assert events == expected

    @pytest.mark.parametrize("mates", [0, 3])
    def test_law_4_who_goes_on_from_a_point_at_any_block_hears_what_the_first_would_have_heard(self, vad, talk, mates):
        options, size = VadOptions(silence_ms=500), vad.block_samples
        state, told, points = vad.open(options), [], []
        for block, last in blocks(talk, size):
            points.append(vad.point(state))
            told.append(vad.step([VadRequest(state, block, last)])[0])
        for at in range(1, len(points), 3):
            start = max(0, at * size - vad.memory_samples) // FRAME_SHIFT_SAMPLES * FRAME_SHIFT_SAMPLES
            states = [vad.open(options) for _ in range(1 + mates)]
            first = -start % size or size
            ends = range(start + first, at * size + 1, size)
            for end in ends:
                warm = talk[max(start, end - size) : end]
                vad.step([VadRequest(one, warm / (1 + i)) for i, one in enumerate(states)])
            vad.go_on(states[0], points[at])
            assert vad.point(states[0]) == points[at]
            for (block, last), expected in zip(blocks(talk, size)[at:], told[at:], strict=True):
                heard = vad.step([VadRequest(one, block / (1 + i), last) for i, one in enumerate(states)])[0]
                assert heard.events == expected.events
                assert np.array_equal(heard.frames, expected.frames)

    @pytest.mark.parametrize("point", [(), (1,), (1, 2, 3), (-1,) * 4, (-1,) * 6, (1,) * 20])
    def test_what_is_no_point_is_refused(self, vad, point):
        with pytest.raises(BadRequest):
            vad.go_on(vad.open(VadOptions()), point)

    def test_an_empty_batch_is_nothing(self, vad):
        assert vad.step([]) == []
