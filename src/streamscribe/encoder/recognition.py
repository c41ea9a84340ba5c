"""Recognition in two stages: a segment is encoded first, and only then admitted to the language model."""

from collections.abc import Hashable
from functools import partial
from threading import Lock
from time import monotonic
from typing import Protocol

from streamscribe.core.batching import BatchPolicy, Priority
from streamscribe.core.fair_share import NOBODYS, Share
from streamscribe.core.gate import Gate
from streamscribe.encoder.service import EncoderService
from streamscribe.models.encoder_decoder import decode_request
from streamscribe.models.ports import DecodeRequest, Hypothesis, LookAgain, SegmentRequest, Window
from streamscribe.models.room import Room
from streamscribe.models.stage import Part


class LanguageModelStage(Part, Protocol):
    """Runs a language model over complete embeddings: a replica of `EmbeddingDecoder.decode`, or continuous batches."""

    async def submit(
        self,
        request: DecodeRequest,
        *,
        priority: Priority,
        audio_s: float,
        share: Share = NOBODYS,
        since_s: float | None = None,
    ) -> Hypothesis | LookAgain:
        """The request's answer; with `since_s` it stands in line as if it had come then. Cancelling gives it up."""
        ...


class EncodedRecognition:
    """The stage of recognisers that encode apart; it stands where a replica stands for those of one step.

    Admission to the language model is deferred: its queue holds complete embeddings only, in the order in which their
    segments came. A segment that the model wants to read in another window is encoded again, and keeps its place. What
    the door lets in is refused nowhere behind it.
    """

    def __init__(self, encoder: EncoderService, language_model: LanguageModelStage, *, policy: BatchPolicy) -> None:
        """`policy` bounds what is inside: `max_inflight` requests, `max_waiting_s` of audio."""
        self.policy = policy
        self.population = 0
        self._encoder = encoder
        self._language_model = language_model
        self._gate = Gate(policy.max_inflight, policy.max_waiting_s)
        self._lock = Lock()
        self._room = Room()

    @property
    def parts(self) -> tuple[Part, ...]:
        """The encoder's and the language model's."""
        return (self._encoder, self._language_model)

    async def submit(
        self,
        request: SegmentRequest,
        *,
        priority: Priority,
        audio_s: float,
        group: Hashable = None,
        exclusive: Hashable = None,
        share: Share = NOBODYS,
        patient: bool = False,
    ) -> Hypothesis:
        """What was said in the segment; cancelling drops what still waits.

        Raises Overloaded where the door is full, unless it is `patient` and waits there, AudioTooLong and BadRequest
        for what cannot be encoded, ModelUnavailable where a stage has stopped or hangs, and what failed for this
        request alone.
        """
        began = self._encoder.begin()
        enter = partial(self._enter, priority, audio_s)
        if patient:
            await self._room.enter(priority, enter, share.tenant)
        else:
            enter()
        try:
            return await self._recognise(request, priority, audio_s, share, began)
        finally:
            with self._lock:
                self._gate.leave(audio_s)
            self._room.freed()

    def _enter(self, priority: Priority, audio_s: float) -> None:
        with self._lock:
            overloaded = self._gate.enter(priority, audio_s)
        if overloaded:
            raise overloaded

    async def _recognise(
        self, request: SegmentRequest, priority: Priority, audio_s: float, share: Share, began: int
    ) -> Hypothesis:
        came_s = monotonic()
        answer: Hypothesis | LookAgain = LookAgain(Window.SHORT, None)
        while isinstance(answer, LookAgain):
            encoding = await self._encoder.encode(
                request, window=answer.window, priority=priority, share=share, since_s=came_s, began=began
            )
            asked = decode_request(request, encoding.embedding, silent=encoding.silent, looked=answer.state)
            answer = await self._language_model.submit(
                asked, priority=priority, audio_s=audio_s, share=share, since_s=came_s
            )
        return answer

    def check_integrity(self) -> None:
        """The ledger of the door."""
        with self._lock:
            self._gate.check_integrity()
