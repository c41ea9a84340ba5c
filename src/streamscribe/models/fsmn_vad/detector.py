"""FSMN-VAD behind the platform's port: plain state per session, one network call for many sessions."""

from collections import defaultdict
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

import numpy as np
import yaml

from streamscribe.core.errors import BadRequest, ModelUnavailable
from streamscribe.models.copies import apart, joined, stacked
from streamscribe.models.fbank import MELS, Fbank
from streamscribe.models.fsmn_vad.frontend import REACH_SAMPLES, SPLICED, Splicer
from streamscribe.models.fsmn_vad.machine import FRAME_MS, VoiceMachine, VoiceRules
from streamscribe.models.fsmn_vad.network import Memory, Network
from streamscribe.models.ports import (
    FRAME_SAMPLES,
    FRAME_SHIFT_SAMPLES,
    Frames,
    Heard,
    Samples,
    VadOptions,
    VadRequest,
    VoiceEvent,
)
from streamscribe.models.registry import open_verified

MODEL_ID = "fsmn-vad"

BLOCK_SAMPLES = 1600
"""100 ms: a boundary waits 50 ms on average; 200 ms would save a third of a cost that is half a percent of a core."""


@dataclass(slots=True)
class VadState:
    """A stream between two blocks: about 42 KB, whatever its age.

    It carries the samples that are no whole frame yet, the frames that are the next features' context, and what the
    network remembers.
    """

    memory: Memory
    machine: VoiceMachine
    samples: Samples = field(default_factory=lambda: np.empty(0, np.float32))
    context: Frames = field(default_factory=lambda: np.empty((0, MELS), np.float32))


class FsmnVad:
    """FunASR's FSMN-VAD; not thread-safe.

    Its boundaries equal FunASR's with `dynamic_silence=False`, which would besides cut a voice after a minute.
    """

    block_samples = BLOCK_SAMPLES

    def __init__(self, files: Mapping[str, Path], *, threads: int = 1) -> None:
        """Builds it from `model.onnx`, `am.mvn` and `config.yaml`; raises ModelUnavailable for other settings."""
        self._config = _checked_config(files["config.yaml"])
        self._threshold = float(self._config["speech_noise_thres"])
        self._fbank = Fbank()
        self._splicer = Splicer(files["am.mvn"])
        self._network = Network(files["model.onnx"], threads=threads)
        self.lookback_samples = self._rules(VadOptions()).start_reach * FRAME_SHIFT_SAMPLES + REACH_SAMPLES
        self.memory_samples = (self._network.reach_frames + SPLICED) * FRAME_SHIFT_SAMPLES + FRAME_SAMPLES

    @classmethod
    def load(cls, directory: Path, *, threads: int = 1) -> Self:
        """Loads the installed model; raises ModelUnavailable when it is missing or changed on disk."""
        return cls(open_verified(MODEL_ID, directory), threads=threads)

    def open(self, options: VadOptions) -> VadState:
        """State of a new stream."""
        return VadState(self._network.new_memory(), VoiceMachine(self._rules(options)))

    def point(self, state: VadState) -> tuple[int, ...]:
        """Where the rules stand; samples, frames and the network's memory follow from the newest audio."""
        return state.machine.point()

    def go_on(self, state: VadState, point: tuple[int, ...]) -> None:
        """Lets the rules go on where others stood; raises BadRequest for what is no point."""
        try:
            state.machine.go_on(point)
        except ValueError:
            raise BadRequest(f"this is no point of {MODEL_ID}", field="checkpoint") from None

    def step(self, batch: Sequence[VadRequest]) -> list[Heard]:
        """Advances each request's state; requests that stand alike, as most do, share a network call.

        All states advance, or none: what one request's audio breaks can be run again without it.
        """
        alike: dict[Hashable, list[int]] = defaultdict(list)
        for index, request in enumerate(batch):
            state: VadState = request.state
            shape = len(state.samples), len(request.samples), len(state.context), request.last
            alike[shape].append(index)
        moved = {
            index: move
            for members in alike.values()
            for index, move in zip(members, self._move([batch[index] for index in members]), strict=True)
        }
        return [moved[index].take(request) for index, request in enumerate(batch)]

    def _move(self, requests: Sequence[VadRequest]) -> list["_Move"]:
        """Where the next block takes streams that stand alike; changes none of them."""
        waves = joined(piece for one in requests for piece in (one.state.samples, one.samples))
        waves = waves.reshape(len(requests), -1)
        frames = self._fbank.step(waves)
        rests = waves[:, frames.shape[1] * FRAME_SHIFT_SAMPLES :]
        contexts = stacked([one.state.context for one in requests])
        features, contexts = self._splicer.features(contexts, frames, last=requests[0].last)
        memories = [one.state.memory for one in requests]
        speech: list[list[bool]] = [[]] * len(requests)
        if features.shape[1]:
            silence, memories = self._network.run(features, memories)
            speech = (1.0 - silence >= silence + self._threshold).tolist()
        parts = zip(apart(rests), apart(contexts), memories, apart(frames), speech, strict=True)
        return [_Move(*one) for one in parts]

    def _rules(self, options: VadOptions) -> VoiceRules:
        """A session's rules: its own silence, the model's for the rest."""
        config = self._config
        return VoiceRules(
            window=config["window_size_ms"] // FRAME_MS,
            speech_in_window=config["sil_to_speech_time_thres"] // FRAME_MS,
            silence_in_window=config["speech_to_sil_time_thres"] // FRAME_MS,
            lookback=config["lookback_time_start_point"] // FRAME_MS,
            lookahead=config["lookahead_time_end_point"] // FRAME_MS,
            silence=(options.silence_ms - config["speech_to_sil_time_thres"]) / FRAME_MS,
        )


@dataclass(frozen=True, slots=True)
class _Move:
    """A stream behind its next block: what its state will hold, its frames, and which of those known now are speech."""

    samples: Samples
    context: Frames
    memory: Memory
    frames: Frames
    speech: Sequence[bool]

    def take(self, request: VadRequest) -> Heard:
        """Brings the stream there."""
        state: VadState = request.state
        state.samples, state.context, state.memory = self.samples, self.context, self.memory
        boundaries = state.machine.advance(self.speech, last=request.last)
        return Heard(tuple(VoiceEvent(b.started, b.frame * FRAME_SHIFT_SAMPLES) for b in boundaries), self.frames)


_ASSUMED = {
    "frontend_conf": {
        "fs": 16_000,
        "window": "hamming",
        "n_mels": MELS,
        "frame_length": FRAME_SAMPLES // 16,
        "frame_shift": FRAME_MS,
        "dither": 0.0,
        "lfr_m": SPLICED,
        "lfr_n": 1,
    },
    "model_conf": {
        "detect_mode": 1,
        "do_extend": 1,
        "sil_pdf_ids": [0],
        "speech_2_noise_ratio": 1.0,
        # No frame is quieter than -60 dB, so these two turn FunASR's rules on loudness off.
        "snr_thres": -100.0,
        "decibel_thres": -100.0,
    },
}


def _checked_config(file: Path) -> dict[str, Any]:
    """The model's decision settings, once all else in its config is known to be what this code computes."""
    config = yaml.safe_load(file.read_text(encoding="utf-8"))
    for section, assumed in _ASSUMED.items():
        for name, value in assumed.items():
            if config[section].get(name) != value:
                raise ModelUnavailable(f"{MODEL_ID}: config.yaml has {section}.{name} other than {value}")
    model_conf: dict[str, Any] = config["model_conf"]
    return model_conf
