"""FSMN-VAD behind the platform's port: plain state per session, one network call for many sessions."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

import numpy as np
import yaml

from streamscribe.core.errors import BadRequest, ModelUnavailable
from streamscribe.models.fbank import MELS, Fbank
from streamscribe.models.fsmn_vad.frontend import REACH_SAMPLES, SPLICED, Floats, Splicer
from streamscribe.models.fsmn_vad.machine import FRAME_MS, VoiceMachine, VoiceRules
from streamscribe.models.fsmn_vad.network import Network
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

    memory: Floats
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
        """Advances each request's state; requests whose blocks complete equally many frames share a network call.

        All states advance, or none: what one request's audio breaks can be run again without it.
        """
        mels = self._fbank.step([np.concatenate((request.state.samples, request.samples)) for request in batch])
        spliced = [
            self._splicer.features(request.state.context, frames, last=request.last)
            for request, (frames, _) in zip(batch, mels, strict=True)
        ]
        by_frames: dict[int, list[int]] = defaultdict(list)
        for index, (features, _) in enumerate(spliced):
            if len(features):
                by_frames[len(features)].append(index)
        memories: dict[int, Floats] = {}
        speech: dict[int, list[bool]] = {}
        for members in by_frames.values():
            silence, after = self._network.run(
                np.stack([spliced[index][0] for index in members]), [batch[index].state.memory for index in members]
            )
            memories.update(zip(members, after, strict=True))
            speech.update(zip(members, (1.0 - silence >= silence + self._threshold).tolist(), strict=True))
        heard = []
        for index, (request, (frames, samples), (_, context)) in enumerate(zip(batch, mels, spliced, strict=True)):
            state: VadState = request.state
            state.samples, state.context = samples, context
            state.memory = memories.get(index, state.memory)
            boundaries = state.machine.advance(speech.get(index, ()), last=request.last)
            heard.append(Heard(tuple(VoiceEvent(b.started, b.frame * FRAME_SHIFT_SAMPLES) for b in boundaries), frames))
        return heard

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
