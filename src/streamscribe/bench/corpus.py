"""What accuracy is measured on: a manifest of one's own, or telephone prompts by a fixed rule."""

import gzip
import wave
from dataclasses import dataclass
from pathlib import Path

import msgspec

from streamscribe.core.audio import SAMPLE_RATE
from streamscribe.core.errors import BadRequest
from streamscribe.models.registry import open_verified

PROMPT_TEXTS = "core-sounds-en.txt.gz"


@dataclass(frozen=True, slots=True)
class Utterance:
    """A recording (a file that the service accepts) and what is said in it; `language` None lets the model tell."""

    audio: Path
    text: str
    language: str | None = None


class _Line(msgspec.Struct, forbid_unknown_fields=True):
    audio: str
    text: str
    language: str | None = None


def read_manifest(file: Path) -> list[Utterance]:
    """One utterance a line of JSON: `audio` (path, relative to the file), `text`, `language`. Raises BadRequest."""
    utterances = []
    try:
        lines = file.read_text(encoding="utf-8").splitlines()
    except OSError as error:
        raise BadRequest(f"{file}: {error.strerror}", field="manifest") from None
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            entry = msgspec.json.decode(line, type=_Line)
        except msgspec.DecodeError as error:
            raise BadRequest(f"{file}, line {number}: {error}", field="manifest") from None
        audio = file.parent / entry.audio
        if not audio.is_file():
            raise BadRequest(f"{file}, line {number}: {entry.audio}: no such file", field="manifest")
        utterances.append(Utterance(audio.absolute(), entry.text, entry.language))
    if not utterances:
        raise BadRequest(f"{file}: no utterances", field="manifest")
    return utterances


def telephone_prompts(model_dir: Path, count: int, folder: Path) -> list[Utterance]:
    """`count` prompts at even steps through the catalogue's, in the order of their names, as WAV files in `folder`.

    The catalogue holds every prompt of the package of six words or more whose text has no stage directions.
    """
    files = open_verified("telephone-prompts", model_dir)
    with gzip.open(files[PROMPT_TEXTS], "rt", encoding="utf-8") as lines:
        said = dict(line.rstrip().split(": ", 1) for line in lines if ": " in line and not line.startswith(";"))
    names = sorted(name.removesuffix(".g722") for name in files if name.endswith(".g722"))
    count = min(count, len(names))
    chosen = [names[at * len(names) // count] for at in range(count)]
    return [Utterance(_as_wav(files[f"{name}.g722"], folder / f"{name}.wav"), said[name], "en") for name in chosen]


def _as_wav(source: Path, target: Path) -> Path:
    """G.722 is no format that clients upload: decoded here."""
    import av

    target.parent.mkdir(parents=True, exist_ok=True)
    with av.open(str(source), format="g722") as container, wave.open(str(target), "wb") as wav:
        wav.setparams((1, 2, SAMPLE_RATE, 0, "NONE", ""))
        resampler = av.AudioResampler(format="s16", layout="mono", rate=SAMPLE_RATE)
        for frame in container.decode(audio=0):
            for part in resampler.resample(frame):
                wav.writeframes(part.to_ndarray().tobytes())
    return target
