"""Measures the models with FunASR's own AutoModel on utterances that they were not trained on.

Tokens are compared, not texts: FunASR glues words and loses halves of them at the borders of chunks.
"""

import operator
import random
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from .corpus import STRANGER_SEED, STRANGERS, Plan, held_out
from .export import load
from .punctuation import COMMA, LISTED, MARKS, NONE, QUESTION, STOP, Dialogue, dialogue
from .sense_voice import in_figures, sentence_pieces
from .speech import RATE_HZ, Sound, stream, telephone, utter_all
from .test_data import hot_word, hot_word_plans
from .vocabulary import ENGLISH, SYLLABLES

Recognise = Callable[[Sound], list[str]]
Spell = Callable[[Plan], list[str]]
Figures = dict[str, Any]

LOOK_BACK = {"encoder_chunk_look_back": 4, "decoder_chunk_look_back": 1}
NO_LOOK_BACK = {"encoder_chunk_look_back": 0, "decoder_chunk_look_back": 0}
STREAMED = {
    "torch [0,10,5], look-back 4/1": ((0, 10, 5), LOOK_BACK),
    "torch [0,5,5], look-back 4/1": ((0, 5, 5), LOOK_BACK),
    "as ONNX: [5,10,5], no look-back": ((5, 10, 5), NO_LOOK_BACK),
    "as ONNX: [5,5,5], no look-back": ((5, 5, 5), NO_LOOK_BACK),
    "as ONNX: [5,20,5], no look-back": ((5, 20, 5), NO_LOOK_BACK),
}
SESSION_MINUTES, SESSION_PAUSE_S = 10, 0.8


class Heard:
    """FunASR's model with an ear at its tokeniser: the tokens of a call before they become a text."""

    def __init__(self, folder: Path) -> None:
        self.model = load(folder)
        self.tokens: list[str] = []
        kind = type(self.model.kwargs["tokenizer"])  # the class: every call of `generate` copies the object
        known = kind.ids2tokens

        def overhear(tokenizer: Any, ids: Any) -> Any:
            tokens = known(tokenizer, ids)
            self.tokens += tokens
            return tokens

        kind.ids2tokens = overhear

    def call(self, sound: Sound, **options: Any) -> list[str]:
        self.tokens.clear()
        self.model.generate(input=sound, **options)
        return list(self.tokens)

    def streamed(self, sound: Sound, chunk: Sequence[int], look_back: dict[str, int]) -> list[str]:
        """In packets of one chunk, the last one final."""
        packet, cache, tokens = chunk[1] * 960, {}, []
        for start in range(0, len(sound), packet):
            last = start + packet >= len(sound)
            piece = sound[start : start + packet]
            tokens += self.call(piece, cache=cache, is_final=last, chunk_size=list(chunk), **look_back)
        return tokens


def distance(said: Sequence[str], heard: Sequence[str]) -> int:
    """Levenshtein's."""
    row = list(range(len(heard) + 1))
    for index, token in enumerate(said, 1):
        before, row[0] = row[:], index
        for place, other in enumerate(heard, 1):
            row[place] = min(before[place] + 1, row[place - 1] + 1, before[place - 1] + (token != other))
    return row[-1]


_SOUNDS = {character: syllable.rstrip("12345") for syllable, character in SYLLABLES.items()}


def toneless(tokens: Sequence[str]) -> list[str]:
    """The syllable of each character that strings are made of, without its tone."""
    return [_SOUNDS.get(token, token) for token in tokens]


def error_rate(
    plans: Sequence[Plan], sounds: Sequence[Sound], recognise: Recognise, spell: Spell = operator.attrgetter("tokens")
) -> Figures:
    """Errors of all utterances, of those made of known words, and of those with syllables in any order.

    The last also without regard to tone: some of espeak-ng's voices hardly make it heard.
    """
    began = time.perf_counter()
    heard = [recognise(sound) for sound in sounds]
    took = time.perf_counter() - began
    said = [spell(plan) for plan in plans]
    errors = [distance(a, b) for a, b in zip(said, heard, strict=True)]
    without_tone = [distance(toneless(a), toneless(b)) for a, b in zip(said, heard, strict=True)]
    strings = {index for index, plan in enumerate(plans) if plan.kind in ("string", "carried")}
    words = set(range(len(plans))) - strings

    def percent(chosen: set[int], counted: Sequence[int]) -> float:
        return round(100 * sum(counted[i] for i in chosen) / sum(len(said[i]) for i in chosen), 2)

    return {
        "token_error_percent": percent(words | strings, errors),
        "words_percent": percent(words, errors),
        "strings_percent": percent(strings, errors),
        "strings_without_tone_percent": percent(strings, without_tone),
        "tokens": sum(map(len, said)),
        "utterances": len(said),
        "without_error": errors.count(0),
        "real_time_factor": round(took / (sum(map(len, sounds)) / RATE_HZ), 4),
    }


