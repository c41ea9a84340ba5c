"""`python -m tiny_models STAGE` makes the models stage by stage, `all` everything; `speak` writes speech for them."""

import argparse
import json
import logging
import os
import shutil
from collections.abc import Callable
from pathlib import Path

from . import (
    card,
    corpus,
    evaluate,
    features,
    nano,
    paraformer_offline,
    paraformer_streaming,
    punctuation,
    sense_voice,
    test_data,
)
from . import export as onnx_export
from .training import Phase, Schedule

PROJECT = Path(__file__).parents[2]
# By name: utterances, mix, seed.
CORPORA = {"everyday": (5000, corpus.EVERYDAY, 1), "strings": (9000, corpus.STRINGS, 2)}

STREAMING = (
    Phase("everyday", Schedule(3000, planned_steps=6500)),
    Phase("strings", Schedule(3600, peak_rate=1.5e-3, seed=1)),
)
OFFLINE = (
    Phase("everyday", Schedule(2000, planned_steps=4000)),
    Phase("strings", Schedule(2600, peak_rate=1.5e-3, seed=1)),
    Phase("strings", Schedule(5000, peak_rate=1.5e-3, seed=2)),
)
HOT_WORDS = Phase("strings", Schedule(9000, peak_rate=1e-3))
SENSE_VOICE = (
    Phase("everyday", Schedule(4000, warm_up_steps=200)),
    Phase("strings", Schedule(2000, peak_rate=1.5e-3, warm_up_steps=200, seed=1)),
)
PUNCTUATION = Schedule(900, warm_up_steps=100, snapshot_steps=100)


def _trained(*phases: Phase) -> str:
    parts = [f"{p.schedule.steps} steps on the corpus `{p.corpus}` (seed {p.schedule.seed})" for p in phases]
    return f"{', then '.join(parts)}, on one thread of a CPU."


_RULES = f"{PUNCTUATION.steps} steps from seed {PUNCTUATION.seed}, on one thread of a CPU."
RECIPES = {
    "tiny-paraformer-streaming": _trained(*STREAMING),
    "tiny-paraformer": f"{_trained(*OFFLINE)} Hot words: {_trained(HOT_WORDS)}",
    "tiny-sensevoice": _trained(*SENSE_VOICE),
    "tiny-punc": _RULES,
    "tiny-punc-realtime": _RULES,
    "tiny-fun-asr-nano": "Drawn from seed 0.",
}


class Stages:
    """Every stage reads what the earlier ones wrote into `work`, and writes into `models` (or `tests`)."""

    def __init__(self, work: Path, models: Path, tests: Path) -> None:
        self.work, self.models, self.tests = work, models, tests

    def _place(self, name: str) -> Path:
        place = self.work / name
        shutil.rmtree(place, ignore_errors=True)
        place.mkdir(parents=True)
        return place

    def speech(self) -> None:
        held_out = {plan.text for plan in corpus.held_out()}
        for name, (count, mix, seed) in CORPORA.items():
            features.write(corpus.training(count, held_out, mix, seed), self._place(name))

    def streaming(self) -> None:
        folder = self.models / "tiny-paraformer-streaming"
        paraformer_streaming.make(self.work, self._place("streaming"), folder, STREAMING)

    def offline(self) -> None:
        folder = self.models / "tiny-paraformer"
        paraformer_offline.make(self.work, self._place("offline"), folder, OFFLINE, HOT_WORDS)

    def sensevoice(self) -> None:
        folder = self.models / "tiny-sensevoice"
        sense_voice.make(self.work, self._place("sensevoice"), folder, SENSE_VOICE)

    def punctuation(self) -> None:
        punctuation.make(False, self._place("punc"), self.models / "tiny-punc", PUNCTUATION)

    def punctuation_realtime(self) -> None:
        folder = self.models / "tiny-punc-realtime"
        punctuation.make(True, self._place("punc-realtime"), folder, PUNCTUATION)

    def nano(self) -> None:
        nano.make(self.models / "tiny-fun-asr-nano")

    def export(self) -> None:
        for name in RECIPES:
            folder = self.models / name
            if name != "tiny-fun-asr-nano":
                onnx_export.export(folder)
            if name == "tiny-paraformer-streaming":
                onnx_export.describe_for_sherpa(folder, paraformer_streaming.configuration())

    def evaluate(self) -> None:
        speech = evaluate.TestSpeech.make()
        figures = {
            "tiny-paraformer-streaming": lambda folder: evaluate.evaluate_streaming(folder, speech),
            "tiny-paraformer": lambda folder: evaluate.evaluate_offline(folder, speech),
            "tiny-sensevoice": lambda folder: evaluate.evaluate_sense_voice(folder, speech),
            "tiny-punc": evaluate.evaluate_punctuation,
            "tiny-punc-realtime": lambda folder: evaluate.evaluate_punctuation(folder, realtime=True),
        }
        for name, measure in figures.items():
            folder = self.models / name
            (folder / "figures.json").write_text(json.dumps(measure(folder), indent=2, ensure_ascii=False) + "\n")

    def cards(self) -> None:
        for name, recipe in RECIPES.items():
            card.write_card(self.models / name, recipe)
            card.write_sums(self.models / name)

    def test_data(self) -> None:
        test_data.write_committed(self.tests)

    def all(self) -> None:
        for stage in (
            self.speech, self.streaming, self.sensevoice, self.offline, self.punctuation, self.punctuation_realtime,
            self.nano, self.export, self.evaluate, self.cards, self.test_data,
        ):  # fmt: skip
            stage()


def _speak(chosen: argparse.Namespace) -> None:
    if chosen.minutes:
        test_data.write_stream(chosen.folder, chosen.minutes, chosen.seed)
    else:
        test_data.write_clips(chosen.folder, chosen.count, chosen.seed, chosen.telephone)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="tiny_models", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    for name in (name.replace("_", "-") for name in vars(Stages) if not name.startswith("_")):
        stage = commands.add_parser(name)
        stage.add_argument("--work", type=Path, default=PROJECT / "build/tiny-models", help="features, logs, snapshots")
        stage.add_argument("--models", type=Path, default=PROJECT / "src/streamscribe/models/bundled")
        stage.add_argument("--tests", type=Path, default=PROJECT / "src/streamscribe/models/bundled/tiny-recordings")
    speak = commands.add_parser("speak", help="speech that the models know, for benchmarks")
    speak.add_argument("folder", type=Path)
    speak.add_argument("--count", type=int, default=200, help="clips")
    speak.add_argument("--minutes", type=float, default=0, help="one stream of this length instead of clips")
    speak.add_argument("--seed", type=int, default=1000)
    speak.add_argument("--telephone", action="store_true", help="clips through 8 kHz mu-law")
    return parser.parse_args()


def main() -> None:
    chosen = _arguments()
    if chosen.command == "speak":
        _speak(chosen)
        return
    import torch

    torch.set_num_threads(int(os.environ.get("OMP_NUM_THREADS", "2")))
    logging.disable(logging.WARNING)
    stages = Stages(chosen.work, chosen.models, chosen.tests)
    run: Callable[[], None] = getattr(stages, chosen.command.replace("-", "_"))
    run()


if __name__ == "__main__":
    main()
