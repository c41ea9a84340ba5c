"""Trains the offline Paraformer: FunASR's `SeacoParaformer`, with token times and hot words.

First the recogniser and its two predictors (`BiCifParaformer.forward`), then, with the recogniser frozen, what hot
words need: the encoder of hot words, the decoder that matches them with what was heard, and its output. Half of the
hot words are spelled with characters of the same sound that the recogniser never writes, so that hot words are the
only way to get them: as with rare names.
"""

import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn

from . import funasr_model
from .features import COPIES, Features
from .paraformer_streaming import decoder_configuration, encoder_configuration, shipped
from .training import Batch, Phase, Schedule, Statistics, Weights, collate, endless, seed_everything, train
from .vocabulary import ENGLISH, HOT_WORD_SPELLINGS, OFFLINE_TOKEN_IDS, OFFLINE_TOKENS, SYLLABLES

WIDTH = 96
NO_BIAS = 0  # the token that says "no hot word here": <blank>
START = 1
TIME_PARTS = ("predictor.upsample_cnn.", "predictor.blstm.", "predictor.cif_output2.")
TIME_PHASES = 2
"""What places tokens in time learns from their number alone, and drifts: a third phase made their errors four times as
large. So later phases leave it as it was."""
MOST_OTHERS = 45  # in a list of hot words, besides what was said: FunASR's export keeps 51
HOT_WORD_PARTS = ("bias_encoder.", "seaco_decoder.", "hotword_output_layer.", "decoder.embed.")


def configuration(ctc_weight: float = 0.0) -> funasr_model.Configuration:
    return {
        "model": "SeacoParaformer",
        "model_conf": {
            "ctc_weight": ctc_weight, "lsm_weight": 0.1, "length_normalized_loss": True, "predictor_weight": 1.0,
            "predictor_bias": 1, "sampling_ratio": 0.75, "inner_dim": WIDTH, "bias_encoder_type": "lstm",
            "bias_encoder_bid": False, "seaco_lsm_weight": 0.1, "seaco_length_normalized_loss": True,
            "train_decoder": False, "NO_BIAS": NO_BIAS,
        },
        "encoder": "SANMEncoder",
        "encoder_conf": encoder_configuration() | {"output_size": WIDTH, "input_layer": "pe"},
        "decoder": "ParaformerSANMDecoder",
        "decoder_conf": decoder_configuration(shift=0),
        "seaco_decoder": "ParaformerSANMDecoder",
        "seaco_decoder_conf": decoder_configuration(shift=0) | {
            "num_blocks": 6, "att_layer_num": 6, "linear_units": 64, "use_output_layer": False, "wo_input_layer": True,
        },
        "predictor": "CifPredictorV3",
        "predictor_conf": {
            "idim": WIDTH, "threshold": 1.0, "l_order": 1, "r_order": 1, "tail_threshold": 0.45,
            "smooth_factor2": 0.25, "noise_threshold2": 0.01, "upsample_times": 3, "use_cif1_cnn": False,
            "upsample_type": "cnn_blstm",
        },
        "tokenizer": "CharTokenizer",
        "tokenizer_conf": {"unk_symbol": "<unk>", "split_with_space": True},
        "frontend": "WavFrontend",
        "frontend_conf": dict(funasr_model.FRONT_END),
    }  # fmt: skip


def label(tokens: list[str]) -> list[int]:
    return [OFFLINE_TOKEN_IDS[token] for token in tokens]


def integrate(hidden: Tensor, alphas: Tensor, _threshold: float) -> tuple[Tensor, Tensor]:
    """CIF at threshold 1 as one product instead of a loop over frames; in place of FunASR's `cif` in training.

    Frame t spans [sum of alphas before t, sum up to t]; token n gets of it what lies in [n, n + 1].
    """
    ends = alphas.cumsum(1)
    tokens = torch.arange(int(alphas.sum(1).round().max()))[None, :, None]
    shares = (torch.minimum(ends[:, None], tokens + 1) - torch.maximum((ends - alphas)[:, None], tokens)).clamp(min=0)
    return shares @ hidden, ends


def make_quick(model: nn.Module) -> None:
    """Spares training FunASR's loop over frames and its second, equal pass through the predictor."""
    from funasr.models.bicif_paraformer import cif_predictor

    cif_predictor.cif = integrate
    forward, last = model.predictor.forward, [None, None]

    def once(hidden: Tensor, *rest: object, **options: object) -> object:
        if last[0] is not hidden:
            last[:] = hidden, forward(hidden, *rest, **options)
        return last[1]

    model.predictor.forward = once


