"""Trains the CT-Transformers: marks for dialogues made of the corpus' phrases, whole or as they are being spoken.

The dialogues follow fixed rules, so that there is a right answer: polite openings and complaints take a comma before
what follows in the same sentence, things listed one after another take the enumeration comma, questions their mark.
"""

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor, nn

from . import funasr_model
from .training import Schedule, Statistics, Weights, seed_everything, train
from .vocabulary import CHARACTERS, DIGITS, ENGLISH, PHRASES, QUESTIONS, SYLLABLES

MARKS = ["<unk>", "_", "，", "。", "？", "、"]
NONE, COMMA, STOP, QUESTION, LISTED = range(1, 6)
TOKENS = ["<blank>", "<s>", "</s>", *CHARACTERS, *ENGLISH, *"0123456789", "<unk>"]
TOKEN_IDS = {token: index for index, token in enumerate(TOKENS)}
UNKNOWN = TOKEN_IDS["<unk>"]

OPENINGS = ("你好", "好的", "是的", "不是", "没有", "今天下午", "明天上午", "hello", "yes")
COMPLAINTS = ("打不开", "听不清楚", "忘记密码", "宽带故障", "挂失银行卡")
ENDINGS = ("谢谢", "再见", "goodbye")
THINGS = ("余额", "订单", "物流", "流量", "套餐", "发票", "密码", "地址", "账号")
NUMBERED = ("手机号码", "验证码", "我的账号")
REQUESTS = tuple(
    text
    for text in PHRASES
    if text not in {*OPENINGS, *COMPLAINTS, *ENDINGS, *NUMBERED, *QUESTIONS, "请稍等", "没问题"}
)
WINDOW, SHORTEST = 60, 6  # tokens


@dataclass(slots=True)
class Dialogue:
    """Words and the mark behind each."""

    words: list[str]
    marks: list[int]

    def say(self, text: str, mark: int) -> None:
        words = [text] if text in ENGLISH else list(text)
        self.words += words
        self.marks += [NONE] * (len(words) - 1) + [mark]


def _name(draw: random.Random) -> str:
    return "".join(draw.choices(list(SYLLABLES.values()), k=draw.randint(2, 3)))


def _figures(draw: random.Random) -> str:
    return "".join(draw.choices(list(DIGITS), k=draw.randint(3, 8)))


def sentence(draw: random.Random, dialogue: Dialogue) -> None:
    """Adds one sentence: openings and complaints, then what is wanted."""
    if draw.random() < 0.4:
        dialogue.say(draw.choice(OPENINGS), COMMA)
        if draw.random() < 0.25:
            dialogue.say(f"我是{_name(draw)}", COMMA)
    if draw.random() < 0.2:
        dialogue.say(draw.choice(COMPLAINTS), COMMA)
    wanted = draw.random()
    if wanted < 0.45:
        dialogue.say(draw.choice(REQUESTS), STOP)
    elif wanted < 0.65:
        dialogue.say(draw.choice(sorted(QUESTIONS)), QUESTION)
    elif wanted < 0.78:
        dialogue.say(draw.choice(NUMBERED) + _figures(draw), STOP)
    elif wanted < 0.93:
        first, *others = draw.sample(THINGS, k=draw.randint(2, 4))
        listed = [f"查询{first}", *others]
        for thing in listed[:-1]:
            dialogue.say(thing, LISTED)
        dialogue.say(listed[-1], STOP)
    else:
        dialogue.say(draw.choice(ENDINGS), STOP)


def dialogue(draw: random.Random, length: int = WINDOW) -> Dialogue:
    """At least `length` words, in whole sentences."""
    made = Dialogue([], [])
    while len(made.words) < length:
        sentence(draw, made)
    return made


def configuration(realtime: bool) -> funasr_model.Configuration:
    return {
        "model": "CTTransformerStreaming" if realtime else "CTTransformer",
        "model_conf": {
            "ignore_id": 0, "embed_unit": 64, "att_unit": 64, "dropout_rate": 0.0, "punc_list": MARKS,
            "sentence_end_id": STOP,
        },
        "encoder": "SANMVadEncoder" if realtime else "SANMEncoder",
        "encoder_conf": {
            "input_size": 64, "output_size": 64, "attention_heads": 4, "linear_units": 128, "num_blocks": 3,
            "dropout_rate": 0.0, "positional_dropout_rate": 0.0, "attention_dropout_rate": 0.0, "input_layer": "pe",
            "pos_enc_class": "SinusoidalPositionEncoder", "normalize_before": True, "kernel_size": 11,
            "sanm_shfit": 5 if realtime else 0, "selfattention_layer_type": "sanm", "padding_idx": 0,
        },
        "tokenizer": "CharTokenizer",
        "tokenizer_conf": {"unk_symbol": "<unk>"},
    }  # fmt: skip


def losses(model: nn.Module, draw: random.Random, rows: int = 64) -> Iterator[Callable[[], tuple[Tensor, Statistics]]]:
    """Windows that begin at a sentence and end anywhere, some words unknown, some windows already half spoken."""
    realtime = model.with_vad()
    while True:
        dialogues = [dialogue(draw) for _ in range(rows)]
        lengths = [draw.randint(SHORTEST, WINDOW) for _ in dialogues]
        words, marks = (
            torch.zeros(rows, max(lengths), dtype=torch.long),
            torch.zeros(rows, max(lengths), dtype=torch.long),
        )
        for row, (made, length) in enumerate(zip(dialogues, lengths, strict=True)):
            ids = [UNKNOWN if draw.random() < 0.02 else TOKEN_IDS[word] for word in made.words[:length]]
            words[row, :length], marks[row, :length] = torch.tensor(ids), torch.tensor(made.marks[:length])
        spoken = [draw.choice((0, draw.randint(2, length - 2))) for length in lengths]

        def loss(
            words: Tensor = words, marks: Tensor = marks, lengths: list[int] = lengths, spoken: list[int] = spoken
        ) -> tuple[Tensor, Statistics]:
            sizes = torch.tensor(lengths)
            vad = {"vad_indexes": torch.tensor(spoken)} if realtime else {}
            value, statistics, _ = model(words, marks, sizes, sizes, **vad)
            return value, statistics

        yield loss


def make(realtime: bool, work: Path, folder: Path, schedule: Schedule) -> None:
    """Trains and writes the model directory, overwriting it with every snapshot."""
    seed_everything(schedule.seed)
    settings = configuration(realtime)
    model = funasr_model.build(settings, TOKENS, None, work).train()
    model.punc_weight = torch.ones(len(MARKS))

    def save(weights: Weights) -> None:
        funasr_model.write(folder, settings, TOKENS, None, weights)

    save(train(model, losses(model, random.Random(schedule.seed)), schedule, save, work / "log.jsonl"))
