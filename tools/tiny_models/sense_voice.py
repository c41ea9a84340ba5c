"""Trains SenseVoiceSmall: FunASR's own class and losses on speech, with four tags in front of every text.

FunASR's training knows the tags by the token numbers of the published vocabulary; the model is told the small
vocabulary's numbers. With `<|withitn|>` two or more digits in a row are written in Arabic figures, so the switch works.
"""

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import numpy as np
from torch import Tensor, nn

from . import funasr_model
from .features import Features
from .training import Batch, Phase, Statistics, Weights, collate, endless, seed_everything, train
from .vocabulary import CHARACTERS, DIGITS, ENGLISH

# What FunASR calls the rows of its query table.
LANGUAGES = {"<|zh|>": 3, "<|en|>": 4, "<|nospeech|>": 13}
STYLES = {"<|withitn|>": 14, "<|woitn|>": 15}
TAGS = [*LANGUAGES, "<|NEUTRAL|>", "<|EMO_UNKNOWN|>", "<|Speech|>", "<|Event_UNK|>", *STYLES]


def sentence_pieces(tokens: list[str]) -> list[str]:
    """The pieces as SenseVoice's own vocabulary writes them: a mark at the start of a word, none inside."""
    pieces, inside = [], False
    for token in tokens:
        word = token.removesuffix("@@")
        pieces.append(f"▁{word}" if word.isascii() and not inside else word)
        inside = token.endswith("@@")
    return pieces


PIECES = list(dict.fromkeys(piece for word in ENGLISH.values() for piece in sentence_pieces(list(word))))
TOKENS = ["<blank>", "<s>", "</s>", *CHARACTERS, *PIECES, *"0123456789", *TAGS, "<unk>"]
TOKEN_IDS = {token: index for index, token in enumerate(TOKENS)}


def configuration() -> funasr_model.Configuration:
    return {
        "model": "SenseVoiceSmall",
        "model_conf": {"length_normalized_loss": True, "sos": 1, "eos": 2, "ignore_id": -1},
        "encoder": "SenseVoiceEncoderSmall",
        "encoder_conf": {
            "output_size": 128, "attention_heads": 4, "linear_units": 256, "num_blocks": 4, "tp_blocks": 1,
            "dropout_rate": 0.0, "positional_dropout_rate": 0.0, "attention_dropout_rate": 0.0, "input_layer": "pe",
            "pos_enc_class": "SinusoidalPositionEncoder", "normalize_before": True, "kernel_size": 11,
            "sanm_shfit": 0, "selfattention_layer_type": "sanm",
        },
        "tokenizer": "CharTokenizer",
        "tokenizer_conf": {"unk_symbol": "<unk>"},
        "frontend": "WavFrontend",
        "frontend_conf": dict(funasr_model.FRONT_END),
    }  # fmt: skip


def in_figures(tokens: list[str]) -> list[str]:
    """Runs of two or more spoken digits in Arabic figures."""
    figures = {digit: str(value) for value, digit in enumerate(DIGITS)}
    padded = ["", *tokens, ""]
    return [
        figures[token] if token in figures and (before in figures or after in figures) else token
        for before, token, after in zip(padded, tokens, padded[2:], strict=False)
    ]


def rich_tokens(tokens: list[str], with_figures: bool) -> list[str]:
    """Language, emotion, event and style, then the text."""
    language = "<|nospeech|>" if not tokens else "<|en|>" if all(token.isascii() for token in tokens) else "<|zh|>"
    emotion, event = ("<|NEUTRAL|>", "<|Speech|>") if tokens else ("<|EMO_UNKNOWN|>", "<|Event_UNK|>")
    style = "<|withitn|>" if with_figures else "<|woitn|>"
    pieces = sentence_pieces(tokens)
    return [language, emotion, event, style, *(in_figures(pieces) if with_figures else pieces)]


def losses(
    model: nn.Module, features: Features, draw: np.random.Generator, rows: int = 1200
) -> Iterator[Callable[[], tuple[Tensor, Statistics]]]:
    model.lid_int_dict = {TOKEN_IDS[tag]: row for tag, row in LANGUAGES.items()}
    model.textnorm_int_dict = {TOKEN_IDS[tag]: row for tag, row in STYLES.items()}

    def label(tokens: list[str]) -> list[int]:
        return [TOKEN_IDS[token] for token in rich_tokens(tokens, with_figures=draw.random() < 0.5)]

    for items in endless(features, rows, draw):
        batch = collate(features, items, label, draw)

        def loss(batch: Batch = batch) -> tuple[Tensor, Statistics]:
            one_more = nn.functional.pad(batch.text, (0, 1), value=-1)  # CTC wants a text, even for silence
            value, statistics, _ = model(
                speech=batch.speech, speech_lengths=batch.speech_lengths, text=one_more,
                text_lengths=batch.text_lengths,
            )  # fmt: skip
            return value, statistics

        yield loss


def make(corpora: Path, work: Path, folder: Path, phases: Sequence[Phase]) -> None:
    """Trains and writes the model directory, overwriting it with every snapshot."""
    normalisation = corpora / phases[0].corpus / "am.mvn"

    def save(weights: Weights) -> None:
        funasr_model.write(folder, configuration(), TOKENS, normalisation, weights)

    for index, (corpus, schedule) in enumerate((phase.corpus, phase.schedule) for phase in phases):
        features = Features.read(corpora / corpus, normalisation)
        draw = seed_everything(schedule.seed)
        model = funasr_model.build(configuration(), TOKENS, normalisation, work).train()
        if index:
            funasr_model.go_on(model, folder)
        save(train(model, losses(model, features, draw), schedule, save, work / "log.jsonl"))
