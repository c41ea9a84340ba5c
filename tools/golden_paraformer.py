"""Writes what FunASR's own streaming hears in the test clips: tests/golden/paraformer_{streaming.json,features.npz}.

Needs torch and funasr in the environment: `python tools/golden_paraformer.py`. The chunks are those of FunASR's own
ONNX runtime, [5, n, 5] without look-back.
"""

import json
from importlib.metadata import version
from pathlib import Path

import numpy as np

ROOT = Path(__file__).parents[1]
MODEL = ROOT / "src/streamscribe/models/bundled/tiny-paraformer-streaming"
CLIPS = ROOT / "src/streamscribe/models/bundled/tiny-recordings"
GOLDEN = ROOT / "tests/golden"
CHUNKS_MS = (300, 600, 1200)
LAST_SAMPLES = 2400
"""What a last chunk should have at least: FunASR drops a rest below 60 ms."""

FEATURE_CLIPS = 3


def fit(samples: np.ndarray) -> np.ndarray:
    """The audio with silence behind it, so that its last chunk of any length is long enough and not too long."""
    lacking = -len(samples) % 4800
    return np.concatenate((samples, np.zeros(lacking + LAST_SAMPLES, np.float32)))


class FunAsr:
    """`AutoModel.generate` tells text, so tokens are read where it decodes them."""

    def __init__(self) -> None:
        from funasr import AutoModel

        self.auto_model = AutoModel(model=str(MODEL), disable_update=True, disable_pbar=True)
        self._tokens: list[str] = []
        generate_chunk = self.auto_model.model.generate_chunk

        def listen(*args, **kwargs):
            tokens = generate_chunk(*args, **kwargs)
            self._tokens += tokens
            return tokens

        self.auto_model.model.generate_chunk = listen

    def hear(self, samples: np.ndarray, chunk_ms: int) -> list[str]:
        """The tokens of one stream."""
        self._tokens.clear()
        self.auto_model.generate(
            input=samples,
            cache={},
            is_final=True,
            chunk_size=[5, chunk_ms // 60, 5],
            encoder_chunk_look_back=0,
            decoder_chunk_look_back=0,
        )
        return list(self._tokens)

    def rows(self, samples: np.ndarray, chunk_ms: int = 600) -> np.ndarray:
        """The features of one stream."""
        import torch
        from funasr.utils.load_utils import extract_fbank

        cache, rows, size = {}, [], chunk_ms * 16
        for start in range(0, len(samples), size):
            chunk = torch.from_numpy(samples[start : start + size])
            last = start + size >= len(samples)
            frontend = self.auto_model.kwargs["frontend"]
            rows.append(extract_fbank([chunk], data_type="sound", frontend=frontend, cache=cache, is_final=last)[0][0])
        return torch.cat(rows).numpy()


def main() -> None:
    import soundfile

    funasr = FunAsr()
    clips, features = {}, {}
    for entry in json.loads((CLIPS / "manifest.json").read_bytes()):
        samples = fit(soundfile.read(CLIPS / entry["file"], dtype="float32")[0])
        clips[entry["file"]] = {str(chunk_ms): funasr.hear(samples, chunk_ms) for chunk_ms in CHUNKS_MS}
        if len(features) < FEATURE_CLIPS:
            features[entry["file"]] = funasr.rows(samples)[:, ::40]
    lines = ",\n".join(f"{json.dumps(name)}: {json.dumps(heard, ensure_ascii=False)}" for name, heard in clips.items())
    (GOLDEN / "paraformer_streaming.json").write_text(
        f'{{"funasr": "{version("funasr")}", "clips": {{\n{lines}\n}}}}\n', encoding="utf-8"
    )
    np.savez_compressed(GOLDEN / "paraformer_features.npz", **features)


if __name__ == "__main__":
    main()
