"""Plans the utterances: which words, which voice, how fast. Makes no sound; the same seed gives the same plan."""

import random
from collections.abc import Collection
from dataclasses import dataclass

from .vocabulary import CARRIERS, DIGITS, ENGLISH, PHRASES, SYLLABLES

# Variants of espeak-ng's voice. The models know the first group; the second measures how they fail on strangers.
VOICES = ("m1", "m2", "m3", "m4", "m5", "m6", "m7", "f1", "f2", "f3", "f4", "f5")
STRANGERS = ("m8", "adam", "linda")

HELD_OUT_SEED, STRANGER_SEED = 777, 999


@dataclass(frozen=True, slots=True)
class Segment:
    """Words said in one breath: the text, its tokens, the language and what the synthesiser is given to read."""

    text: str
    tokens: tuple[str, ...]
    language: str
    reading: str


@dataclass(frozen=True, slots=True)
class Plan:
    """One utterance; `seed` decides its pauses."""

    kind: str
    segments: tuple[Segment, ...]
    voice: str
    words_per_minute: int
    pitch: int
    seed: int

    @property
    def text(self) -> str:
        return " ".join(segment.text for segment in self.segments)

    @property
    def tokens(self) -> list[str]:
        return [token for segment in self.segments for token in segment.tokens]


def mandarin(text: str, syllables: Collection[str]) -> Segment:
    """A segment of one character per syllable."""
    return Segment(text, tuple(text), "zh", " ".join(syllables))


def digits(draw: random.Random, fewest: int, most: int) -> Segment:
    text = "".join(draw.choices(list(DIGITS), k=draw.randint(fewest, most)))
    return mandarin(text, [DIGITS[character] for character in text])


def phrase(draw: random.Random) -> Segment:
    text = draw.choice(list(PHRASES))
    return mandarin(text, PHRASES[text])


def english(draw: random.Random) -> Segment:
    word = draw.choice(list(ENGLISH))
    return Segment(word, ENGLISH[word], "en", word)


def string(draw: random.Random, fewest: int, most: int) -> Segment:
    """Syllables in any order: they teach the model to hear names, which no phrase foretells."""
    syllables = draw.choices(list(SYLLABLES), k=draw.randint(fewest, most))
    return mandarin("".join(SYLLABLES[syllable] for syllable in syllables), syllables)


def carried(draw: random.Random, name: Segment) -> Segment:
    """The name inside a carrier phrase."""
    carrier = draw.choice(list(CARRIERS))
    reading = " ".join(name.reading if syllable == "_" else syllable for syllable in CARRIERS[carrier])
    return mandarin(carrier.replace("_", name.text), reading.split())


@dataclass(frozen=True, slots=True)
class Mix:
    """How much of a corpus is strings in any order, alone or carried, and how long they may be."""

    string_share: float
    longest_string: int


EVERYDAY = Mix(string_share=0.22, longest_string=4)
STRINGS = Mix(string_share=0.55, longest_string=6)

# The rest of a corpus.
_KINDS = {
    "digits": 0.27, "phrase": 0.13, "phrase+digits": 0.09, "digits+phrase": 0.07, "phrase+phrase": 0.10,
    "string": 0.0, "carried": 0.0, "english": 0.04, "mixed": 0.06, "silence": 0.02,
}  # fmt: skip


def _kind(draw: random.Random, mix: Mix) -> str:
    others = sum(_KINDS.values())
    shares = {kind: share * (1 - mix.string_share) / others for kind, share in _KINDS.items()}
    shares["string"] = shares["carried"] = mix.string_share / 2
    choice = draw.random()
    for kind, share in shares.items():
        choice -= share
        if choice < 0:
            return kind
    return "silence"


def _segments(draw: random.Random, kind: str, mix: Mix) -> list[Segment]:
    match kind:
        case "digits":
            return [digits(draw, 3, 8)]
        case "phrase":
            return [phrase(draw)]
        case "phrase+digits":
            return [phrase(draw), digits(draw, 2, 6)]
        case "digits+phrase":
            return [digits(draw, 2, 5), phrase(draw)]
        case "phrase+phrase":
            return [phrase(draw), phrase(draw)]
        case "string":
            return [string(draw, 2, mix.longest_string) for _ in range(draw.choice((1, 1, 2)))]
        case "carried":
            return [carried(draw, string(draw, 2, mix.longest_string))]
        case "english":
            return [english(draw) for _ in range(draw.choice((1, 2)))]
        case "mixed":
            mixed = [phrase(draw) if draw.random() < 0.6 else digits(draw, 2, 4), english(draw)]
            draw.shuffle(mixed)
            return mixed
    return []


def _plan(draw: random.Random, voices: tuple[str, ...], mix: Mix) -> Plan:
    kind = _kind(draw, mix)
    segments = tuple(_segments(draw, kind, mix))
    return Plan(kind, segments, draw.choice(voices), draw.randint(120, 220), draw.randint(25, 75), draw.getrandbits(32))


def held_out(count: int = 200, voices: tuple[str, ...] = VOICES, seed: int = HELD_OUT_SEED) -> list[Plan]:
    """Utterances to measure on: no two of the same text, no silence."""
    draw, plans, seen = random.Random(seed), [], set()
    while len(plans) < count:
        plan = _plan(draw, voices, EVERYDAY)
        if plan.segments and plan.text not in seen:
            seen.add(plan.text)
            plans.append(plan)
    return plans


def training(count: int, without: Collection[str], mix: Mix, seed: int) -> list[Plan]:
    """Utterances to learn from, free of the texts in `without`.

    A single phrase or word cannot be left out, or the model would never hear it.
    """
    draw, plans = random.Random(seed), []
    while len(plans) < count:
        plan = _plan(draw, VOICES, mix)
        if plan.text in PHRASES or plan.text in ENGLISH or plan.text not in without:
            plans.append(plan)
    return plans
