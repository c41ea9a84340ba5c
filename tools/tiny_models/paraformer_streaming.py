"""Trains the streaming Paraformer: FunASR's own class and losses, with what its training leaves out put right.

Three things differ from calling FunASR's `forward` in a loop:

* `Paraformer.encode` drops the chunk kind that `forward` has drawn, so only the first would ever be trained.
* Streaming inference puts five zero frames in front, after the position code, and its positions count on for as long
  as the stream lasts; training's `forward` knows neither.
* `cif_v1` fails if the last row of a batch never fires (see `training.Batch`).
"""

import types
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from . import funasr_model
from .features import Features
from .training import Batch, Phase, Schedule, Statistics, Weights, collate, endless, seed_everything, train
from .vocabulary import TOKEN_IDS, TOKENS

WIDTH = 128
ZERO_FRAMES = 5
LONGEST_START = 2000

# (window, stride, left padding, encoder look-back, decoder look-back, share): the three without look-back are what the
# stateless ONNX encoder computes at 600, 300 and 1200 ms.
CHUNK_KINDS = (
    (15, 10, 0, 4, 1, 0.24),
    (10, 5, 0, 4, 1, 0.14),
    (205, 200, 0, 4, 1, 0.16),
    (20, 10, 5, 0, 0, 0.22),
    (15, 5, 5, 0, 0, 0.10),
    (30, 20, 5, 0, 0, 0.14),
)
FULL_CONTEXT = 2
FULL_CONTEXT_FIRST = 0.2  # the first fifth of the steps hears the full context mostly


def encoder_configuration() -> dict[str, Any]:
    return {
        "output_size": WIDTH, "attention_heads": 4, "linear_units": 256, "num_blocks": 4, "dropout_rate": 0.0,
        "positional_dropout_rate": 0.0, "attention_dropout_rate": 0.0, "pos_enc_class": "SinusoidalPositionEncoder",
        "normalize_before": True, "kernel_size": 11, "sanm_shfit": 0, "selfattention_layer_type": "sanm",
    }  # fmt: skip


def decoder_configuration(shift: int) -> dict[str, Any]:
    return {
        "attention_heads": 4, "linear_units": 256, "num_blocks": 2, "dropout_rate": 0.0,
        "positional_dropout_rate": 0.0, "self_attention_dropout_rate": 0.0, "src_attention_dropout_rate": 0.0,
        "att_layer_num": 2, "kernel_size": 11, "sanm_shfit": shift,
    }  # fmt: skip


def configuration(ctc_weight: float = 0.0) -> funasr_model.Configuration:
    """The model's `config.yaml`; the CTC head helps training only and is not shipped."""
    window, stride, left, encoder_back, decoder_back, _ = (list(column) for column in zip(*CHUNK_KINDS, strict=True))
    return {
        "model": "ParaformerStreaming",
        "model_conf": {
            "ctc_weight": ctc_weight, "lsm_weight": 0.1, "length_normalized_loss": True, "predictor_weight": 1.0,
            "predictor_bias": 1, "sampling_ratio": 0.75,
        },
        "encoder": "SANMEncoderChunkOpt",
        "encoder_conf": encoder_configuration() | {
            "input_layer": "pe_online", "chunk_size": window, "stride": stride, "pad_left": left,
            "encoder_att_look_back_factor": encoder_back, "decoder_att_look_back_factor": decoder_back,
        },
        "decoder": "ParaformerSANMDecoder",
        "decoder_conf": decoder_configuration(shift=5),
        "predictor": "CifPredictorV2",
        "predictor_conf": {"idim": WIDTH, "threshold": 1.0, "l_order": 1, "r_order": 1, "tail_threshold": 0.45},
        "tokenizer": "CharTokenizer",
        "tokenizer_conf": {"unk_symbol": "<unk>", "split_with_space": True},
        "frontend": "WavFrontendOnline",
        "frontend_conf": dict(funasr_model.FRONT_END),
    }  # fmt: skip


