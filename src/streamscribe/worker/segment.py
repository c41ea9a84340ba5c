"""What a session's parts share: its facts, its tools, and the segment that is open on a channel."""

from collections.abc import Callable
from concurrent.futures import Executor
from dataclasses import dataclass

from streamscribe.core.audio import SAMPLE_RATE
from streamscribe.core.options import Hotword, SessionOptions, Task
from streamscribe.core.partial_window import PartialWindow
from streamscribe.core.records import WorkerEvent
from streamscribe.models.pool import Models
from streamscribe.models.ports import Hypothesis, Samples, SegmentRequest
from streamscribe.settings import WorkerSettings
from streamscribe.text.pipeline import TextPipeline
from streamscribe.worker.budget import DraftBudget
from streamscribe.worker.observer import WorkerObserver

Emit = Callable[[WorkerEvent], None]


@dataclass(frozen=True, slots=True)
class StreamTools:
    """What all sessions of a worker share. `executor` is the one thread in which text is finished."""

    models: Models
    text: TextPipeline
    executor: Executor
    settings: WorkerSettings
    observer: WorkerObserver
    budget: DraftBudget


@dataclass(slots=True, eq=False)
class Segment:
    """A segment from its opening on; positions in samples, `_s` are seconds of the event loop's clock.

    `hotwords` are those that held at its opening. `drafted` is where the audio of its last draft ended, `told_s` when
    its last partial was told, `loudest` the power of its loudest stretch between two drafts.
    """

    id: int
    channel: int
    start: int
    audio_start: int
    hotwords: tuple[Hotword, ...]
    voice_began_s: float
    drafted: int
    window: PartialWindow
    told_s: float | None = None
    loudest: float = 0.0

    def request(self, samples: Samples, options: SessionOptions, *, draft: bool, words: bool) -> SegmentRequest:
        """What a model is asked about it."""
        return SegmentRequest(
            samples,
            language=options.language,
            task=options.task,
            hotwords=self.hotwords,
            words=words,
            draft=draft,
        )


def seconds(samples: int) -> float:
    """Duration of so many samples."""
    return samples / SAMPLE_RATE


def text_language(options: SessionOptions, hypothesis: Hypothesis) -> str | None:
    """The language that the text is in; that spoken may be another."""
    return "en" if options.task is Task.TRANSLATE else hypothesis.language
