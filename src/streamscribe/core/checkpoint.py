"""Where another worker can go on with a session: all that cannot be had again from the audio that follows.

A worker's state is a function of the models, the options, and the audio since a point where nothing was open. The
checkpoint names that point, and holds the few numbers that decided what lies before it.
"""

from dataclasses import dataclass

from streamscribe.core.options import Hotword


@dataclass(frozen=True, slots=True)
class ChannelPoint:
    """One channel of a session while no segment is open on it; positions in samples of the session's clock.

    It goes on hearing at `heard`; audio before that only fills the detector's memory again, and is what the next
    segment may begin with. `voice` is the detector's own state, as it gave it. `voice_start` is where the voice began
    that goes on there; None: nobody speaks. The last segment ended at `last_end`, its audio at `last_audio_end`.
    `segments` are the ids that its next segments had, as far as they were opened.
    """

    heard: int
    voice: tuple[int, ...]
    voice_start: int | None
    last_end: int
    last_audio_end: int
    segments: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """Records from `index` on make the session again; of the first one's audio, `skip_bytes` are left out.

    The audio after those begins at sample `start` of the session's clock. `sequence` is the last that had been
    processed before it, `hotwords` are those that held there. So many `segments` were opened. `models` names the
    versions that heard it then: others may hear something else.
    """

    index: int
    skip_bytes: int
    start: int
    sequence: int
    hotwords: tuple[Hotword, ...]
    channels: tuple[ChannelPoint, ...]
    segments: int
    models: tuple[str, ...] = ()