def label(tokens: list[str]) -> list[int]:
    return [TOKEN_IDS[token] for token in tokens]


class Positions:
    """Stands in for the encoder's position code: the start position and the zero frames of the next batch."""

    def __init__(self, embed: nn.Module) -> None:
        self.zero_frames = self.start = 0
        self._codes: Tensor = embed.encode(torch.arange(1, LONGEST_START + 400)[None], 560)
        self._streamed = type(embed).forward
        self._embed = embed
        embed.forward = self._forward

    def draw(self, draw: np.random.Generator) -> None:
        self.zero_frames = ZERO_FRAMES if draw.random() < 0.85 else 0
        self.start = 0 if draw.random() < 0.4 else int(draw.integers(LONGEST_START))

    def _forward(self, rows: Tensor, cache: dict[str, Any] | None = None) -> Tensor:
        if cache is not None:
            coded: Tensor = self._streamed(self._embed, rows, cache)
            return coded
        zeros, speech = rows[:, : self.zero_frames], rows[:, self.zero_frames :]
        return torch.cat([zeros, speech + self._codes[:, self.start : self.start + speech.size(1)]], dim=1)


def _encode(self: nn.Module, speech: Tensor, lengths: Tensor, ind: int = 0) -> tuple[Tensor, Tensor]:
    encoded, encoded_lengths, _ = self.encoder(speech, lengths, ind=ind)
    return encoded, encoded_lengths


def losses(
    model: nn.Module,
    features: Features,
    schedule: Schedule,
    draw: np.random.Generator,
    early: bool,
    rows: int = 900,
) -> Iterator[Callable[[], tuple[Tensor, Statistics]]]:
    """The loss of one batch after another, each under a chunk kind drawn for it.

    `early` training begins with a time of mostly full context.
    """
    model.encode = types.MethodType(_encode, model)
    positions = Positions(model.encoder.embed)
    shares = np.array([kind[-1] for kind in CHUNK_KINDS])
    full_first = np.where(np.arange(len(shares)) == FULL_CONTEXT, 0.75, shares * 0.25 / (1 - shares[FULL_CONTEXT]))
    for step, items in enumerate(endless(features, rows, draw)):
        first = early and step < FULL_CONTEXT_FIRST * schedule.horizon
        kind = int(draw.choice(len(shares), p=full_first if first else shares))
        positions.draw(draw)
        batch = collate(features, items, label, draw, positions.zero_frames)

        def loss(kind: int = kind, batch: Batch = batch) -> tuple[Tensor, Statistics]:
            model.encoder.overlap_chunk_cls.random_choice = lambda *_: kind
            value, statistics, _ = model(
                speech=batch.speech, speech_lengths=batch.speech_lengths, text=batch.text,
                text_lengths=batch.text_lengths,
            )  # fmt: skip
            return value, statistics

        yield loss


def shipped(weights: Weights) -> Weights:
    """The weights without the CTC head."""
    return {name: value for name, value in weights.items() if not name.startswith("ctc.")}


def make(corpora: Path, work: Path, folder: Path, phases: Sequence[Phase]) -> None:
    """Trains and writes the model directory, overwriting it with every snapshot."""
    normalisation = corpora / phases[0].corpus / "am.mvn"

    def save(weights: Weights) -> None:
        funasr_model.write(folder, configuration(), TOKENS, normalisation, shipped(weights))

    for index, (corpus, schedule) in enumerate((phase.corpus, phase.schedule) for phase in phases):
        features = Features.read(corpora / corpus, normalisation)
        draw = seed_everything(schedule.seed)
        model = funasr_model.build(configuration(ctc_weight=0.3), TOKENS, normalisation, work).train()
        if index:
            funasr_model.go_on(model, folder)
        save(train(model, losses(model, features, schedule, draw, early=not index), schedule, save, work / "log.jsonl"))
