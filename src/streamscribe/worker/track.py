"""One channel's recent audio and its frames, cut into blocks of one length whatever the packets were."""

from collections import deque

import numpy as np

from streamscribe.core.audio import to_samples
from streamscribe.models.ports import FRAME_SHIFT_SAMPLES, Frames, Samples

QUIET_SPAN = to_samples(160)
"""A cut is made in the middle of the quietest stretch of this length."""


class AudioTrack:
    """Gathers samples into blocks, and keeps the blocks that were heard, and their frames, until they are forgotten.

    Indices count samples since the session began, and frames, of which frame i begins with sample 160 i; the track
    begins at `start`, a whole frame shift. Blocks end at multiples of their length wherever it began. A block costs
    the same whatever the age of the session (law 7): blocks are kept side by side and joined only when a stretch is cut
    out. The owner forgets what no segment may need: at most the longest segment and the look-back stay.
    """

    def __init__(self, block_samples: int, start: int = 0) -> None:
        self._block_samples = block_samples
        self._blocks: deque[Samples] = deque()
        self._start = start
        self._heard = start
        self._frames: deque[Frames] = deque()
        self._first_frame = frame_at(start)
        self._known_frames = self._first_frame
        self._fill(start)
        self._no_frames: Frames = np.zeros((0, 0), np.float32)

    @property
    def heard(self) -> int:
        """Sample after the last block that was held."""
        return self._heard

    @property
    def received(self) -> int:
        """Sample after the last one received; what lies after `heard` fills the next block."""
        return self._heard + self._filled

    @property
    def held(self) -> int:
        """How many samples of heard blocks are in memory."""
        return self._heard - self._start

    @property
    def known_frames(self) -> int:
        """How many frames are known since the session began."""
        return self._known_frames

    @property
    def held_frames(self) -> int:
        """How many frames are in memory."""
        return self._known_frames - self._first_frame

    def receive(self, samples: Samples) -> list[Samples]:
        """The blocks that are full now; hold each when it was heard, in order. `samples` is the track's from now on."""
        if not self._filled and len(samples) == self._block_samples == len(self._filling):  # most need no copy
            self._begun += self._block_samples
            return [samples]
        blocks: list[Samples] = []
        taken = 0
        while taken < len(samples):
            count = min(len(self._filling) - self._filled, len(samples) - taken)
            self._filling[self._filled : self._filled + count] = samples[taken : taken + count]
            self._filled += count
            taken += count
            if self._filled == len(self._filling):
                blocks.append(self._filling)
                self._fill(self._begun + self._filled)
        return blocks

    def _fill(self, begin: int) -> None:
        """Begins the next block, which ends at the next multiple of their length."""
        self._begun = begin
        self._filling = np.empty(self._block_samples - begin % self._block_samples, np.float32)
        self._filled = 0

    def short_block(self) -> Samples:
        """What has come of the next block, in whole frame shifts and perhaps nothing; the rest begins a new one."""
        count = self._filled - self._filled % FRAME_SHIFT_SAMPLES
        block, rest = self._filling[:count], self._filling[count : self._filled]
        self._fill(self._begun + count)
        self._filling[: len(rest)] = rest
        self._filled = len(rest)
        return block

    def last_block(self) -> Samples:
        """What has not filled a block, perhaps nothing, at the end of the audio."""
        rest = self._filling[: self._filled]
        self._fill(self._begun + self._filled)
        return rest

    def hold(self, block: Samples, frames: Frames) -> None:
        """Takes a block that was heard, and the frames that it completed."""
        self._blocks.append(block)
        self._heard += len(block)
        if len(frames):
            self._frames.append(frames)
            self._known_frames += len(frames)
            self._no_frames = frames[:0]

    def cut(self, start: int, end: int) -> Samples:
        """A copy of what is in memory of [start, end), received samples included."""
        pieces: list[Samples] = []
        at = self._start
        for block in (*self._blocks, self._filling[: self._filled]):
            if at < end and at + len(block) > start:
                pieces.append(block[max(0, start - at) : end - at])
            at += len(block)
        return np.concatenate(pieces) if pieces else np.zeros(0, np.float32)

    def cut_frames(self, first: int, last: int) -> Frames:
        """A copy of what is in memory of frames [first, last)."""
        pieces: list[Frames] = [self._no_frames]
        at = self._first_frame
        for frames in self._frames:
            if at < last and at + len(frames) > first:
                pieces.append(frames[max(0, first - at) : last - at])
            at += len(frames)
        return np.concatenate(pieces)

    def quietest(self, start: int, end: int) -> int:
        """The middle of the quietest stretch of [start, end), whole frame shifts behind `start`; of equals the last."""
        count = (end - start) // FRAME_SHIFT_SAMPLES
        samples = self.cut(start, start + count * FRAME_SHIFT_SAMPLES)
        shifts = samples.reshape(-1, FRAME_SHIFT_SAMPLES).astype(np.float64)
        energies = np.einsum("fs,fs->f", shifts, shifts)
        span = QUIET_SPAN // FRAME_SHIFT_SAMPLES
        if len(energies) < span:
            return end
        spans = np.convolve(energies, np.ones(span), mode="valid")
        at = len(spans) - 1 - int(np.argmin(spans[::-1]))
        return start + at * FRAME_SHIFT_SAMPLES + QUIET_SPAN // 2

    def forget_before(self, sample: int) -> None:
        """Drops the blocks, and the frames, that lie wholly before `sample`."""
        while self._blocks and self._start + len(self._blocks[0]) <= sample:
            self._start += len(self._blocks.popleft())
        while self._frames and (self._first_frame + len(self._frames[0])) * FRAME_SHIFT_SAMPLES <= sample:
            self._first_frame += len(self._frames.popleft())


def frame_at(sample: int) -> int:
    """The first frame that begins at `sample` or after it."""
    return -(-sample // FRAME_SHIFT_SAMPLES)
