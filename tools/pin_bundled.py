"""Writes the catalogue's entries of the models that come with the package: their files, sizes and sums.

python tools/pin_bundled.py            # after tools/tiny_models has made them
python tools/pin_bundled.py --check    # exits 1 where the catalogue is not what the files are
"""

import hashlib
import sys
from pathlib import Path

MODELS = Path(__file__).parents[1] / "src/streamscribe/models"
CATALOGUE = MODELS / "catalogue.toml"
BEGIN = "# Models and recordings that are part of the package, written by tools/pin_bundled.py.\n"

ENTRIES = {
    "tiny-paraformer-streaming": ("paraformer", "asr", '"zh", "en"', 120, '"tiny"'),
    "tiny-paraformer": ("paraformer", "asr", '"zh", "en"', 200, '"tiny"'),
    "tiny-sensevoice": ("sense-voice", "asr", '"zh", "en"', 200, ""),
    "tiny-punc": ("ct-transformer", "punctuation", '"zh", "en"', 0, '"tiny"'),
    "tiny-punc-realtime": ("ct-transformer", "punctuation", '"zh", "en"', 0, ""),
    "tiny-fun-asr-nano": ("fun-asr-nano", "asr", '"zh", "en"', 300, ""),
    "tiny-recordings": ("espeak-ng", "recordings", '"zh", "en"', 0, '"tiny"'),
}
"""Family, task, languages, tail padding in milliseconds (random weights have what the unmeasured have), profiles."""


def entry(model_id: str) -> str:
    family, task, languages, tail_padding_ms, profiles = ENTRIES[model_id]
    folder = MODELS / "bundled" / model_id
    lines = [
        "[[models]]",
        f'id = "{model_id}"',
        f'family = "{family}"',
        f'task = "{task}"',
        f"languages = [{languages}]",
        'licence = "Apache-2.0"',
        "bundled = true",
        *([f"tail_padding_ms = {tail_padding_ms}"] if tail_padding_ms else []),
        *([f"profiles = [{profiles}]"] if profiles else []),
        "files = [",
    ]
    for file in sorted(path for path in folder.rglob("*") if path.is_file()):
        digest = hashlib.sha256(file.read_bytes()).hexdigest()
        name = file.relative_to(folder).as_posix()
        lines.append(f'  {{ name = "{name}", size_bytes = {file.stat().st_size}, sha256 = "{digest}" }},')
    return "\n".join([*lines, "]"])


def main() -> None:
    before = CATALOGUE.read_text(encoding="utf-8")
    kept = before.partition(BEGIN)[0].rstrip()
    after = f"{kept}\n\n{BEGIN}\n" + "\n\n".join(map(entry, ENTRIES)) + "\n"
    if sys.argv[1:] == ["--check"]:
        if before != after:
            sys.exit("the catalogue's entries of bundled models are stale: run python tools/pin_bundled.py")
    else:
        CATALOGUE.write_text(after, encoding="utf-8")


if __name__ == "__main__":
    main()
