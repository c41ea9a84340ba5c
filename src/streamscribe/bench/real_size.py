"""A streaming Paraformer of the production model's size with random weights: it hears nonsense at the real cost.

Needs the `funasr` extra, about 2 GB of memory and as much disk.
"""

import json
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from streamscribe.models.fbank import MELS
from streamscribe.models.lfr import STACKED

_WIDTH = 512
_VOCABULARY = 8404
_SEED = 0
_RARE_FIRING = -1.2
"""The bias with which random weights fire two or three tokens in a chunk of 600 ms, as speech does."""

_BLOCKS = {"attention_heads": 4, "linear_units": 2048, "dropout_rate": 0.0, "positional_dropout_rate": 0.0}

Configuration = Mapping[str, Any]

CONFIG: Configuration = {
    "model": "ParaformerStreaming",
    "model_conf": {
        "ctc_weight": 0.0, "lsm_weight": 0.1, "length_normalized_loss": True, "predictor_weight": 1.0,
        "predictor_bias": 1, "sampling_ratio": 0.75,
    },
    "encoder": "SANMEncoderChunkOpt",
    "encoder_conf": _BLOCKS | {
        "output_size": _WIDTH, "num_blocks": 50, "attention_dropout_rate": 0.0, "input_layer": "pe_online",
        "pos_enc_class": "SinusoidalPositionEncoder", "normalize_before": True, "kernel_size": 11, "sanm_shfit": 0,
        "selfattention_layer_type": "sanm", "chunk_size": [12, 15], "stride": [8, 10], "pad_left": [0, 0],
        "encoder_att_look_back_factor": [4, 4], "decoder_att_look_back_factor": [1, 1],
    },
    "decoder": "ParaformerSANMDecoder",
    "decoder_conf": _BLOCKS | {
        "num_blocks": 16, "att_layer_num": 16, "self_attention_dropout_rate": 0.0, "src_attention_dropout_rate": 0.0,
        "kernel_size": 11, "sanm_shfit": 5,
    },
    "predictor": "CifPredictorV2",
    "predictor_conf": {"idim": _WIDTH, "threshold": 1.0, "l_order": 1, "r_order": 1, "tail_threshold": 0.45},
    "tokenizer": "CharTokenizer",
    "tokenizer_conf": {"unk_symbol": "<unk>", "split_with_space": True},
    "frontend": "WavFrontendOnline",
    "frontend_conf": {
        "fs": 16_000, "window": "hamming", "n_mels": 80, "frame_length": 25, "frame_shift": 10, "lfr_m": 7, "lfr_n": 6,
        "dither": 0.0,
    },
}  # fmt: skip


def random_streaming_paraformer(directory: Path, config: Configuration = CONFIG) -> None:
    """Writes a directory that FunASR and our PyTorch engine load: 50 encoder and 16 decoder layers, 220 M weights."""
    import torch

    from streamscribe.models.funasr_torch.load import build_streaming

    directory.mkdir(parents=True, exist_ok=True)
    tokens = ["<blank>", "<s>", "</s>", *(chr(0x4E00 + index) for index in range(_VOCABULARY - 4)), "<unk>"]
    (directory / "config.yaml").write_text(yaml.safe_dump(dict(config), sort_keys=False))
    (directory / "tokens.json").write_text(json.dumps(tokens, ensure_ascii=False))
    (directory / "am.mvn").write_text(_normalisation(shift=-8.0, scale=0.2))
    torch.manual_seed(_SEED)
    model = build_streaming(config, tokens)
    with torch.no_grad():
        model.predictor.cif_output.bias.fill_(_RARE_FIRING)
    torch.save({name: value.half() for name, value in model.state_dict().items()}, directory / "model.pt")


def export_int8(directory: Path, target: Path) -> None:
    """Writes the directory's graphs in 8 bits, as FunASR exports and quantises them, for our ONNX engine."""
    import torch
    from onnxruntime.quantization import QuantType, quantize_dynamic

    from streamscribe.models.funasr_torch.load import build_streaming, load_weights
    from streamscribe.models.funasr_torch.packages import import_funasr

    import_funasr("funasr.models.sanm.encoder")  # where the encoder's form for export is
    target.mkdir(parents=True, exist_ok=True)
    for name in ("config.yaml", "tokens.json", "am.mvn"):
        shutil.copy(directory / name, target)
    config = yaml.safe_load((directory / "config.yaml").read_text(encoding="utf-8"))
    model = build_streaming(config, json.loads((directory / "tokens.json").read_text(encoding="utf-8")))
    load_weights(model, directory / "model.pt")
    parts = model.eval().export(type="onnx", **{name: config[name] for name in ("encoder", "predictor", "decoder")})
    for part in parts:
        whole = target / f"{part.export_name}.onnx"
        with torch.no_grad():
            torch.onnx.export(
                part.eval(), part.export_dummy_inputs(), str(whole), opset_version=17, dynamo=False,
                input_names=part.export_input_names(), output_names=part.export_output_names(),
                dynamic_axes=part.export_dynamic_axes(),
            )  # fmt: skip
        quantize_dynamic(
            whole,
            target / f"{part.export_name}_quant.onnx",
            op_types_to_quantize=["MatMul"],
            per_channel=True,
            weight_type=QuantType.QUInt8,
            nodes_to_exclude=_kept_whole(whole),
        )
        whole.unlink()


def _kept_whole(graph: Path) -> list[str]:
    """Nodes that FunASR's own quantisation leaves alone: the output layer."""
    import onnx

    return [node.name for node in onnx.load(graph).graph.node if "output" in node.name]


def _normalisation(*, shift: float, scale: float) -> str:
    """An `am.mvn` in Kaldi's text form that treats all bands alike."""
    size = STACKED * MELS
    parts = [
        f"<{name}> {size} {size}\n<LearnRateCoef> 0 [ {' '.join([str(value)] * size)} ]\n"
        for name, value in (("AddShift", shift), ("Rescale", scale))
    ]
    return f"<Nnet>\n<Splice> {size} {size}\n[ 0 ]\n{''.join(parts)}</Nnet>\n"
