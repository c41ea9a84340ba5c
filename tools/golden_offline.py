"""Writes what FunASR's own models make of the tiny test speech, as golden values for tests/models.

FunASR is not a dependency of this project, so run it in an environment of its own:

    python3.11 -m venv /tmp/funasr && /tmp/funasr/bin/pip install torch==2.13.0
    /tmp/funasr/bin/pip install funasr==1.4.16 kaldi-native-fbank
    /tmp/funasr/bin/python tools/golden_offline.py

It reads the models and the recordings of src/streamscribe/models/bundled, and writes tests/golden/offline.json. Each
recording is heard alone, for FunASR's batches change what is heard.
"""

import argparse
import json
import random
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import soundfile

PROJECT = Path(__file__).parents[1]
SEED = 7

Golden = dict[str, Any]


def load(folder: Path) -> Any:
    from funasr import AutoModel

    return AutoModel(model=str(folder), device="cpu", disable_update=True, disable_pbar=True)


def read(file: Path) -> np.ndarray:
    samples, _ = soundfile.read(file, dtype="float32")
    return samples


def heard_by_paraformer(model: Any, audio: Path, names: list[dict[str, str]], files: list[str]) -> Golden:
    """Text and times without hot words, and the text with a name as the only one, and with all of them."""
    every = " ".join(entry["known"] for entry in names)
    plain = {}
    for file in files:
        result = model.generate(input=read(audio / file))[0]
        plain[file] = {"text": result["text"], "times_ms": result.get("timestamp", [])}
    named = {}
    for entry in names:
        samples = read(audio / entry["file"])
        named[entry["file"]] = {
            "hotword": entry["known"],
            "text": model.generate(input=samples, hotword=entry["known"])[0]["text"],
            "text_of_all": model.generate(input=samples, hotword=every)[0]["text"],
        }
    return {"plain": plain, "named": named}


def heard_by_sense_voice(model: Any, audio: Path, files: list[str]) -> Golden:
    """Text with its tags, without and with ITN, and the words' times without."""
    heard = {}
    for file in files:
        samples = read(audio / file)
        with pieces_of(model):
            result = model.generate(input=samples, output_timestamp=True)[0]
        heard[file] = {
            "text": result["text"],
            "text_with_itn": model.generate(input=samples, use_itn=True)[0]["text"],
            "words": result.get("words", []),
            "times_ms": result.get("timestamp", []),
        }
    return heard


@contextmanager
def pieces_of(model: Any) -> Iterator[None]:
    """Lets the tokenizer cut a text into the vocabulary's pieces, as the real model's does; CharTokenizer does not.

    FunASR's alignment cuts the text that was heard into tokens again.
    """
    tokenizer = model.kwargs["tokenizer"]
    ids = {token: [index] for index, token in enumerate(tokenizer.token_list)}
    pattern = re.compile("|".join(map(re.escape, sorted(ids, key=len, reverse=True))))
    kind = type(tokenizer)  # FunASR copies the tokenizer for each call
    with (
        patch.object(kind, "text2tokens", lambda self, text: pattern.findall(text)),
        patch.object(kind, "tokens2ids", lambda self, tokens: [ids[token] for token in tokens]),
    ):
        yield


def dialogues(texts: list[str]) -> list[str]:
    """The texts strung together, some with spaces between, up to several windows of the punctuation model."""
    draw = random.Random(SEED)
    made = []
    for _ in range(40):
        parts = draw.choices(texts, k=draw.randint(2, 20))
        made.append(
            "".join(part + (" " if part[-1].isascii() or draw.random() < 0.2 else "") for part in parts).strip()
        )
    return [*made, "一二三四五六七八九" * 50]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--models", type=Path, default=PROJECT / "src/streamscribe/models/bundled")
    parser.add_argument("--audio", type=Path, default=PROJECT / "src/streamscribe/models/bundled/tiny-recordings")
    parser.add_argument("--out", type=Path, default=PROJECT / "tests/golden/offline.json")
    chosen = parser.parse_args()
    manifest = json.loads((chosen.audio / "manifest.json").read_text())
    names = json.loads((chosen.audio / "hotwords.json").read_text())
    files = [entry["file"] for entry in manifest]
    texts = dialogues([entry["text"] for entry in manifest])
    golden = {
        "paraformer": heard_by_paraformer(load(chosen.models / "tiny-paraformer"), chosen.audio, names, files),
        "sense_voice": heard_by_sense_voice(load(chosen.models / "tiny-sensevoice"), chosen.audio, files),
    }
    for name, cache in (("tiny-punc", {}), ("tiny-punc-realtime", {"cache": {}})):
        model = load(chosen.models / name)
        golden[name] = {
            text: model.generate(input=text, **{key: dict(value) for key, value in cache.items()})[0]["text"]
            for text in texts
        }
    lines = ",\n".join(f"{json.dumps(name)}: {json.dumps(value, ensure_ascii=False)}" for name, value in golden.items())
    chosen.out.write_text(f"{{\n{lines}\n}}\n")


if __name__ == "__main__":
    main()
