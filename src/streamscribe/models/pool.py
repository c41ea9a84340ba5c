"""The models of one worker, loaded once, warm before they are ready."""

from dataclasses import dataclass

from streamscribe.models.ports import (
    Hypothesis,
    SegmentRecognizer,
    SegmentRequest,
    VadRequest,
    VoiceActivityDetector,
    VoiceEvent,
)
from streamscribe.models.replica import Replica

__all__ = ["Models", "Replica"]


@dataclass(frozen=True, slots=True)
class Models:
    """The engines and the replicas that run them."""

    vad: VoiceActivityDetector
    vad_replica: Replica[VadRequest, tuple[VoiceEvent, ...]]
    recognizer: SegmentRecognizer
    recognizer_replica: Replica[SegmentRequest, Hypothesis]

    def start(self) -> None:
        """Starts the warm-up of all and returns."""
        self.vad_replica.start()
        self.recognizer_replica.start()

    def wait_ready(self) -> None:
        """Blocks until all are warm; raises ModelUnavailable when one failed."""
        self.vad_replica.wait_ready()
        self.recognizer_replica.wait_ready()

    @property
    def ready(self) -> bool:
        """Whether all are warm and alive."""
        return self.vad_replica.ready and self.recognizer_replica.ready

    @property
    def warmup_s(self) -> dict[str, float]:
        """How long the warm-up of each took."""
        return {replica.name: replica.warmup_s for replica in (self.vad_replica, self.recognizer_replica)}

    def close(self) -> None:
        """Fails what waits and joins the threads; blocks until the running steps end."""
        self.vad_replica.close()
        self.recognizer_replica.close()
