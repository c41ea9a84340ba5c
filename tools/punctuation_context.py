"""What it does to marks to let a punctuator read on from the sentence that nothing has closed.

PYTHONPATH=tools python tools/punctuation_context.py --dialogues 400     what the small models know; needs PyTorch
python tools/punctuation_context.py --texts FILE --model DIR             texts of one's own, punctuated, one a line

Each text is cut into segments, as a speaker pauses: behind sentences, behind marks, or behind any word. A segment's
marks are found alone, or behind what the one before left unfinished (`worker.finish`). Counted are the marks inside
segments, where they and their places must be right (F1), and those at their ends.
"""

import argparse
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path

from streamscribe.core.tokens import Mark
from streamscribe.models.ct_transformer import OnnxPunctuator, OnnxRealtimePunctuator
from streamscribe.text.punctuation import unfinished

BUNDLED = Path(__file__).parents[1] / "src/streamscribe/models/bundled"
WRITTEN = {",": "，", ".": "。", "?": "？"}
MARKS = "，。？、"
PLACES = {"behind sentences": "。？", "behind marks": MARKS, "anywhere": None}
"""Behind which marks a text is cut; None: behind any word."""


@dataclass(frozen=True)
class Spoken:
    """Words, and the mark behind each, if any."""

    words: list[str]
    marks: list[str]


def dialogues(count: int) -> Iterator[Spoken]:
    from tiny_models.punctuation import MARKS as NAMES
    from tiny_models.punctuation import NONE, dialogue

    draw = random.Random(2026)
    for _ in range(count):
        made = dialogue(draw)
        yield Spoken(made.words, ["" if mark == NONE else NAMES[mark] for mark in made.marks])


def texts(file: Path) -> Iterator[Spoken]:
    for line in file.read_text(encoding="utf-8").splitlines():
        spoken = Spoken([], [])
        for char in line.strip():
            char = WRITTEN.get(char, char)
            if char in MARKS and spoken.words:
                spoken.marks[-1] = char
            elif char.isascii() and char.isalnum() and spoken.words and spoken.words[-1][-1:].isascii():
                spoken.words[-1] += char
            elif char.isalnum():
                spoken.words.append(char)
                spoken.marks.append("")
            elif char.isspace() and spoken.words:
                spoken.words[-1] += " "
        if spoken.words:
            yield Spoken([word.strip() for word in spoken.words], spoken.marks)


def segments(spoken: Spoken, draw: random.Random, mean_words: int, behind: str | None) -> list[int]:
    """Where segments end, as counts of words: at places drawn so that segments have `mean_words`, if they can."""
    size = len(spoken.words)
    places = [
        at for at in range(1, size) if behind is None or (spoken.marks[at - 1] and spoken.marks[at - 1] in behind)
    ]
    chance = min(1.0, (size / mean_words - 1) / max(1, len(places)))
    return [*(at for at in places if draw.random() < chance), size]


def found(punctuator: OnnxPunctuator, parts: Sequence[Sequence[str]], *, carry: bool) -> list[list[str]]:
    """The mark behind each word of each part; as the worker finds them."""
    told: list[list[str]] = []
    before = ""
    for words in parts:
        text = _joined(words)
        whole = f"{before} {text}" if before and carry else text
        [marks] = punctuator.punctuate([whole])
        begin = len(whole) - len(text)
        marked = {mark.at - begin: _mark(mark, carry=carry) for mark in marks if mark.at > begin}
        told.append([marked.get(at, "") for at in _ends(words)])
        before = unfinished(whole, marks)
    return told


def _mark(mark: Mark, *, carry: bool) -> str:
    text = mark.if_open if carry and mark.if_open is not None else mark.text
    return WRITTEN.get(text, text)


def _joined(words: Sequence[str]) -> str:
    return " ".join(words)


def _ends(words: Sequence[str]) -> list[int]:
    return list(accumulate((len(word) + 1 for word in words), initial=-1))[1:]


def measure(punctuator: OnnxPunctuator, corpus: Sequence[Spoken], mean_words: int, place: str) -> None:
    draw = random.Random(mean_words)
    cuts = [segments(spoken, draw, mean_words, PLACES[place]) for spoken in corpus]
    for carry in (False, True):
        right = wrong = missed = ends_right = ends = 0
        for spoken, to in zip(corpus, cuts, strict=True):
            spans = list(zip([0, *to[:-1]], to, strict=True))
            told = found(punctuator, [spoken.words[begin:end] for begin, end in spans], carry=carry)
            for (begin, end), marks in zip(spans, told, strict=True):
                pairs = list(zip(spoken.marks[begin:end], marks, strict=True))
                right += sum(bool(said) and said == heard for said, heard in pairs[:-1])
                wrong += sum(bool(heard) and said != heard for said, heard in pairs[:-1])
                missed += sum(bool(said) and said != heard for said, heard in pairs[:-1])
                if end < len(spoken.words):  # where the text itself ends there is nothing to say
                    ends += 1
                    ends_right += pairs[-1][0] == pairs[-1][1]
        f1 = 2 * right / (2 * right + wrong + missed)
        print(
            f"{place:16} {mean_words:3} words {'carried' if carry else 'alone':7} inside: F1 {f1:.2%} "
            f"({wrong} wrong, {missed} missed of {right + missed})  at ends: {ends_right / max(1, ends):.2%} of {ends}"
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--dialogues", type=int, default=400)
    parser.add_argument("--texts", type=Path)
    parser.add_argument("--model", type=Path)
    parser.add_argument("--realtime", action="store_true")
    arguments = parser.parse_args()
    name = "tiny-punc-realtime" if arguments.realtime else "tiny-punc"
    folder = arguments.model or BUNDLED / name
    files = {file.name: file for file in folder.iterdir() if file.is_file()}
    punctuator = (OnnxRealtimePunctuator if arguments.realtime else OnnxPunctuator)(files)
    corpus = list(dialogues(arguments.dialogues) if arguments.texts is None else texts(arguments.texts))
    for place in PLACES:
        for mean_words in (5, 10, 20):
            measure(punctuator, corpus, mean_words, place)


if __name__ == "__main__":
    main()
