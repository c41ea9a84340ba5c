"""What it does to a model's errors to tell it what was said just before: Whisper's, or Fun-ASR-Nano's.

python tools/context_effect.py                   120 telephone prompts, one after the other
python tools/context_effect.py --manifest FILE   recordings of one's own (as of `bench accuracy`), each a session
python tools/context_effect.py --manifest FILE --piece-s 2.5   the same, cut at the quietest places
python tools/context_effect.py --nano DIR ...   Fun-ASR-Nano from a folder; needs the extra `funasr`
"""

import argparse
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import groupby
from pathlib import Path
from time import process_time

import numpy as np
import soundfile
import soxr

from streamscribe.bench.corpus import Utterance, read_manifest, telephone_prompts
from streamscribe.bench.text import corpus_error_rate, counts_characters
from streamscribe.core.audio import SAMPLE_RATE
from streamscribe.core.script import join
from streamscribe.models.encoder_decoder import EncoderDecoderRecognizer
from streamscribe.models.ports import Samples, SegmentRequest
from streamscribe.models.registry import open_verified
from streamscribe.models.whisper.model import WhisperModel
from streamscribe.settings import load
from streamscribe.text.script import Simplifier

QUIET_SAMPLES = SAMPLE_RATE // 10
CUT_SHARE = 0.6
"""A piece is cut between so much of its length and its end."""


def read(file: Path) -> Samples:
    """A recording at 16 kHz, its channels together."""
    samples, rate = soundfile.read(file, dtype="float32", always_2d=True)
    return np.asarray(soxr.resample(samples.mean(1), rate, SAMPLE_RATE), np.float32)


def pieces(samples: Samples, length: int) -> Iterator[Samples]:
    """Pieces of at most so many samples, cut where it is quietest."""
    at = 0
    while len(samples) - at > length:
        first = at + int(length * CUT_SHARE)
        power = np.convolve(samples[first : at + length] ** 2, np.ones(QUIET_SAMPLES), "valid")
        cut = first + int(power.argmin()) + QUIET_SAMPLES // 2
        yield samples[at:cut]
        at = cut
    yield samples[at:]


def texts(
    recognizer: EncoderDecoderRecognizer, session: Sequence[Samples], language: str | None, *, tell: bool
) -> list[str]:
    """The text of each segment of a session, told the one before or not."""
    said: list[str] = []
    before = ""
    for samples in session:
        request = SegmentRequest(samples, language=language, context=before if tell else "")
        heard = recognizer.recognize([request])[0]
        before = heard.text or before
        said.append(heard.text)
    return said


def recognizer_of(arguments: argparse.Namespace, models: Path) -> EncoderDecoderRecognizer:
    """Whisper, or Fun-ASR-Nano, on one thread."""
    if arguments.nano is None:
        return EncoderDecoderRecognizer(WhisperModel(open_verified("whisper-base", models), threads=1))
    from streamscribe.models.funasr_torch.nano import FunAsrNano

    files = {str(file.relative_to(arguments.nano)): file for file in arguments.nano.rglob("*") if file.is_file()}
    return EncoderDecoderRecognizer(FunAsrNano(files, threads=1))


@contextmanager
def corpus_of(arguments: argparse.Namespace, models: Path) -> Iterator[list[Utterance]]:
    with tempfile.TemporaryDirectory() as folder:
        if arguments.manifest is not None:
            yield read_manifest(arguments.manifest)
        else:
            yield telephone_prompts(models, arguments.prompts, Path(folder))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--manifest", type=Path)
    parser.add_argument("--nano", type=Path)
    parser.add_argument("--prompts", type=int, default=120)
    parser.add_argument("--piece-s", type=float, default=28.0)
    arguments = parser.parse_args()
    models = load().model.dir.expanduser()
    recognizer = recognizer_of(arguments, models)
    simplify = Simplifier().simplify
    with corpus_of(arguments, models) as corpus:
        length = int(arguments.piece_s * SAMPLE_RATE)
        cut = [(one, list(pieces(read(one.audio), length))) for one in corpus]
    if arguments.manifest is None:  # one session of all prompts
        sessions = [(None, [piece for _, parts in cut for piece in parts], [one for one, parts in cut for _ in parts])]
    else:
        sessions = [(one.language, parts, [one] * len(parts)) for one, parts in cut]
    untold: list[str] = []
    for tell in (False, True):
        began = process_time()
        every: list[str] = []
        rates: dict[str, list[tuple[str, str]]] = {"wer": [], "cer": []}
        for language, session, spoken in sessions:
            found = texts(recognizer, session, language or "en", tell=tell)
            every += found
            heard = zip(spoken, found, strict=True)
            for one, parts in groupby(heard, key=lambda pair: pair[0]):
                text = ""
                for _, part in parts:
                    text = join(text, simplify(part))
                rates["cer" if counts_characters(one.text) else "wer"].append((one.text, text))
        told = {
            name: f"{corpus_error_rate([said for said, _ in pairs], [text for _, text in pairs]):.2%}"
            for name, pairs in rates.items()
            if pairs
        }
        untold = untold or every
        changed = sum(one != other for one, other in zip(untold, every, strict=True))
        print("told" if tell else "not told", told, f"{process_time() - began:.0f} s of a core, {changed} changed")


if __name__ == "__main__":
    main()
