"""What a replay asks for: clips, and in which order requests for them come.

The synthetic workload has repeats as services see them: half come soon after a request for the same clip, as when a
client tries again, half at any time. Its clips are telephone prompts of two to four seconds, of which there are fewer
than a hundred and ten; the others are the same prompts said more quietly, a decibel a turn.
"""

import asyncio
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random

import numpy as np

from streamscribe.bench.corpus import Utterance, read_manifest, telephone_prompts
from streamscribe.bench.hearing import read
from streamscribe.bench.speech import as_samples
from streamscribe.core.audio import to_samples
from streamscribe.core.errors import BadRequest
from streamscribe.models.ports import Samples

LONGEST_MS = 4000
SOON = 16
"""A repeat that comes soon has fewer than so many requests before it."""

_SEED = 20_261_129
_ALL = 100_000
_DECIBEL = 10 ** (-1 / 20)


@dataclass(frozen=True, slots=True)
class Clip:
    """One audio and what is said in it."""

    samples: Samples
    text: str
    language: str | None = None


@dataclass(frozen=True, slots=True)
class Workload:
    """Clips, no two of them equal, and the clip of each request in order of arrival."""

    name: str
    clips: tuple[Clip, ...]
    order: tuple[int, ...]

    @property
    def repeats(self) -> int:
        """Requests for what was asked for before."""
        return len(self.order) - len(self.clips)


def synthetic(model_dir: Path, *, small: bool = False) -> Workload:
    """1,088 requests for 666 clips, or 136 for 83; the same whenever it is made."""
    distinct, requests = (83, 136) if small else (666, 1088)
    with tempfile.TemporaryDirectory(prefix="streamscribe-") as folder:
        spoken = asyncio.run(_read(telephone_prompts(model_dir, _ALL, Path(folder))))
    short = [clip for clip in spoken if len(clip.samples) <= to_samples(LONGEST_MS)]
    clips = tuple(_quieter(short[at % len(short)], at // len(short)) for at in range(distinct))
    return Workload("synthetic-small" if small else "synthetic", clips, tuple(arrivals(distinct, requests)))


def arrivals(distinct: int, requests: int) -> list[int]:
    """An order in which each of `distinct` clips comes once or more often."""
    random = Random(_SEED)
    order = random.sample(range(distinct), distinct)
    for number in range(requests - distinct):
        clip = random.randrange(distinct)
        soon = order.index(clip) + random.randint(1, SOON)
        order.insert(soon if number % 2 else random.randint(0, len(order)), clip)
    return order


def from_file(manifest: Path) -> Workload:
    """A request for each line of a manifest, in its order; lines whose audio is equal ask for one clip.

    Raises BadRequest for a manifest or a recording that cannot be used.
    """
    spoken = asyncio.run(_read(read_manifest(manifest)))
    number_of: dict[bytes, int] = {}
    clips: list[Clip] = []
    order = []
    for clip in spoken:
        number = number_of.setdefault(clip.samples.tobytes(), len(clips))
        if number == len(clips):
            clips.append(clip)
        order.append(number)
    return Workload(manifest.name, tuple(clips), tuple(order))


def check_lengths(workload: Workload, max_samples: int) -> None:
    """Raises BadRequest where the model cannot take a clip in one piece."""
    if max(len(clip.samples) for clip in workload.clips) > max_samples:
        raise BadRequest("a recording is longer than the model takes in one piece", field="workload")


async def _read(utterances: Sequence[Utterance]) -> list[Clip]:
    return [Clip(as_samples(await read(one.audio)), one.text, one.language) for one in utterances]


def _quieter(clip: Clip, decibels: int) -> Clip:
    return Clip(clip.samples * np.float32(_DECIBEL**decibels), clip.text, clip.language)