def recogniser_losses(
    model: nn.Module, features: Features, draw: np.random.Generator, rows: int = 1000
) -> Iterator[Callable[[], tuple[Tensor, Statistics]]]:
    from funasr.models.bicif_paraformer.model import BiCifParaformer

    for items in endless(features, rows, draw):
        batch = collate(features, items, label, draw)

        def loss(batch: Batch = batch) -> tuple[Tensor, Statistics]:
            value, statistics, _ = BiCifParaformer.forward(
                model, batch.speech, batch.speech_lengths, batch.text, batch.text_lengths
            )
            return value, statistics

        yield loss


@dataclass(frozen=True, slots=True)
class Heard:
    """What the frozen recogniser makes of one utterance: a vector per token before and after its decoder."""

    tokens: list[str]
    acoustic: Tensor
    decoded: Tensor


def hear(model: nn.Module, features: Features, draw: np.random.Generator, rows: int = 2000) -> list[Heard]:
    """One random copy of every utterance that has text, the end-of-sentence token included."""
    from funasr.models.transformer.utils.add_sos_eos import add_sos_eos
    from funasr.models.transformer.utils.nets_utils import make_pad_mask

    heard = []
    with torch.no_grad():
        for items in features.batches(rows, draw):
            batch = collate(features, items, label, draw)
            encoded, lengths = model.encode(batch.speech, batch.speech_lengths)
            mask = ~make_pad_mask(lengths, maxlen=encoded.size(1))[:, None, :]
            _, text = add_sos_eos(batch.text, model.sos, model.eos, model.ignore_id)
            acoustic = model.predictor(encoded, text, mask, ignore_id=model.ignore_id)[0]
            decoded, _ = model.decoder(encoded, lengths, acoustic, batch.text_lengths + 1, return_hidden=True)
            for row, length in enumerate(batch.text_lengths.tolist()):
                if length:
                    tokens = [OFFLINE_TOKENS[token] for token in batch.text[row, :length].tolist()]
                    heard.append(Heard(tokens, acoustic[row, : length + 1].clone(), decoded[row, : length + 1].clone()))
    return heard


def respelled(tokens: Sequence[str]) -> list[str]:
    """The same sounds in characters that only hot words know, as far as there are any."""
    return [HOT_WORD_SPELLINGS.get(token, token) for token in tokens]


Words = dict[tuple[str, ...], list[str]]  # what is said, by what it is to be written as


def written(said: tuple[str, ...], draw: random.Random) -> list[str]:
    return respelled(said) if draw.random() < 0.6 else list(said)


def near_miss(word: tuple[str, ...], draw: random.Random) -> tuple[str, ...]:
    """The word with one of its syllables replaced: what a list must not make of what was said."""
    place = draw.randrange(len(word))
    return (*word[:place], draw.choice(list(SYLLABLES.values())), *word[place + 1 :])


def draw_hot_words(heard: Sequence[Heard], most_others: int, draw: random.Random) -> list[Words]:
    """A list of hot words for each utterance: mostly a part of it, near misses, and words of others or of nobody."""
    said = []
    for utterance in heard:
        length = min(draw.randint(2, 4), len(utterance.tokens))
        start = draw.randrange(len(utterance.tokens) - length + 1)
        said.append(tuple(utterance.tokens[start : start + length]))
    nobody = [tuple(draw.choices(list(SYLLABLES.values()), k=draw.randint(2, 4))) for _ in heard]
    lists = []
    for own in said:
        words = draw.sample([*said, *nobody], k=draw.randint(0, most_others))
        words += [near_miss(own, draw) for _ in range(draw.randint(0, 2))]
        words += [own] if draw.random() < 0.7 else []
        draw.shuffle(words)
        lists.append({word: written(word, draw) for word in words})
    return lists


def hot_word_label(tokens: Sequence[str], words: Words) -> list[int]:
    """The hot word's tokens where one was said, NO_BIAS elsewhere."""
    ids = [NO_BIAS] * len(tokens)
    for said, characters in words.items():
        for start in range(len(tokens) - len(said) + 1):
            if tuple(tokens[start : start + len(said)]) == said:
                ids[start : start + len(said)] = [OFFLINE_TOKEN_IDS[token] for token in characters]
    return ids


def represent(model: nn.Module, lists: Sequence[Words]) -> tuple[Tensor, Tensor]:
    """The vectors of each list, right-padded, and their number; a list ends with the one that says "nothing"."""
    ids = [[[OFFLINE_TOKEN_IDS[token] for token in word] for word in words.values()] + [[START]] for words in lists]
    flat = [torch.tensor(word) for words in ids for word in words]
    vectors = model._hotword_representation(
        nn.utils.rnn.pad_sequence(flat, batch_first=True), torch.tensor([len(word) for word in flat])
    )
    counts = [len(words) for words in ids]
    return nn.utils.rnn.pad_sequence(vectors.split(counts), batch_first=True), torch.tensor(counts)


