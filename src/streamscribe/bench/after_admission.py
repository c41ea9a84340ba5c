"""What the encoder service is compared with: a recogniser whose requests are admitted first and encoded then.

Audio waits in the language model's queue, and a step reads, encodes and decodes its batch: nothing is shared between
equal requests, and the decoder stands still while the step encodes.
"""

from collections.abc import Sequence
from time import perf_counter

from streamscribe.models.encoder_decoder import EncoderDecoderRecognizer
from streamscribe.models.ports import (
    DecodeRequest,
    Embedding,
    EncoderDecoder,
    EncoderInput,
    Frames,
    Hypothesis,
    LookAgain,
    Samples,
    SegmentRequest,
    Window,
)


class EncodeAfterAdmission:
    """Recognises segments by an engine's two steps, one after the other in one thread, and takes their times."""

    def __init__(self, engine: EncoderDecoder) -> None:
        self._clocked = _Clocked(engine)
        self._recognizer = EncoderDecoderRecognizer(self._clocked)

    @property
    def encode_share(self) -> float:
        """The part of its time that reading and encoding took: nothing runs beside it, so that is what they cost."""
        return self._clocked.encode_s / (self._clocked.encode_s + self._clocked.decode_s)

    def recognize(self, batch: Sequence[SegmentRequest]) -> list[Hypothesis]:
        """One hypothesis a request, in order. Raises AudioTooLong for more than the engine takes."""
        return self._recognizer.recognize(batch)


class _Clocked:
    """An engine, and how long its two halves took."""

    def __init__(self, engine: EncoderDecoder) -> None:
        self._engine = engine
        self.encode_s = self.decode_s = 0.0
        self.max_samples, self.width = engine.max_samples, engine.width
        self.front_end, self.encoder_identity = engine.front_end, engine.encoder_identity
        self.decoder_identity = engine.decoder_identity
        self.num_tokens, self.group, self.check_language = engine.num_tokens, engine.group, engine.check_language

    def features(self, samples: Samples, frames: Frames | None = None, window: Window = Window.SHORT) -> EncoderInput:
        began_s = perf_counter()
        read = self._engine.features(samples, frames, window)
        self.encode_s += perf_counter() - began_s
        return read

    def encode(self, batch: Sequence[EncoderInput]) -> list[Embedding]:
        began_s = perf_counter()
        embeddings = self._engine.encode(batch)
        self.encode_s += perf_counter() - began_s
        return embeddings

    def decode(self, batch: Sequence[DecodeRequest]) -> list[Hypothesis | LookAgain]:
        began_s = perf_counter()
        answers = self._engine.decode(batch)
        self.decode_s += perf_counter() - began_s
        return answers
