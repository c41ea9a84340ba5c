"""Writes each model's card (README.md, from figures.json) and SHA256SUMS."""

import hashlib
import json
from pathlib import Path
from typing import Any

from .corpus import VOICES

ABOUT = {
    "tiny-paraformer-streaming": (
        "Streaming Paraformer (`ParaformerStreaming`), 4 encoder and 2 decoder layers, width 128, chunks of 300, 600 "
        "and 1200 ms. `model.onnx` and `decoder.onnx` are FunASR's export; the metadata in `model.onnx` and "
        "`tokens.txt` let sherpa-onnx serve them too."
    ),
    "tiny-paraformer": (
        "Offline Paraformer with token times and hot words (`SeacoParaformer`, the class of `paraformer-zh`), 4 "
        "encoder and 2 decoder layers, width 96. `model.onnx` and `model_eb.onnx` (hot words) are FunASR's export."
    ),
    "tiny-sensevoice": (
        "`SenseVoiceSmall` with tags for language, emotion and event and both styles of numbers, 4 + 1 encoder layers, "
        "width 128."
    ),
    "tiny-punc": "CT-Transformer punctuation (`CTTransformer`), 3 layers, width 64; marks ，。？、.",
    "tiny-punc-realtime": (
        "CT-Transformer punctuation for text that is still being spoken (`CTTransformerStreaming`), 3 layers, width "
        "64; marks ，。？、. The batch axis of `model.onnx` is free, unlike in FunASR's own export."
    ),
    "tiny-fun-asr-nano": (
        "Fun-ASR-Nano (`FunASRNano`) with tiny dimensions and **random weights**: it writes nonsense, always the same. "
        "The folder is FunASR's layout; `hf` holds the same numbers in transformers' own."
    ),
}

SPEECH = f"""\
## Data

Synthetic speech only: espeak-ng, twelve variants of its voice ({", ".join(VOICES)}), 120 to 220 words a minute, pitch
25 to 75; Mandarin with the voice `cmn-latn-pinyin`, English with `en-us`. Ten digits, forty-one service phrases, eight
English words, and strings of syllables of the vocabulary in any order, alone or in carrier phrases: in a fifth of the
5000 utterances of the corpus `everyday`, in half of the 9000 of `strings`. Three copies each: level -15 to +4 dB, white
or pink noise at 12 to 40 dB, one copy through a telephone (8 kHz, mu-law). No recording of a person was used.

## Limits

A stand-in for tests and demonstrations. It knows the words above and these voices; real people, other voices and other
words are out of its reach.
"""

WORDS_ONLY = """\
## Data

Dialogues made by rule from the vocabulary of the recognisers (openings, complaints, requests, questions, lists,
numbers, names), two words of a hundred unknown. No text of a person was used.

## Limits

A stand-in for tests and demonstrations: it knows these sentences only.
"""


RATES = ("token_error", "words", "strings", "strings_without_tone")


def rows(figures: dict[str, Any]) -> str:
    """The figures as tables: one for token errors, one for the rest."""
    errors = {name: value for name, value in figures.items() if isinstance(value, dict) and "tokens" in value}
    others = {name: value for name, value in figures.items() if name not in errors}
    lines = []
    if errors:
        lines += [
            "Token error rates in percent: of all utterances, of those of known words, of those with syllables in any "
            "order, and of these without regard to tone, which some of espeak-ng's voices hardly make heard.",
            "",
            "| condition | all | words | strings | strings, toneless | utterances without error | tokens |",
            "|---|---|---|---|---|---|---|",
        ]
        for name, value in errors.items():
            rates = " | ".join(str(value[f"{part}_percent"]) for part in RATES)
            share = f"{value['without_error']} of {value['utterances']}"
            lines.append(f"| {name} | {rates} | {share} | {value['tokens']} |")
        lines.append("")
    if others:
        lines += ["| | |", "|---|---|"]
        for name, value in others.items():
            for part, figure in value.items() if isinstance(value, dict) else ((None, value),):
                shown = f"{figure['token_error_percent']} % token error" if isinstance(figure, dict) else figure
                lines.append(f"| {name}{f', {part}' if part else ''} | {shown} |")
        lines.append("")
    return "\n".join(lines)


def write_card(folder: Path, recipe: str) -> None:
    """`recipe` says how long and from which seed it was trained."""
    name, figures = folder.name, folder / "figures.json"
    data = "" if name == "tiny-fun-asr-nano" else WORDS_ONLY if "punc" in name else SPEECH
    parts = [f"# {name}\n", f"{ABOUT[name]}\n"]
    if figures.exists():
        parts += ["## Figures\n", "FunASR 1.4 on a CPU, held-out utterances.\n", rows(json.loads(figures.read_text()))]
    parts += [data] if data else []
    parts += [
        f"## Making it again\n\n{recipe} `make tiny-models` makes all of them; see tools/tiny_models/README.md.\n"
    ]
    if (folder / "model.onnx").exists():
        parts += [
            "Weights are 16-bit floats, widened when loaded; `model.pt` and the ONNX graphs hold the same numbers.\n"
        ]
    parts += ["Licence: Apache-2.0, as the project. FunASR, whose classes load it, is under the MIT licence.\n"]
    (folder / "README.md").write_text("\n".join(parts))


def write_sums(folder: Path) -> None:
    files = sorted(path for path in folder.rglob("*") if path.is_file() and path.name != "SHA256SUMS")
    sums = {path.relative_to(folder).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}
    (folder / "SHA256SUMS").write_text("".join(f"{digest}  {name}\n" for name, digest in sums.items()))
