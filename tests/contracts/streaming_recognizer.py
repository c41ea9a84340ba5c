"""What every streaming recogniser promises. A test class of an engine inherits it and names its fixtures.

Beside `recognizer`, an engine gives `streams`: at least three, as frames of 2 to 10 s, in each of which it hears
something else, and `silence`: frames of 2 s in which it hears nothing.
"""

from collections import defaultdict
from collections.abc import Sequence

import numpy as np
import pytest

from streamscribe.core.errors import BadRequest
from streamscribe.core.tokens import Token
from streamscribe.models.ports import (
    FRAME_SAMPLES,
    FRAME_SHIFT_SAMPLES,
    ChunkRequest,
    Frames,
    StreamingRecognizer,
)

CHUNK_MS = 600
CHUNK_FRAMES = CHUNK_MS // 10


def chunks(frames: Frames, chunk_ms: int = CHUNK_MS) -> list[tuple[Frames, bool]]:
    """The stream's chunks and whether each is the last, which may be shorter; a stream without frames has one."""
    size = chunk_ms // 10
    starts = range(0, max(1, len(frames)), size)
    return [(frames[start : start + size], start + size >= len(frames)) for start in starts]


def hear(recognizer: StreamingRecognizer, frames: Frames, chunk_ms: int = CHUNK_MS) -> list[Token]:
    """All tokens of one stream, alone."""
    state = recognizer.open(chunk_ms)
    tokens: list[Token] = []
    for chunk, last in chunks(frames, chunk_ms):
        tokens += recognizer.step([ChunkRequest(state, chunk, last)])[0]
    return tokens


def hear_together(
    recognizer: StreamingRecognizer, streams: Sequence[tuple[Frames, int, int]]
) -> tuple[list[list[Token]], int]:
    """The tokens of each stream, given with its chunk length and the turn in which it joins, and the largest step.

    In each turn, all that are there and can share a step do.
    """
    queues = [chunks(frames, chunk_ms) for frames, chunk_ms, _ in streams]
    states = [recognizer.open(chunk_ms) for _, chunk_ms, _ in streams]
    heard: list[list[Token]] = [[] for _ in streams]
    turn = largest = 0
    while any(queues):
        groups = defaultdict(list)
        for index, (_, _, joins) in enumerate(streams):
            if turn >= joins and queues[index]:
                request = ChunkRequest(states[index], *queues[index].pop(0))
                groups[recognizer.group(request)].append((index, request))
        for members in groups.values():
            largest = max(largest, len(members))
            for (index, _), tokens in zip(members, recognizer.step([one for _, one in members]), strict=True):
                heard[index] += tokens
        turn += 1
    return heard, largest


def assert_equal(heard: Sequence[Token], expected: Sequence[Token]) -> None:
    """The same tokens at the same times, their confidences but for a batch's arithmetic."""
    assert [token.text for token in heard] == [token.text for token in expected]
    for one, other in zip(heard, expected, strict=True):
        assert one.confidence == pytest.approx(other.confidence, abs=1e-4)
        assert (one.start, one.end) == pytest.approx((other.start, other.end), abs=1)


