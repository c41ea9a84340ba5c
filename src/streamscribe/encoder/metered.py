"""An encoder's steps: outputs looked at, and passes, padding and cost counted."""

from collections.abc import Sequence
from dataclasses import dataclass

from streamscribe.encoder.encoding import EncodedStep, EncoderObserver
from streamscribe.models.embedding import checked, frozen
from streamscribe.models.ports import AudioEncoder, Embedding, EncoderInput
from streamscribe.models.replica import StepReport


@dataclass(frozen=True, slots=True)
class Job:
    """What the encoder is to read, and how many rows it must give for that."""

    read: EncoderInput
    rows: int


class MeteredEncoder:
    """Runs the encoder in the thread that owns it, and tells `observer` of each step that is over.

    What it gives is valid, or the pass has failed: then the replica finds the guilty and counts the failure.
    """

    def __init__(self, encoder: AudioEncoder, observer: EncoderObserver) -> None:
        self._encoder = encoder
        self._observer = observer
        self._forwards = 0
        self._padded = (0, 0)
        self._encoded_rows = 0
        self._encode_s = 0.0

    def encode(self, jobs: Sequence[Job]) -> list[Embedding]:
        """One pass; a step has several where some fail. Raises NotAnEmbedding."""
        self._forwards += 1
        batch = [job.read for job in jobs]
        given = zip(jobs, self._encoder.encode(batch), strict=True)
        embeddings = [frozen(checked(one, job.rows, self._encoder.width)) for job, one in given]
        read, padded = self._padded
        sizes: dict[object, list[int]] = {}
        for one in batch:
            sizes.setdefault(self._encoder.group(one), []).append(one.size)
        whole = sum(max(group) * len(group) for group in sizes.values())
        self._padded = (read + whole, padded + whole - sum(one.size for one in batch))
        self._encoded_rows += sum(job.rows for job in jobs)
        return embeddings

    def stepped(self, report: StepReport) -> None:
        """The step is over."""
        read, padded = self._padded
        fallbacks = self._forwards - 1
        self._forwards, self._padded = 0, (0, 0)
        self._encode_s += report.step_s
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

    def cost_s(self, rows: int) -> float:
        """About what encoding an embedding of so many rows would take, by what was encoded until now."""
        return self._encode_s / self._encoded_rows * rows if self._encoded_rows else 0.0
