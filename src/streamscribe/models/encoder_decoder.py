"""A segment recogniser of any engine that encodes and decodes apart."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from streamscribe.core.errors import AudioTooLong
from streamscribe.models.guards import is_silent
from streamscribe.models.ports import (
    DecodeRequest,
    Embedding,
    EncoderDecoder,
    Hypothesis,
    Identity,
    LookAgain,
    SegmentRequest,
    Window,
)


def decode_request(request: SegmentRequest, embedding: Embedding, *, silent: bool, looked: Any = None) -> DecodeRequest:
    """What the language model is asked about a segment, without its audio."""
    return DecodeRequest(
        embedding,
        len(request.samples),
        silent,
        request.language,
        request.task,
        request.hotwords,
        request.words,
        request.draft,
        request.itn,
        looked,
        request.context,
    )


_Look = tuple[int, Window, Any]
"""Which segment, in which window, and what an earlier look at it left."""


class EncoderDecoderRecognizer:
    """Recognises segments by an engine's two steps, one after the other in one thread."""

    def __init__(self, engine: EncoderDecoder, *, tail_padding_ms: int = 0) -> None:
        self.tail_padding_ms = tail_padding_ms
        self.engine = engine
        """What encodes and decodes."""
        self._nothing = np.zeros((0, engine.width), np.float32)

    @property
    def identity(self) -> Identity:
        """That of both steps."""
        return (*self.engine.encoder_identity, *self.engine.decoder_identity)

    @property
    def deterministic(self) -> bool:
        """Always: decoders search, and draw nothing."""
        return True

    @property
    def max_samples(self) -> int:
        """The longest segment that the engine takes."""
        return self.engine.max_samples

    def check_language(self, code: str) -> None:
        """Raises BadRequest for a language tag that it does not know; from any thread."""
        self.engine.check_language(code)

    def recognize(self, batch: Sequence[SegmentRequest]) -> list[Hypothesis]:
        """One hypothesis a request, in order; equal requests give equal hypotheses whatever the batch.

        Raises AudioTooLong for more than `max_samples`.
        """
        if any(len(request.samples) > self.max_samples for request in batch):
            raise AudioTooLong("a segment is longer than the model takes")
        heard: dict[int, Hypothesis] = {}
        left: list[_Look] = [(index, Window.SHORT, None) for index in range(len(batch))]
        while left:
            looks, left = left, []
            for (index, _, _), answer in zip(looks, self._look(batch, looks), strict=True):
                if isinstance(answer, LookAgain):
                    left.append((index, answer.window, answer.state))
                else:
                    heard[index] = answer
        return [heard[index] for index in range(len(batch))]

    def _look(self, batch: Sequence[SegmentRequest], looks: Sequence[_Look]) -> list[Hypothesis | LookAgain]:
        """Encodes the segments in their windows and decodes them; silence is not encoded."""
        embeddings = {index: self._nothing for index, _, _ in looks}
        spoken = [(index, window) for index, window, _ in looks if not is_silent(batch[index].samples)]
        inputs = [self.engine.features(batch[index].samples, batch[index].frames, window) for index, window in spoken]
        for (index, _), embedding in zip(spoken, self.engine.encode(inputs), strict=True):
            embeddings[index] = embedding
        audible = {index for index, _ in spoken}
        return self.engine.decode(
            [
                decode_request(batch[index], embeddings[index], silent=index not in audible, looked=state)
                for index, _, state in looks
            ]
        )
