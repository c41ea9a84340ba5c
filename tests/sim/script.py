"""What a client says, and what an undisturbed worker makes of it."""

import asyncio
import random
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

from streamscribe.core.audio import AudioFormat
from streamscribe.core.ids import SessionId
from streamscribe.core.options import EndpointOptions, Hotword, Mode, SessionOptions
from streamscribe.core.records import Record
from tests.sim.clock import run_virtually
from tests.sim.models import models_of
from tests.worker.kit import silence, stereo, voice
from tests.worker.takeover import View, live

VARIETIES = 64
"""So many different scripts there are: what they should give is worked out once in a process."""

PACKET_MS = (40, 100, 200, 400)


@dataclass(frozen=True, slots=True)
class Say:
    """A packet, due when so much of the session's audio would have been spoken."""

    data: bytes
    due_s: float


@dataclass(frozen=True, slots=True)
class Ask:
    """A flush."""

    marker: str
    due_s: float


@dataclass(frozen=True, slots=True)
class Bias:
    """Other hot words."""

    phrases: tuple[str, ...]
    due_s: float


Action = Say | Ask | Bias


@dataclass(frozen=True, slots=True)
class Script:
    """One client's whole session."""

    options: SessionOptions
    actions: tuple[Action, ...]

    @property
    def audio(self) -> bytes:
        """All that is said."""
        return b"".join(action.data for action in self.actions if isinstance(action, Say))

    @property
    def ends_s(self) -> float:
        """How long it takes in real time."""
        return self.actions[-1].due_s


@lru_cache(maxsize=VARIETIES)
def script(number: int) -> Script:
    """The script of this number."""
    rng = random.Random(f"script {number}")
    channels = 2 if rng.random() < 0.2 else 1
    seconds = rng.choice((2.0, 4.0, 4.0, 7.0)) / channels
    audio = _talk(rng, seconds) if channels == 1 else stereo(_talk(rng, seconds), _talk(rng, seconds))
    options = SessionOptions(
        audio=AudioFormat(channels=channels),
        mode=rng.choice((Mode.ONLINE, Mode.OFFLINE, Mode.TWO_PASS, Mode.TWO_PASS)),
        words=rng.random() < 0.5,
        endpoint=EndpointOptions(silence_ms=rng.choice((200, 300, 700)), max_segment_ms=2000, min_speech_ms=150),
        hotwords=(Hotword("first"),) if rng.random() < 0.3 else (),
        sequenced=True,
    )
    steady = rng.choice((0, *PACKET_MS))
    actions: list[Action] = []
    at, controls = 0, rng.random() < 0.5
    while at < len(audio):
        ms = steady or rng.choice(PACKET_MS)
        size = ms * 32 * channels + (0 if steady else rng.randrange(-7, 8))
        due_s = (at + size) / (32_000 * channels)
        actions.append(Say(audio[at : at + size], due_s))
        at += size
        if controls and rng.random() < 0.06:
            phrases = tuple(f"phrase {i}" for i in range(rng.randrange(6)))
            actions.append(Ask(f"m{len(actions)}", due_s) if rng.random() < 0.7 else Bias(phrases, due_s))
    return Script(options, tuple(actions))


def _talk(rng: random.Random, seconds: float) -> bytes:
    said = b""
    while len(said) < seconds * 32_000:
        said += silence(rng.choice((60, 200, 400, 900)))
        said += voice(rng.choice((110, 140, 300, 900, 1800, 3500)), rng.randrange(10**6))
    return said + silence(rng.choice((0, 300)))


def undisturbed(records: Sequence[Record]) -> View:
    """What a client is told whose worker hears these records and nothing happens."""
    return _undisturbed(tuple(replace(record, session_id=SessionId("s")) for record in records))


@lru_cache(maxsize=2 * VARIETIES)
def _undisturbed(records: tuple[Record, ...]) -> View:
    view = View()
    models = models_of(random.Random(0), first_pass=True, cost_s=0.002)

    async def main() -> None:
        async with asyncio.timeout(600):
            await live(records, models, view, None, ahead=4)

    run_virtually(main)
    view.check_laws()
    return view
