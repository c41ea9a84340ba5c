"""Measures how much audio Whisper's encoder must be given, for docs/experiments/whisper-frames.md.

    streamscribe models pull whisper-base telephone-prompts
    python tools/whisper_windows.py [--manifest FILE] [--every N]

`full` encodes 30 s, `short` the audio and three seconds of silence, `joined` puts the encoding of silence behind the
short one, and `engine` (what runs) listens to unsure finals again in a full window. Each with beam 5 (finals) and
greedy (drafts), over every telephone prompt of the catalogue (every Nth) and over a manifest's recordings (as for
`streamscribe bench accuracy`). `astray` counts decodes that looped or did not end, before the engine repaired them.
"""

import argparse
import tempfile
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import ctranslate2
import jiwer
import numpy as np
import soundfile

from streamscribe.bench.corpus import Utterance, read_manifest, telephone_prompts
from streamscribe.bench.text import counts_characters, normalise
from streamscribe.models.encoder_decoder import decode_request
from streamscribe.models.guards import is_silent
from streamscribe.models.ports import DecodeRequest, LookAgain, SegmentRequest, Window
from streamscribe.models.registry import open_verified
from streamscribe.models.warm_up import SHORT
from streamscribe.models.warm_up import noise as warm_up_noise
from streamscribe.models.whisper.model import Look, WhisperModel
from streamscribe.settings import load
from streamscribe.text.script import Simplifier


class Joined(WhisperModel):
    """The engine, counting what goes astray and what it listens to again."""

    astray = again = 0

    def _repair(self, jobs):
        self.astray += len(jobs)
        super()._repair(jobs)

    def decode(self, batch):
        answers = super().decode(batch)
        self.again += sum(isinstance(answer, LookAgain) for answer in answers)
        return answers


class Once(Joined):
    def decode(self, batch):
        return super().decode([replace(request, looked=Look("", (), ())) for request in batch])


class Full(Once):
    def features(self, samples, frames=None, window=Window.FULL):
        return super().features(samples, frames, Window.FULL)


class Short(Once):
    def _padded(self, jobs):
        return ctranslate2.StorageView.from_array(np.stack([job.request.embedding for job in jobs]))


ENGINES = {"engine": Joined, "joined": Once, "full": Full, "short": Short}
MAX_S = 28


def measured(engine: Joined, name: str, utterances: Sequence[Utterance], *, draft: bool) -> None:
    engine.astray = engine.again = 0
    encode_s = decode_s = audio_s = 0.0
    heard = []
    for utterance in utterances:
        samples, _ = soundfile.read(utterance.audio, dtype="float32")
        request = SegmentRequest(samples, language=utterance.language, draft=draft)
        answer = LookAgain(Window.SHORT, None)
        while isinstance(answer, LookAgain):
            began = time.perf_counter()
            encoded = engine.encode([engine.features(samples, None, answer.window)])
            encoded_at = time.perf_counter()
            asked = decode_request(request, encoded[0], silent=is_silent(samples), looked=answer.state)
            answer = engine.decode([asked])[0]
            encode_s += encoded_at - began
            decode_s += time.perf_counter() - encoded_at
        heard.append(answer.text)
        audio_s += len(samples) / 16_000
    characters = counts_characters(utterances[0].text)
    simplify = Simplifier().simplify if characters else str
    counts = jiwer.process_words(
        [normalise(utterance.text, characters=characters) for utterance in utterances],
        [normalise(simplify(text), characters=characters) for text in heard],
    )
    errors = f"{counts.substitutions} + {counts.deletions} + {counts.insertions}"
    search = "greedy" if draft else "beam 5"
    print(
        f"| {name} | {search} | {len(utterances)} {utterances[0].language} | {100 * counts.wer:.2f} % | {errors} | "
        f"{engine.astray} | {engine.again} | {encode_s:.1f} | {decode_s:.1f} | {audio_s:.0f} |",
        flush=True,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--manifest", type=Path)
    parser.add_argument("--every", type=int, default=1)
    parser.add_argument("--windows", default="engine,joined,full,short")
    arguments = parser.parse_args()
    model_dir = load().model.dir.expanduser()
    files = open_verified("whisper-base", model_dir)
    count = sum(name.endswith(".g722") for name in open_verified("telephone-prompts", model_dir))
    with tempfile.TemporaryDirectory() as folder:
        prompts = telephone_prompts(model_dir, count, Path(folder))[:: arguments.every]
        sets = [[one for one in prompts if soundfile.info(one.audio).duration <= MAX_S]]
        if arguments.manifest:
            extra = read_manifest(arguments.manifest)
            sets += [[one for one in extra if counts_characters(one.text) is han] for han in (False, True)]
        print("| window | search | recordings | error rate | errors | astray | again | encode s | decode s | audio s |")
        print("|---|---|---|---|---|---|---|---|---|---|")
        for name in arguments.windows.split(","):
            engine = ENGINES[name](files, threads=2)
            noise = warm_up_noise(SHORT)
            engine.decode([DecodeRequest(engine.encode([engine.features(noise)])[0], len(noise))])
            for utterances in filter(None, sets):
                for draft in (False, True):
                    measured(engine, name, utterances, draft=draft)


if __name__ == "__main__":
    main()
