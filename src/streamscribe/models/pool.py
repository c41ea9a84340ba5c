"""The models of one worker, loaded once, warm before they are ready, and replaced while they serve."""

import asyncio
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import NoReturn

from streamscribe.core.errors import ModelUnavailable
from streamscribe.core.tokens import Mark, Token
from streamscribe.models.ports import (
    ChunkRequest,
    Heard,
    Hypothesis,
    Identity,
    Punctuator,
    SegmentRecognizer,
    SegmentRequest,
    StreamingRecognizer,
    VadRequest,
    VoiceActivityDetector,
)
from streamscribe.models.replica import Replica
from streamscribe.models.slot import Slot, Version
from streamscribe.models.stage import Part, Stage

__all__ = ["FirstPass", "Lease", "Models", "Punctuation", "Recognition", "Replica"]


WATCH_EVERY_S = 0.5


@dataclass(frozen=True, slots=True, eq=False)
class Recognition:
    """What recognises whole segments, and the stage that runs it.

    `weights` is the sum of its files, `version` its name. `reads_on` says that it reads a request's context. Where it
    is several, `choose` says which a request goes to.
    """

    recognizer: SegmentRecognizer
    stage: Stage[SegmentRequest, Hypothesis]
    weights: str = ""
    choose: "Callable[[SegmentRequest], Recognition] | None" = None
    reads_on: bool = False
    version: str = ""

    @property
    def parts(self) -> tuple[Part, ...]:
        """The stage's."""
        return self.stage.parts

    def source(self, request: SegmentRequest) -> Identity:
        """All that the request's hypothesis depends on besides the request."""
        chosen = self._chosen(request)
        return (chosen.weights, *chosen.recognizer.identity)

    def deterministic(self, request: SegmentRequest) -> bool:
        """Whether an equal request would get an equal hypothesis, so that it may be kept."""
        return self._chosen(request).recognizer.deterministic

    def reads_context(self, request: SegmentRequest) -> bool:
        """Whether what was said before may change the request's hypothesis."""
        return self._chosen(request).reads_on

    def _chosen(self, request: SegmentRequest) -> "Recognition":
        return self if self.choose is None else self.choose(request)


@dataclass(frozen=True, slots=True, eq=False)
class FirstPass:
    """The streaming engine and its replica. `weights` is the sum of its files, `version` its name."""

    recognizer: StreamingRecognizer
    replica: Replica[ChunkRequest, tuple[Token, ...]]
    weights: str = ""
    version: str = ""

    @property
    def parts(self) -> tuple[Part, ...]:
        """The replica."""
        return (self.replica,)


@dataclass(frozen=True, slots=True, eq=False)
class Punctuation:
    """The punctuation engine and its replica. `weights` is the sum of its files, `version` its name."""

    punctuator: Punctuator
    replica: Replica[str, tuple[Mark, ...]]
    weights: str = ""
    version: str = ""

    @property
    def parts(self) -> tuple[Part, ...]:
        """The replica."""
        return (self.replica,)

    @property
    def source(self) -> Identity:
        """All that marks depend on besides the text."""
        return (self.weights, *self.punctuator.identity)


class Lease:
    """The versions that serve one segment, from its opening to its last final, whatever is loaded meanwhile."""

    def __init__(self, models: "Models", held: "set[Lease]") -> None:
        """It is in `held` until it is given back, for who has to see to that."""
        self.recognition = models.recognition.take()
        self.first_pass = models.first_pass.take() if models.first_pass else None
        self.punctuation = models.punctuation.take() if models.punctuation else None
        self._models: Models | None = models
        self._held = held
        held.add(self)

    def give_back(self) -> None:
        """Ends it; does nothing the second time."""
        models, self._models = self._models, None
        if models is None:
            return
        self._held.discard(self)
        models.recognition.give_back(self.recognition)
        if models.first_pass and self.first_pass:
            models.first_pass.give_back(self.first_pass)
        if models.punctuation and self.punctuation:
            models.punctuation.give_back(self.punctuation)


