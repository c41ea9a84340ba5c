"""A session that says recordings in real time and measures what comes back."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import cycle
from time import perf_counter

import msgspec
import numpy as np

from streamscribe.bench.load import CHUNK_BYTES, Latencies, LoadSession
from streamscribe.bench.recordings import Recording
from streamscribe.core.audio import SAMPLE_RATE
from streamscribe.core.script import join
from streamscribe.models.ports import FRAME_SAMPLES

PAUSE_S = 1.6
_CHUNK_SAMPLES = CHUNK_BYTES // 2
_RESULT = b'{"type":"result"'


class _Result(msgspec.Struct):
    """What is read of a result."""

    pass_: int = msgspec.field(name="pass")
    segment_id: int
    text: str
    end_ms: int
    is_final: bool


_decoder = msgspec.json.Decoder(_Result)


@dataclass(slots=True)
class Heard:
    """What all sessions measured, in seconds."""

    partial_lags_s: list[float] = field(default_factory=list)
    finals_s: list[float] = field(default_factory=list)
    lost: int = 0
    refused: int = 0


class Speaker(LoadSession):
    """A session that says its script and measures what comes back."""

    def __init__(self, host: str, path: str, heard: Heard, script: "Script", start: bytes, silence_s: float) -> None:
        super().__init__(host, path, Latencies(), start)
        self.script = script
        self._finals: dict[int, _Result] = {}
        self.measuring = False
        self._heard = heard
        self._silence_s = silence_s
        self._sent_at: list[float] = []  # a number for each chunk sent: bounded by the bench's length

    def speak(self) -> None:
        """Sends the script's next chunk."""
        self._sent_at.append(perf_counter())
        self.send_plain(self.script.chunk(len(self._sent_at) - 1))

    def outcome(self) -> tuple[str, str]:
        """What was said in whole utterances, and what was heard of them: the last final of each segment."""
        ends = [end for end, _ in self.script.ends if end <= len(self._sent_at) * _CHUNK_SAMPLES]
        said = "".join(text for _, text in self.script.ends[: len(ends)])
        latest = (ends[-1] if ends else 0) + int(PAUSE_S * SAMPLE_RATE / 2)
        heard = ""
        for segment_id in sorted(self._finals):
            final = self._finals[segment_id]
            if final.end_ms * SAMPLE_RATE // 1000 <= latest:
                heard = join(heard, final.text)
        return said, heard

    def told(self, payload: bytes, now: float) -> None:
        """Measures a result."""
        if not payload.startswith(_RESULT):
            return
        result = _decoder.decode(payload)
        if result.is_final:
            self._finals[result.segment_id] = result
        if not self.measuring:
            return
        if not result.is_final:
            self._heard.partial_lags_s.append(now - self._sent(result.end_ms * SAMPLE_RATE // 1000 + FRAME_SAMPLES))
        elif result.pass_ == 1 and (end := self._speech_end(result.end_ms)) is not None:
            self._heard.finals_s.append(now - self._sent(end) - self._silence_s)

    def _sent(self, sample: int) -> float:
        """When the chunk that holds the sample was handed over."""
        return self._sent_at[min(sample // _CHUNK_SAMPLES, len(self._sent_at) - 1)]

    def _speech_end(self, end_ms: int) -> int | None:
        """The end of the utterance that a final at `end_ms` is of: the last one that ends before the next can begin."""
        latest = end_ms * SAMPLE_RATE // 1000 + int(PAUSE_S * SAMPLE_RATE / 2)
        ends = [end for end, _ in self.script.ends if end <= latest]
        return ends[-1] if ends else None


class Script:
    """Recordings one after the other, each followed by a pause, as chunks; `ends` are the last samples of speech."""

    def __init__(self, said: Sequence[Recording], seconds: float) -> None:
        pause = np.zeros(int(PAUSE_S * SAMPLE_RATE), np.int16)
        parts: list[np.ndarray] = [pause[: SAMPLE_RATE // 2]]
        self.ends: list[tuple[int, str]] = []
        length = len(parts[0])
        for recording in cycle(said):
            if length >= seconds * SAMPLE_RATE:
                break
            self.ends.append((length + recording.speech_end, recording.text))
            parts += recording.samples, pause
            length += len(recording.samples) + len(pause)
        self._pcm = np.concatenate(parts).astype("<i2").tobytes()

    def chunk(self, number: int) -> bytes:
        """100 ms; silence after the end."""
        chunk = self._pcm[number * CHUNK_BYTES : (number + 1) * CHUNK_BYTES]
        return chunk if len(chunk) == CHUNK_BYTES else chunk.ljust(CHUNK_BYTES, b"\0")