@dataclass(frozen=True, slots=True)
class TestSpeech:
    """The held-out utterances and what was made of them."""

    plans: list[Plan]
    sounds: list[Sound]
    strangers: list[Plan]
    stranger_sounds: list[Sound]

    @staticmethod
    def make(count: int = 200) -> "TestSpeech":
        plans, strangers = held_out(count), held_out(60, STRANGERS, STRANGER_SEED)
        return TestSpeech(plans, utter_all(plans), strangers, utter_all(strangers))

    def conditions(self) -> dict[str, tuple[list[Plan], list[Sound]]]:
        draw = np.random.default_rng(0)
        return {
            "clean": (self.plans, self.sounds),
            "telephone": (self.plans, [telephone(sound) for sound in self.sounds]),
            "noise at 20 dB": (self.plans, [_noisy(sound, 20, draw) for sound in self.sounds]),
            "voices not trained on": (self.strangers, self.stranger_sounds),
        }


def _noisy(sound: Sound, signal_to_noise_db: float, draw: np.random.Generator) -> Sound:
    noise = draw.standard_normal(len(sound)).astype(np.float32)
    return sound + noise * np.float32(np.sqrt(np.mean(sound**2)) * 10 ** (-signal_to_noise_db / 20))


def evaluate_streaming(folder: Path, speech: TestSpeech) -> Figures:
    heard, figures = Heard(folder), {}
    for name, (chunk, look_back) in STREAMED.items():

        def recognise(sound: Sound, chunk: Any = chunk, look_back: Any = look_back) -> list[str]:
            return heard.streamed(sound, chunk, look_back)

        for condition, (plans, sounds) in speech.conditions().items():
            if condition in ("clean", "telephone") or chunk == (0, 10, 5):
                figures[f"{condition}, {name}"] = error_rate(plans, sounds, recognise)
        if chunk in ((0, 10, 5), (5, 10, 5)):
            figures[f"session of {SESSION_MINUTES} min, reset at endpoints, {name}"] = _session(speech, recognise)
    return figures


def _session(speech: TestSpeech, recognise: Recognise) -> Figures:
    """Utterances back to back, cut in the middle of the pauses as an endpoint detector would, each with new state."""
    order = list(range(len(speech.plans))) * 2
    random.Random(0).shuffle(order)
    sound, starts = stream((speech.sounds[i] for i in order), SESSION_MINUTES * 60, SESSION_PAUSE_S)
    ends = [*(start - int(RATE_HZ * SESSION_PAUSE_S / 2) for start in starts[1:]), len(sound)]
    cuts = [sound[start:end] for start, end in zip([0, *ends[:-1]], ends, strict=True)]
    return error_rate([speech.plans[i] for i in order[: len(starts)]], cuts, recognise)


def evaluate_offline(folder: Path, speech: TestSpeech) -> Figures:
    heard = Heard(folder)
    figures = {
        condition: error_rate(plans, sounds, heard.call) for condition, (plans, sounds) in speech.conditions().items()
    }
    return figures | {"token times": _token_times(heard, speech), "hot words": _hot_words(heard, speech)}


def _token_times(heard: Heard, speech: TestSpeech) -> Figures:
    """How far the first token's start and the last one's end are from where the sound begins and ends."""
    first, last = [], []
    for plan, sound in zip(speech.plans, speech.sounds, strict=True):
        times = heard.model.generate(input=sound)[0].get("timestamp") or []
        audible = np.flatnonzero(np.abs(sound) > 0.004) * 1000 / RATE_HZ
        if len(times) and len(plan.segments) == 1:
            first.append(abs(times[0][0] - audible[0]))
            last.append(abs(times[-1][1] - audible[-1]))
    return {
        f"{name} {share} % within ms": round(float(np.percentile(values, share)))
        for name, values in (("start", first), ("end", last))
        for share in (50, 95)
    }


