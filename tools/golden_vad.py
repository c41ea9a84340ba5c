"""Writes what FunASR's own FSMN-VAD finds in recordings, as golden values for tests/models/test_fsmn_vad.py.

FunASR is not a dependency of this project, so run it in an environment of its own:

    python3.11 -m venv /tmp/funasr && /tmp/funasr/bin/pip install torch==2.13.0
    /tmp/funasr/bin/pip install funasr==1.4.16 kaldi-native-fbank av
    streamscribe models pull fsmn-vad telephone-prompts demo-recordings
    /tmp/funasr/bin/python tools/golden_vad.py --model DIR --out tests/golden/fsmn_vad.json \
        shared=FOLDER telephone-prompts=FOLDER demo-recordings=FOLDER

DIR holds FunASR's `model.pt` beside the `am.mvn` and `config.yaml` that the catalogue pins (all three lie in one
folder of the wheel that the catalogue names). A FOLDER is searched for recordings; every third telephone prompt is
taken. Segments of a streamed run (200 ms at a time) are kept, and `offline` beside them where a run over the whole
file says something else.
"""

import argparse
import hashlib
import json
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

SAMPLE_RATE = 16_000
CHUNK_MS = 200
SUFFIXES = (".wav", ".mp3", ".g722")
SILENCES_MS = (800, 300, 500)
NEVER_MS = 24 * 3600 * 1000
"""FunASR would cut voice after a minute; the platform cuts it elsewhere."""

Pcm = npt.NDArray[np.int16]
Segments = list[list[int]]


def read_channels(file: Path) -> list[Pcm]:
    """The channels of a recording as 16 kHz PCM; exact for 16 kHz WAV and G.722, resampled for the rest."""
    if file.suffix == ".g722":
        import av

        with av.open(str(file), format="g722") as container:
            return [np.concatenate([frame.to_ndarray()[0] for frame in container.decode(audio=0)])]
    import soundfile
    import soxr

    samples, rate = soundfile.read(file, dtype="float32", always_2d=True)
    resampled = samples if rate == SAMPLE_RATE else soxr.resample(samples, rate, SAMPLE_RATE)
    pcm = np.clip(np.round(resampled * 32768), -32768, 32767).astype(np.int16)
    return [np.ascontiguousarray(channel) for channel in pcm.T]


def chosen(set_name: str, folder: Path) -> list[Path]:
    """The recordings of a set that have golden values."""
    files = sorted(file for file in folder.rglob("*") if file.suffix in SUFFIXES)
    return files[::3] if set_name == "telephone-prompts" else files


def offline_segments(model: Any, pcm: Pcm, silence_ms: int) -> Segments:
    """What FunASR finds in the whole file."""
    result = model.generate(
        input=pcm.astype(np.float32) / 32768,
        cache={},
        disable_pbar=True,
        dynamic_silence=False,
        max_end_silence_time=silence_ms,
    )
    return [list(segment) for segment in result[0]["value"]]


def streamed_segments(model: Any, pcm: Pcm, silence_ms: int) -> Segments:
    """What FunASR finds when the file is fed piece by piece; an end that it never tells is -1."""
    stride = SAMPLE_RATE * CHUNK_MS // 1000
    # FunASR ends a stream only with samples in its last piece, so a whole last piece is cut in two.
    cuts = list(range(0, len(pcm), stride))
    cuts += [len(pcm) - stride // 2] if len(pcm) % stride == 0 else []
    cache: dict[str, Any] = {}
    segments: Segments = []
    for start, stop in zip(cuts, [*cuts[1:], len(pcm)], strict=True):
        result = model.generate(
            input=pcm[start:stop].astype(np.float32) / 32768,
            cache=cache,
            is_final=stop == len(pcm),
            chunk_size=CHUNK_MS,
            disable_pbar=True,
            dynamic_silence=False,
            max_end_silence_time=silence_ms,
        )
        for begin, end in result[0]["value"]:
            if begin != -1:
                segments.append([begin, end])
            else:
                segments[-1][1] = end
    return segments


def golden(model: Any, set_name: str, folder: Path, file: Path) -> list[dict[str, Any]]:
    """The golden entries of a recording, one a channel."""
    entries = []
    for channel, pcm in enumerate(read_channels(file)):
        cases = []
        for silence_ms in SILENCES_MS:
            streamed = streamed_segments(model, pcm, silence_ms)
            whole = offline_segments(model, pcm, silence_ms)
            differs = {} if whole == streamed else {"offline": whole}
            cases.append({"silence_ms": silence_ms, "segments": streamed, **differs})
        entries.append(
            {
                "set": set_name,
                "file": file.relative_to(folder).as_posix(),
                "channel": channel,
                "pcm_sha256": hashlib.sha256(pcm.tobytes()).hexdigest(),
                "cases": cases,
            }
        )
    return entries


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("sets", nargs="+", metavar="SET=FOLDER")
    arguments = parser.parse_args()

    import funasr

    model = funasr.AutoModel(model=str(arguments.model), disable_update=True, device="cpu", disable_pbar=True)
    model.model.vad_opts.max_single_segment_time = NEVER_MS
    entries = []
    for pair in arguments.sets:
        set_name, _, folder = pair.partition("=")
        for file in chosen(set_name, Path(folder)):
            entries += golden(model, set_name, Path(folder), file)
            print(set_name, file.name, entries[-1]["cases"])
    lines = ",\n".join(json.dumps(entry, ensure_ascii=False) for entry in entries)
    arguments.out.parent.mkdir(parents=True, exist_ok=True)
    arguments.out.write_text(f'{{"funasr": "{funasr.__version__}", "recordings": [\n{lines}\n]}}\n', encoding="utf-8")


if __name__ == "__main__":
    main()
