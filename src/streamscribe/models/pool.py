"""The models of one worker, loaded once, warm before they are ready."""

import asyncio
from dataclasses import dataclass
from typing import NoReturn

from streamscribe.core.errors import ModelUnavailable
from streamscribe.core.tokens import Mark, Token
from streamscribe.models.ports import (
    ChunkRequest,
    Heard,
    Hypothesis,
    Punctuator,
    SegmentRecognizer,
    SegmentRequest,
    StreamingRecognizer,
    VadRequest,
    VoiceActivityDetector,
)
from streamscribe.models.replica import Replica
from streamscribe.models.stage import Part, Stage

__all__ = ["FirstPass", "Models", "Punctuation", "Replica"]


WATCH_EVERY_S = 0.5


@dataclass(frozen=True, slots=True)
class FirstPass:
    """The streaming engine and its replica."""

    recognizer: StreamingRecognizer
    replica: Replica[ChunkRequest, tuple[Token, ...]]


@dataclass(frozen=True, slots=True)
class Punctuation:
    """The punctuation engine and its replica."""

    punctuator: Punctuator
    replica: Replica[str, tuple[Mark, ...]]


@dataclass(frozen=True, slots=True)
class Models:
    """The engines and the stages that run them: replicas, but for a recogniser that encodes apart.

    Without a `first_pass`, partials are drafts of `recognizer`; without `punctuation`, texts have the marks that
    their model gave them.
    """

    vad: VoiceActivityDetector
    vad_replica: Replica[VadRequest, Heard]
    recognizer: SegmentRecognizer
    recognizer_replica: Stage[SegmentRequest, Hypothesis]
    first_pass: FirstPass | None = None
    punctuation: Punctuation | None = None

    @property
    def replicas(self) -> tuple[Part, ...]:
        """All that there are."""
        optional = (self.first_pass, self.punctuation)
        rest = [one.replica for one in optional if one is not None]
        return (self.vad_replica, *self.recognizer_replica.parts, *rest)

    def start(self) -> None:
        """Starts the warm-up of all and returns."""
        for replica in self.replicas:
            replica.start()

    def wait_ready(self) -> None:
        """Blocks until all are warm; raises ModelUnavailable when one failed."""
        for replica in self.replicas:
            replica.wait_ready()

    @property
    def ready(self) -> bool:
        """Whether all are warm and alive, and none hangs."""
        return all(replica.ready for replica in self.replicas)

    def outage(self) -> ModelUnavailable | None:
        """Why no session could be served now: a model has stopped or hangs. One that is not warm yet is no outage."""
        return next((error for replica in self.replicas if (error := replica.outage()) is not None), None)

    async def watch(self) -> NoReturn:
        """Fails what waits for a step that hangs, for as long as it does; ends by cancellation."""
        while True:
            await asyncio.sleep(WATCH_EVERY_S)
            for replica in self.replicas:
                replica.fail_if_stalled()

    @property
    def warmup_s(self) -> dict[str, float]:
        """How long the warm-up of each took."""
        return {replica.name: replica.warmup_s for replica in self.replicas}

    def close(self) -> None:
        """Fails what waits and joins the threads; blocks until the running steps end."""
        for replica in self.replicas:
            replica.close()
