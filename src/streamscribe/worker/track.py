"""One channel's recent audio, cut into blocks of one length whatever the packets were."""

from collections import deque

import numpy as np

from streamscribe.models.ports import Samples


class AudioTrack:
    """Gathers samples into blocks, and keeps the blocks that were heard until they are forgotten.

    Indices count samples since the session began. A block costs the same whatever the age of the session (law 7):
    blocks are kept side by side and joined only when a stretch is cut out. The owner forgets what no segment may need:
    at most the longest segment and the look-back stay.
    """

    def __init__(self, block_samples: int) -> None:
        self._block_samples = block_samples
        self._filling = np.empty(block_samples, np.float32)
        self._filled = 0
        self._blocks: deque[Samples] = deque()
        self._start = 0
        self._heard = 0

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

    def receive(self, samples: Samples) -> list[Samples]:
        """The blocks that are full now; hold each when it was heard, in order. `samples` is the track's from now on."""
        if not self._filled and len(samples) == self._block_samples:  # the usual packet needs no copy
            return [samples]
        blocks: list[Samples] = []
        taken = 0
        while taken < len(samples):
            count = min(self._block_samples - self._filled, len(samples) - taken)
            self._filling[self._filled : self._filled + count] = samples[taken : taken + count]
            self._filled += count
            taken += count
            if self._filled == self._block_samples:
                blocks.append(self._filling)
                self._filling = np.empty(self._block_samples, np.float32)
                self._filled = 0
        return blocks

    def last_block(self) -> Samples:
        """What has not filled a block, perhaps nothing, at the end of the audio."""
        rest = self._filling[: self._filled]
        self._filling, self._filled = np.empty(self._block_samples, np.float32), 0
        return rest

    def hold(self, block: Samples) -> None:
        """Takes a block that was heard."""
        self._blocks.append(block)
        self._heard += len(block)

    def cut(self, start: int, end: int) -> Samples:
        """A copy of what is in memory of [start, end), received samples included."""
        pieces: list[Samples] = []
        at = self._start
        for block in (*self._blocks, self._filling[: self._filled]):
            if at < end and at + len(block) > start:
                pieces.append(block[max(0, start - at) : end - at])
            at += len(block)
        return np.concatenate(pieces) if pieces else np.zeros(0, np.float32)

    def forget_before(self, sample: int) -> None:
        """Drops the blocks that lie wholly before `sample`."""
        while self._blocks and self._start + len(self._blocks[0]) <= sample:
            self._start += len(self._blocks.popleft())
