"""An encoder's steps, counted: passes, padding, and what a second of audio costs."""

from collections.abc import Sequence

from streamscribe.core.audio import SAMPLE_RATE
from streamscribe.encoder.encoding import EncodedStep, EncoderObserver
from streamscribe.models.ports import AudioEncoder, Embedding, EncoderInput
from streamscribe.models.replica import StepReport


class MeteredEncoder:
    """Runs the encoder in the thread that owns it, and tells `observer` of each step that is over."""

    def __init__(self, encoder: AudioEncoder, observer: EncoderObserver) -> None:
        self._encoder = encoder
        self._observer = observer
        self._forwards = 0
        self._padded = (0, 0)
        self._encoded_s = self._encode_s = 0.0

    def encode(self, batch: Sequence[EncoderInput]) -> list[Embedding]:
        """One pass; a step has several where some fail."""
        self._forwards += 1
        embeddings = self._encoder.encode(batch)
        read, padded = self._padded
        sizes: dict[object, list[int]] = {}
        for one in batch:
            sizes.setdefault(self._encoder.group(one), []).append(one.size)
        whole = sum(max(group) * len(group) for group in sizes.values())
        self._padded = (read + whole, padded + whole - sum(one.size for one in batch))
        return embeddings

    def stepped(self, report: StepReport) -> None:
        """The step is over."""
        read, padded = self._padded
        fallbacks = self._forwards - 1
        self._forwards, self._padded = 0, (0, 0)
        self._encode_s += report.step_s
        self._encoded_s += report.audio_s
        self._observer.encoded(
            EncodedStep(
                batch_size=report.batch_size,
                padded_share=padded / read if read else 0.0,
                queue_wait_s=report.queue_wait_s,
                encode_s=report.step_s,
                audio_s=report.audio_s,
                fallbacks=fallbacks,
                failed=report.failed,
            )
        )

    def cost_s(self, num_samples: int) -> float:
        """About what encoding so much would take, by what was encoded until now."""
        return self._encode_s / self._encoded_s * num_samples / SAMPLE_RATE if self._encoded_s else 0.0
