"""A segment recogniser of any engine that encodes and decodes apart."""

from collections.abc import Sequence
from typing import Generic, TypeVar

from streamscribe.models.ports import EncoderDecoder, Hypothesis, SegmentRequest

Features = TypeVar("Features")
Encoded = TypeVar("Encoded")


class EncoderDecoderRecognizer(Generic[Features, Encoded]):
    """Recognises segments by an engine's two steps, one after the other."""

    def __init__(self, engine: EncoderDecoder[Features, Encoded]) -> None:
        self._engine = engine

    @property
    def max_samples(self) -> int:
        """The longest segment that the engine takes."""
        return self._engine.max_samples

    def check_language(self, code: str) -> None:
        """Raises BadRequest for a language tag that it does not know; from any thread."""
        self._engine.check_language(code)

    def recognize(self, batch: Sequence[SegmentRequest]) -> list[Hypothesis]:
        """One hypothesis a request, in order; equal requests give equal hypotheses whatever the batch."""
        encoded = self._engine.encode([self._engine.features(request) for request in batch])
        return self._engine.decode(list(zip(batch, encoded, strict=True)))