def _hot_words(heard: Heard, speech: TestSpeech) -> Figures:
    """Names in characters that only a hot word brings about: said ones found, and what the list spoils elsewhere."""
    plans = hot_word_plans()
    sounds = utter_all([plan for _, plan in plans])
    known = [hot_word(name, plan)["known"] for name, plan in plans]
    all_names = " ".join(known)
    with_list = ["".join(heard.call(sound, hotword=all_names)) for sound in sounds]
    without = ["".join(heard.call(sound)) for sound in sounds]
    heard_right = [hot_word(name, plan)["heard"] in text for (name, plan), text in zip(plans, without, strict=True)]

    def listening(sound: Sound) -> list[str]:
        return heard.call(sound, hotword=all_names)

    return {
        "names said": len(known),
        "sounds heard right without the list": sum(heard_right),
        "names written with the list": sum(name in text for name, text in zip(known, with_list, strict=True)),
        "names written without": sum(name in text for name, text in zip(known, without, strict=True)),
        "other utterances with the list": error_rate(speech.plans, speech.sounds, listening),
        "other utterances with an empty list": error_rate(
            speech.plans, speech.sounds, lambda sound: heard.call(sound, hotword="")
        ),
    }


def evaluate_sense_voice(folder: Path, speech: TestSpeech) -> Figures:
    heard, figures = Heard(folder), {}
    tags: list[bool] = []
    for style, use_figures in (("woitn", False), ("withitn", True)):

        def recognise(sound: Sound, use_figures: bool = use_figures) -> list[str]:
            tokens = heard.call(sound, language="auto", use_itn=use_figures)
            tags.append(len(tokens) >= 4 and tokens[0] in ("<|zh|>", "<|en|>") and tokens[2] == "<|Speech|>")
            return [token for token in tokens if not token.startswith("<|")]

        def spell(plan: Plan, use_figures: bool = use_figures) -> list[str]:
            pieces = sentence_pieces(plan.tokens)
            return in_figures(pieces) if use_figures else pieces

        for condition, (plans, sounds) in speech.conditions().items():
            figures[f"{condition}, {style}"] = error_rate(plans, sounds, recognise, spell)
    return figures | {"tags right percent": round(100 * sum(tags) / len(tags), 1)}


def evaluate_punctuation(folder: Path, count: int = 300, realtime: bool = False) -> Figures:
    """Marks of unseen dialogues, each of 60 words and more; in realtime spoken in pieces that end anywhere."""
    model, draw = load(folder), random.Random(31337)
    right = wrong = missed = words = exact = 0
    for _ in range(count):
        made = dialogue(draw)
        cache = {"cache": {}} if realtime else {}
        text = "".join(model.generate(input=piece, **cache)[0]["text"] for piece in _pieces(made, draw, realtime))
        found = marks_in(text, made.words)
        if realtime:
            found[-1] = made.marks[-1]  # FunASR keeps the last mark for a next piece
        for said, heard in zip(made.marks, found, strict=True):
            words += 1
            exact += said == heard
            right += said == heard != NONE
            wrong += heard not in (said, NONE)
            missed += said not in (heard, NONE)
    return {
        "words": words,
        "accuracy_percent": round(100 * exact / words, 2),
        "f1_percent": round(200 * right / (2 * right + wrong + missed), 2),
        "marks": " ".join(MARKS[mark] for mark in (COMMA, STOP, QUESTION, LISTED)),
    }


def _pieces(made: Dialogue, draw: random.Random, realtime: bool) -> list[str]:
    """The words as text, English ones apart; in realtime cut every 4 to 12 words."""
    pieces, rest = [], list(made.words)
    while rest:
        length = draw.randint(4, 12) if realtime else len(rest)
        pieces.append("".join(f" {word} " if word in ENGLISH else word for word in rest[:length]))
        rest = rest[length:]
    return pieces


def marks_in(text: str, words: Sequence[str]) -> list[int]:
    """The mark behind each word; FunASR writes marks behind English words as English does."""
    for ascii_mark, mark in zip(",.?", "，。？", strict=True):
        text = text.replace(ascii_mark, mark)
    text, marks = text.lower().replace(" ", ""), []
    for word in words:
        if not text.startswith(word):
            raise ValueError(f"{word} is not at the head of {text[:20]}")
        text = text.removeprefix(word)
        marks.append(MARKS.index(text[0]) if text and text[0] in MARKS[COMMA:] else NONE)
        text = text[marks[-1] != NONE :]
    return marks