def hot_word_losses(
    model: nn.Module, heard: Sequence[Heard], schedule: Schedule, draw: random.Random, rows: int = 32
) -> Iterator[Callable[[], tuple[Tensor, Statistics]]]:
    """SeACo's loss (`SeacoParaformer._calc_seaco_loss`) on what was heard before; lists grow as training goes on."""
    pad = nn.utils.rnn.pad_sequence
    for step in range(schedule.steps):
        batch = draw.sample(heard, k=rows)
        lists = draw_hot_words(batch, min(MOST_OTHERS, step * 2 * MOST_OTHERS // schedule.steps), draw)
        labels = [hot_word_label(utterance.tokens, words) for utterance, words in zip(batch, lists, strict=True)]

        def loss(
            batch: Sequence[Heard] = batch, lists: Sequence[Words] = lists, labels: list[list[int]] = labels
        ) -> tuple[Tensor, Statistics]:
            lengths = torch.tensor([len(utterance.acoustic) for utterance in batch])
            context, counts = represent(model, lists)
            merged = sum(
                model.seaco_decoder(context, counts, pad(list(kind), batch_first=True), lengths)[0]
                for kind in ((utterance.acoustic for utterance in batch), (utterance.decoded for utterance in batch))
            )
            scores = model.hotword_output_layer(merged[:, :-1])
            target = pad([torch.tensor(ids) for ids in labels], batch_first=True, padding_value=-1)
            value, right = model.criterion_seaco(scores, target), scores.argmax(-1) == target
            return value, {
                "loss": value.detach(),
                "right_hot_tokens": right[target > NO_BIAS].float().mean(),
                "right_others": right[target == NO_BIAS].float().mean(),
            }

        yield loss


def start_from_sound(model: nn.Module) -> None:
    """Lets the characters of hot words begin near the vectors of those that sound the same."""
    table = model.decoder.embed[0].weight
    with torch.no_grad():
        for known, character in HOT_WORD_SPELLINGS.items():
            near = table[OFFLINE_TOKEN_IDS[known]]
            table[OFFLINE_TOKEN_IDS[character]] = near + torch.randn_like(near) * near.std() * 0.5


def segmentation() -> str:
    """FunASR's `seg_dict`: how hot words are cut into tokens."""
    characters = (token for token in OFFLINE_TOKENS if len(token) == 1 and not token.isascii())
    return "".join([*(f"{c} {c}\n" for c in characters), *(f"{w} {' '.join(p)}\n" for w, p in ENGLISH.items())])


def _time_parts(model: nn.Module) -> Weights:
    return {name: value.clone() for name, value in model.state_dict().items() if name.startswith(TIME_PARTS)}


def make(corpora: Path, work: Path, folder: Path, phases: Sequence[Phase], hot_words: Phase) -> None:
    """Trains the recogniser, then what hot words need; overwrites the model directory with every snapshot."""
    normalisation = corpora / phases[0].corpus / "am.mvn"

    def save(weights: Weights) -> None:
        funasr_model.write(folder, configuration(), OFFLINE_TOKENS, normalisation, shipped(weights))
        (folder / "seg_dict").write_text(segmentation())

    def start(phase: Phase, go_on: bool) -> tuple[nn.Module, Features, np.random.Generator]:
        draw = seed_everything(phase.schedule.seed)
        model = funasr_model.build(configuration(ctc_weight=0.3), OFFLINE_TOKENS, normalisation, work).train()
        make_quick(model)
        if go_on:
            funasr_model.go_on(model, folder)
        return model, Features.read(corpora / phase.corpus, normalisation), draw

    for index, phase in enumerate(phases):
        model, features, draw = start(phase, go_on=index > 0)
        kept = _time_parts(model) if index >= TIME_PHASES else {}
        for name, parameter in model.named_parameters():
            parameter.requires_grad = not name.startswith(HOT_WORD_PARTS[:3])

        def snapshot(weights: Weights, kept: Weights = kept) -> None:
            save({**weights, **kept})

        snapshot(train(model, recogniser_losses(model, features, draw), phase.schedule, snapshot, work / "log.jsonl"))

    model, features, draw = start(hot_words, go_on=True)
    for name, parameter in model.named_parameters():
        parameter.requires_grad = name.startswith(HOT_WORD_PARTS)
    start_from_sound(model)
    model.eval()
    heard = [utterance for _ in range(COPIES) for utterance in hear(model, features, draw)]
    losses = hot_word_losses(model.train(), heard, hot_words.schedule, random.Random(hot_words.schedule.seed))
    save(train(model, losses, hot_words.schedule, save, work / "hot-words.jsonl"))