class StreamingRecognizerContract:
    @pytest.fixture
    def recognizer(self) -> StreamingRecognizer:
        raise NotImplementedError

    @pytest.fixture
    def streams(self) -> list[Frames]:
        raise NotImplementedError

    @pytest.fixture
    def silence(self) -> Frames:
        raise NotImplementedError

    def test_each_stream_has_its_own_text_at_every_chunk_length(self, recognizer, streams):
        assert list(recognizer.chunk_choices_ms) == sorted(set(recognizer.chunk_choices_ms))
        for chunk_ms in recognizer.chunk_choices_ms:
            texts = {"".join(token.text for token in hear(recognizer, frames, chunk_ms)) for frames in streams}
            assert len(texts) == len(streams)
            assert all(texts)

    def test_silence_has_no_text_nor_has_a_stream_without_frames(self, recognizer, silence):
        assert hear(recognizer, silence) == []
        for length in (0, 1, 3, CHUNK_FRAMES):
            assert hear(recognizer, silence[:length]) == []

    def test_a_chunk_length_that_is_not_offered_is_refused(self, recognizer):
        with pytest.raises(BadRequest):
            recognizer.open(recognizer.chunk_choices_ms[-1] + 10)

    @pytest.mark.parametrize("size", [1, 2, 5, 16])
    def test_law_4_streams_that_join_and_leave_hear_together_what_they_hear_alone(self, recognizer, streams, size):
        plan = [(streams[i % len(streams)][: len(streams[0]) * 3 - 7 * i], CHUNK_MS, i % 5) for i in range(size)]
        heard, largest = hear_together(recognizer, plan)
        for tokens, (frames, chunk_ms, _) in zip(heard, plan, strict=True):
            assert_equal(tokens, hear(recognizer, frames, chunk_ms))
        assert largest > size // 2

    def test_law_4_chunks_of_all_lengths_go_side_by_side(self, recognizer, streams):
        plan = [(frames, ms, i) for i, frames in enumerate(streams) for ms in recognizer.chunk_choices_ms]
        heard, _ = hear_together(recognizer, plan)
        for tokens, (frames, chunk_ms, _) in zip(heard, plan, strict=True):
            assert_equal(tokens, hear(recognizer, frames, chunk_ms))

    @pytest.mark.parametrize("frames_left", [0, 1, 2, 3, 6, 7, CHUNK_FRAMES - 1, CHUNK_FRAMES])
    def test_law_4_a_last_chunk_of_any_length_shares_a_step_as_if_it_were_alone(self, recognizer, streams, frames_left):
        (expected,) = self._with_last_chunk(recognizer, streams[:1], frames_left)
        together = self._with_last_chunk(recognizer, streams[:1] * 3, frames_left)
        for tokens in together:
            assert_equal(tokens, expected)

    @staticmethod
    def _with_last_chunk(recognizer, streams, frames_left) -> list[list[Token]]:
        """What each hears that ends so many frames after its second chunk, all of them in the company of others."""
        states = [recognizer.open(CHUNK_MS) for _ in streams]
        mates = [recognizer.open(CHUNK_MS) for _ in streams[1:]]
        heard: list[list[Token]] = [[] for _ in streams]
        for start, end in ((0, 60), (60, 120), (120, 120 + frames_left)):
            batch = [
                ChunkRequest(state, frames[start:end], start == 120)
                for state, frames in zip(states, streams, strict=True)
            ]
            others = [ChunkRequest(state, streams[0][start : start + CHUNK_FRAMES]) for state in mates]
            together = [request for request in others if recognizer.group(request) == recognizer.group(batch[0])]
            told = recognizer.step([*batch, *together])
            for tokens, new in zip(heard, told, strict=False):
                tokens += new
        return heard

    def test_law_5_times_are_monotone_and_within_the_stream(self, recognizer, streams):
        for chunk_ms in recognizer.chunk_choices_ms:
            for frames in streams:
                tokens = hear(recognizer, frames, chunk_ms)
                times = [time for token in tokens for time in (token.start, token.end)]
                assert times == sorted(times)
                assert times[0] >= 0
                assert times[-1] <= (len(frames) - 1) * FRAME_SHIFT_SAMPLES + FRAME_SAMPLES
                assert all(token.text and 0 <= token.confidence <= 1 for token in tokens)

    def test_law_6_the_last_word_is_heard_also_when_the_last_chunk_is_empty(self, recognizer, streams, silence):
        for frames in streams:
            ended = np.concatenate((frames, silence[: CHUNK_FRAMES - len(frames) % CHUNK_FRAMES]))
            state = recognizer.open(CHUNK_MS)
            tokens: list[Token] = []
            for start in range(0, len(ended), CHUNK_FRAMES):
                tokens += recognizer.step([ChunkRequest(state, ended[start : start + CHUNK_FRAMES])])[0]
            tokens += recognizer.step([ChunkRequest(state, ended[:0], last=True)])[0]
            assert [token.text for token in tokens] == [token.text for token in hear(recognizer, ended)]

    def test_law_7_a_state_is_as_large_after_ten_minutes_as_after_a_few_seconds(self, recognizer, streams):
        state = recognizer.open(CHUNK_MS)
        spoken = np.concatenate(streams)
        sizes, dumps = [], []
        for turn in range(1000):
            at = turn * CHUNK_FRAMES % (len(spoken) - CHUNK_FRAMES)
            recognizer.step([ChunkRequest(state, spoken[at : at + CHUNK_FRAMES])])
            sizes.append(recognizer.state_bytes(state))
            dumps.append(len(recognizer.dump(state)) if turn % 50 < 10 else 0)
        assert 0 <= max(sizes) == max(sizes[:10]) < 16 << 20
        assert max(dumps) == max(dumps[:10]) < 16 << 20

    def test_law_8_a_step_that_raises_has_changed_no_state(self, recognizer, streams):
        expected = hear(recognizer, streams[0])
        state, guilty = recognizer.open(CHUNK_MS), recognizer.open(CHUNK_MS)
        tokens: list[Token] = []
        for chunk, last in chunks(streams[0]):
            request = ChunkRequest(state, chunk, last)
            with pytest.raises(Exception):  # noqa: B017 - whatever the engine raises for what are no frames
                recognizer.step([request, ChunkRequest(guilty, None)])
            tokens += recognizer.step([request])[0]
        assert_equal(tokens, expected)

    def test_a_state_goes_on_in_another_process(self, recognizer, streams):
        for moved_after in (0, 1, 2):
            state = recognizer.open(CHUNK_MS)
            tokens: list[Token] = []
            for turn, (chunk, last) in enumerate(chunks(streams[0])):
                if turn == moved_after:
                    dumped = recognizer.dump(state)
                    assert isinstance(dumped, bytes)
                    state = recognizer.restore(dumped)
                    assert recognizer.dump(state) == dumped
                tokens += recognizer.step([ChunkRequest(state, chunk, last)])[0]
            assert_equal(tokens, hear(recognizer, streams[0]))

    def test_bytes_that_are_no_state_are_refused(self, recognizer, streams):
        state = recognizer.open(CHUNK_MS)
        recognizer.step([ChunkRequest(state, streams[0][:CHUNK_FRAMES])])
        dumped = recognizer.dump(state)
        for data in (b"", dumped[:-1], dumped + b"\0", b"\0" * len(dumped), dumped[:4], b"\xff" * 10_000):
            with pytest.raises(BadRequest):
                recognizer.restore(data)

    def test_an_empty_batch_is_nothing(self, recognizer):
        assert recognizer.step([]) == []
