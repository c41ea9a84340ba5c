"""FSMN-VAD behind the platform's port: plain state per session, one network call for many sessions."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import numpy as np
import yaml

from streamscribe.core.errors import ModelUnavailable
from streamscribe.models.fsmn_vad.frontend import (
    FRAME_SAMPLES,
    MELS,
    REACH_SAMPLES,
    SHIFT_SAMPLES,
    SPLICED,
    Floats,
    Frontend,
    FrontendState,
)
from streamscribe.models.fsmn_vad.machine import FRAME_MS, VoiceMachine, VoiceRules
from streamscribe.models.fsmn_vad.network import Network
from streamscribe.models.ports import VadOptions, VadRequest, VoiceEvent
from streamscribe.models.registry import open_verified

MODEL_ID = "fsmn-vad"

BLOCK_SAMPLES = 1600
"""100 ms: a boundary waits 50 ms on average; 200 ms would save a third of a cost that is half a percent of a core."""


@dataclass(slots=True)
class VadState:
    """A stream between two blocks: about 42 KB, whatever its age."""

    frontend: FrontendState
    memory: Floats
    machine: VoiceMachine


class FsmnVad:
    """FunASR's FSMN-VAD. Its boundaries equal FunASR's with `dynamic_silence=False`; not thread-safe."""

    block_samples = BLOCK_SAMPLES

    def __init__(self, files: Mapping[str, Path], *, threads: int = 1) -> None:
        """Builds it from `model.onnx`, `am.mvn` and `config.yaml`; raises ModelUnavailable for other settings."""
        self._config = _checked_config(files["config.yaml"])
        self._threshold = float(self._config["speech_noise_thres"])
        self._frontend = Frontend(files["am.mvn"])
        self._network = Network(files["model.onnx"], threads=threads)
        self.lookback_samples = self._rules(VadOptions()).start_reach * SHIFT_SAMPLES + REACH_SAMPLES

    @classmethod
    def load(cls, directory: Path, *, threads: int = 1) -> Self:
        """Loads the installed model; raises ModelUnavailable when it is missing or changed on disk."""
        return cls(open_verified(MODEL_ID, directory), threads=threads)

    def open(self, options: VadOptions) -> VadState:
        """State of a new stream."""
        return VadState(FrontendState(), self._network.new_memory(), VoiceMachine(self._rules(options)))

    def step(self, batch: Sequence[VadRequest]) -> list[tuple[VoiceEvent, ...]]:
        """Advances each request's state; requests whose blocks complete equally many frames share a network call.

        All states advance, or none: what one request's audio breaks can be run again without it.
        """
        heard = [self._frontend.features(r.state.frontend, r.samples, last=r.last) for r in batch]
        by_frames: dict[int, list[int]] = defaultdict(list)
        for index, (features, _) in enumerate(heard):
            if len(features):
                by_frames[len(features)].append(index)
        memories: dict[int, Floats] = {}
        speech: dict[int, list[bool]] = {}
        for members in by_frames.values():
            silence, after = self._network.run(
                np.stack([heard[index][0] for index in members]), [batch[index].state.memory for index in members]
            )
            memories.update(zip(members, after, strict=True))
            speech.update(zip(members, (1.0 - silence >= silence + self._threshold).tolist(), strict=True))
        events = []
        for index, (request, (_, frontend)) in enumerate(zip(batch, heard, strict=True)):
            state: VadState = request.state
            state.frontend = frontend
            state.memory = memories.get(index, state.memory)
            boundaries = state.machine.advance(speech.get(index, ()), last=request.last)
            events.append(tuple(VoiceEvent(b.started, b.frame * SHIFT_SAMPLES) for b in boundaries))
        return events

    def _rules(self, options: VadOptions) -> VoiceRules:
        """A session's rules: its own silence and longest segment, the model's for the rest."""
        config = self._config
        return VoiceRules(
            window=config["window_size_ms"] // FRAME_MS,
            speech_in_window=config["sil_to_speech_time_thres"] // FRAME_MS,
            silence_in_window=config["speech_to_sil_time_thres"] // FRAME_MS,
            lookback=config["lookback_time_start_point"] // FRAME_MS,
            lookahead=config["lookahead_time_end_point"] // FRAME_MS,
            silence=(options.silence_ms - config["speech_to_sil_time_thres"]) / FRAME_MS,
            longest=options.max_segment_ms / FRAME_MS,
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
