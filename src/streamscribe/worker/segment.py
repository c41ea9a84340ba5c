"""What a session's parts share: its facts, its tools, and a segment on one of its channels."""

import asyncio
from collections.abc import Callable
from concurrent.futures import Executor
from dataclasses import dataclass

import numpy as np

from streamscribe.core.audio import SAMPLE_RATE
from streamscribe.core.batching import Priority
from streamscribe.core.degrade import SecondPassLag
from streamscribe.core.endpoint import SegmentClosed
from streamscribe.core.fair_share import Share
from streamscribe.core.ids import TenantId
from streamscribe.core.latency import AdaptiveChunk
from streamscribe.core.options import Hotword, SessionOptions, Task
from streamscribe.core.records import Emitted, SessionOpened
from streamscribe.core.results import Word
from streamscribe.core.rules import RuleHit
from streamscribe.models.pool import Lease, Models
from streamscribe.models.ports import Hypothesis, Origin, Samples, SegmentRequest, frame_count
from streamscribe.settings import WorkerSettings
from streamscribe.text.pipeline import TextPipeline
from streamscribe.worker.budget import DraftBudget
from streamscribe.worker.observer import WorkerObserver
from streamscribe.worker.recall import Recall
from streamscribe.worker.silence import SilentFrames
from streamscribe.worker.track import AudioTrack, frame_at

Emit = Callable[[Emitted], None]


@dataclass(frozen=True, slots=True)
class StreamTools:
    """What all sessions of a worker share. `executor` is the one thread in which text is finished.

    `chunk` is the first pass's for adaptive sessions; None where there is no first pass. `context_ttl_s` is how long
    what a session said before is given to models that read on from there; 0: never. `lag` says whether live
    segments do without their second pass.
    """

    models: Models
    text: TextPipeline
    executor: Executor
    settings: WorkerSettings
    observer: WorkerObserver
    budget: DraftBudget
    silence: SilentFrames
    chunk: AdaptiveChunk | None
    recall: Recall
    context_ttl_s: float
    lag: SecondPassLag


@dataclass(slots=True, eq=False)
class Segment:
    """A segment from its opening on; positions in samples, `_s` are seconds of the event loop's clock.

    No cut can lie before `safe`. `hotwords` are those that held at its opening. `told_s` is when its last partial was
    told. `models` are those that were current then, given back with its last final. `first_final` is done when its
    first pass has told its final, which is `first`, or will tell none; None where no pass comes before the last.
    """

    id: int
    origin: Origin
    tenant_id: TenantId
    share: Share
    track: AudioTrack
    channel: int
    start: int
    audio_start: int
    safe: int
    hotwords: tuple[Hotword, ...]
    models: Lease
    voice_began_s: float
    voice_ended_s: float = 0.0
    told_s: float | None = None
    first_final: asyncio.Future[None] | None = None
    first: "Final | None" = None

    def request(self, closed: SegmentClosed, options: SessionOptions, *, words: bool) -> SegmentRequest:
        """What a model is asked about all of it. It computes frames of its own where silence is to follow."""
        first, samples, frames = closed.audio_start, self.track.cut(closed.audio_start, closed.audio_end), None
        if closed.padding:
            samples = np.concatenate([samples, np.zeros(closed.padding, np.float32)])
        else:
            frames = self.track.cut_frames(frame_at(first), frame_count(closed.audio_end))
        return SegmentRequest(
            samples,
            language=options.language,
            task=options.task,
            hotwords=self.hotwords,
            words=words,
            frames=frames,
            itn=options.itn,
            tenant_id=self.tenant_id,
            store=options.store,
            origin=self.origin,
        )

    def draft_request(self, samples: Samples, options: SessionOptions, *, words: bool) -> SegmentRequest:
        """What a model is asked about a stretch of it while it is open."""
        return SegmentRequest(
            samples,
            language=options.language,
            task=options.task,
            hotwords=self.hotwords,
            words=words,
            draft=True,
            tenant_id=self.tenant_id,
            store=options.store,
        )


@dataclass(frozen=True, slots=True)
class Final:
    """What a pass heard in a segment, as people read it.

    `hits` are those of the tenant's rules, `hotwords` the phrases of the segment's hot words that are in the text.
    `degraded`: the pass before heard it. `unfinished` is what of it may be a sentence that goes on, as far as known.
    """

    heard: Hypothesis
    text: str = ""
    words: tuple[Word, ...] = ()
    hits: tuple[RuleHit, ...] = ()
    hotwords: tuple[str, ...] = ()
    degraded: bool = False
    unfinished: str = ""


def share_of(opened: SessionOpened) -> Share:
    """Whose time in the models a session takes."""
    return Share(opened.tenant_id, opened.weight)


def final_priority(options: SessionOptions) -> Priority:
    """Of what a final waits for: a person waits for it too, unless it is a file's."""
    return Priority.URGENT if options.live else Priority.BULK


def audio_priority(options: SessionOptions) -> Priority:
    """Of what all audio needs."""
    return Priority.NORMAL if options.live else Priority.BULK


def seconds(samples: int) -> float:
    """Duration of so many samples."""
    return samples / SAMPLE_RATE


def text_language(options: SessionOptions, hypothesis: Hypothesis) -> str | None:
    """The language that the text is in; that spoken may be another."""
    return "en" if options.task is Task.TRANSLATE else hypothesis.language
