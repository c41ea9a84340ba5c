"""How silence looks in frames, for what must be heard behind the end of all audio."""

import numpy as np

from streamscribe.core.batching import Priority
from streamscribe.models.pool import Models
from streamscribe.models.ports import Frames, VadOptions, VadRequest


class SilentFrames:
    """Frames of digital silence as the worker's own front end computes them; computed once, when first needed."""

    def __init__(self, models: Models) -> None:
        self._models = models
        self._frame: Frames | None = None

    async def of(self, count: int) -> Frames:
        """So many of them."""
        if self._frame is None:
            vad = self._models.vad
            zeros = np.zeros(vad.block_samples, np.float32)
            heard = await self._models.vad_replica.submit(
                VadRequest(vad.open(VadOptions()), zeros), priority=Priority.NORMAL, audio_s=0, patient=True
            )
            self._frame = heard.frames[-1:]
        return np.repeat(self._frame, count, axis=0)