class Models:
    """The engines and the stages that run them, in slots by role: a replica, but for recognisers that encode apart.

    Without a `first_pass`, partials are drafts of the recogniser; without `punctuation`, texts have the marks that
    their model gave them. Voice activity detection is in no slot, for its state lives as long as a session.
    """

    def __init__(
        self,
        vad: VoiceActivityDetector,
        vad_replica: Replica[VadRequest, Heard],
        recognition: Recognition,
        first_pass: FirstPass | None = None,
        punctuation: Punctuation | None = None,
        vad_version: str = "",
    ) -> None:
        self.vad = vad
        self.vad_version = vad_version
        self.vad_replica = vad_replica
        self.recognition = Slot(recognition)
        self.first_pass = None if first_pass is None else Slot(first_pass)
        self.punctuation = None if punctuation is None else Slot(punctuation)
        self._population = 0

    @property
    def versions(self) -> tuple[str, ...]:
        """The names of those that a segment gets which begins now."""
        named = (self.vad_version, *(slot.current.version for slot in self.slots))
        return tuple(version for version in named if version)

    def lease(self, held: set[Lease]) -> Lease:
        """What serves a segment that begins now; in `held` until it is given back."""
        return Lease(self, held)

    @property
    def population(self) -> int:
        """How many sessions there are: a step waits for others only while fewer wait."""
        return self._population

    @population.setter
    def population(self, sessions: int) -> None:
        self._population = sessions
        self.tell_population()

    def tell_population(self) -> None:
        """Tells all stages how many sessions there are: one that has just come knows of nobody yet."""
        self.vad_replica.population = self._population
        for version in self.recognition.versions:
            version.stage.population = self._population

    @property
    def slots(self) -> "tuple[Slot[Recognition] | Slot[FirstPass] | Slot[Punctuation], ...]":
        """All roles that may be replaced."""
        return tuple(slot for slot in (self.recognition, self.first_pass, self.punctuation) if slot is not None)

    @property
    def replicas(self) -> tuple[Part, ...]:
        """The parts that serve now."""
        return (self.vad_replica, *(part for slot in self.slots for part in slot.current.parts))

    def _all(self) -> Iterator[Part]:
        """With those that only serve segments which were open before."""
        yield self.vad_replica
        for slot in self.slots:
            for version in slot.versions:
                yield from version.parts

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

    def not_ready(self) -> list[str]:
        """The names of those that are not."""
        return [replica.name for replica in self.replicas if not replica.ready]

    def outage(self) -> ModelUnavailable | None:
        """Why no session could be served now: a model has stopped or hangs. One that is not warm yet is no outage."""
        return next((error for replica in self.replicas if (error := replica.outage()) is not None), None)

    async def watch(self) -> NoReturn:
        """Fails what waits for a step that hangs, for as long as it does; ends by cancellation."""
        while True:
            await asyncio.sleep(WATCH_EVERY_S)
            for replica in list(self._all()):
                replica.fail_if_stalled()

    def inflight(self, name: str) -> int:
        """Requests that wait for the parts of this name, or run in them; of former versions too."""
        return sum(part.inflight for part in self._all() if part.name == name)

    @property
    def warmup_s(self) -> dict[str, float]:
        """How long the warm-up of each took."""
        return {replica.name: replica.warmup_s for replica in self.replicas}

    def close(self) -> None:
        """Fails what waits and joins the threads; blocks until the running steps end."""
        _close_at_once(list(self._all()))


def start_and_wait(version: Version) -> None:
    """Warms a version; blocks, and raises ModelUnavailable where that failed."""
    for part in version.parts:
        part.start()
    for part in version.parts:
        part.wait_ready()


def close_version(version: Version) -> None:
    """Joins its threads; blocks until its running steps end."""
    _close_at_once(version.parts)


def _close_at_once(parts: Sequence[Part]) -> None:
    """Side by side, so that none begins another step of its warm-up while the one before it ends its own."""
    with ThreadPoolExecutor(max(1, len(parts)), "close") as threads:
        for closing in [threads.submit(part.close) for part in parts]:
            closing.result()
