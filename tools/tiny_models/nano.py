"""Makes a Fun-ASR-Nano with tiny dimensions and random weights, as a FunASR directory and in transformers' own layout.

It hears nothing and writes nonsense, always the same: enough to test that batches equal single runs, that prompts carry
hot words and that both layouts agree.
"""

import json
from pathlib import Path
from typing import Any

import torch
import yaml
from torch import Tensor

from .funasr_model import FRONT_END
from .vocabulary import CHARACTERS

LANGUAGE_MODEL = "Qwen3-0.6B"  # the folder's name in the published directory
AUDIO_WIDTH, TEXT_WIDTH, PROJECTOR_WIDTH, HEADS = 24, 48, 48, 4
SPECIAL = ["<|endoftext|>", "<|im_start|>", "<|im_end|>", "<|object_ref_start|>", "<|object_ref_end|>"]
SPREAD = 0.25  # of the random weights; the usual 0.02 would make all words nearly equally likely

# Written by hand, since transformers' class of that name cannot be made without torchaudio.
FEATURE_EXTRACTOR = {
    "feature_extractor_type": "FunAsrNanoFeatureExtractor", "processor_class": "FunAsrNanoProcessor",
    "feature_size": 80, "sampling_rate": 16000, "frame_length": 25, "frame_shift": 10, "num_frames_lfr": 7,
    "stride_lfr": 6, "window": "hamming", "padding_value": 0.0, "return_attention_mask": True,
}  # fmt: skip

# FunASR's prompt (`FunASRNano.get_prompt`) as a chat template.
CHAT_TEMPLATE = (
    "<|im_start|>system\nYou are a helpful assistant.<|im_end|>"
    "{{- '\n' }}"
    "{%- for message in messages %}"
    "{%- set said = namespace(context='', keywords='', language='', audio='') %}"
    "{%- for part in message['content'] %}"
    "{%- if part['type'] == 'text' %}{%- set said.context = part['text'] + '\n' %}{%- endif %}"
    "{%- if part['type'] == 'keywords' %}"
    "{%- set said.keywords = '热词列表：[' + part['keywords'] | join(', ') + ']\n' %}{%- endif %}"
    "{%- if part['type'] == 'language' %}{%- set said.language = '成' + part['language'] %}{%- endif %}"
    "{%- if part['type'] == 'audio' %}{%- set said.audio = '<|object_ref_start|>' %}{%- endif %}"
    "{%- endfor %}"
    "{{- '<|im_start|>user\n' }}"
    "{%- if said.context or said.keywords %}"
    "{{- '请结合上下文信息，更加准确地完成语音转写任务。如果没有相关信息，我们会留空。\n\n\n**上下文信息：**\n\n\n' }}"
    "{%- endif %}"
    "{{- said.context + said.keywords + '语音转写' + said.language + '：' + said.audio + '<|im_end|>\n' }}"
    "{%- endfor %}"
    "{%- if add_generation_prompt %}{{- '<|im_start|>assistant\n' }}{%- endif %}"
)


def tokenizer() -> Any:
    """Byte-level BPE whose merges make each character of the corpus one token."""
    from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    byte_level = pre_tokenizers.ByteLevel(add_prefix_space=False)
    merges: dict[tuple[str, str], None] = {}
    for character in CHARACTERS:
        (((first, second, third), _),) = byte_level.pre_tokenize_str(character)
        merges |= {(first, second): None, (first + second, third): None}
    words = [*alphabet, *("".join(merge) for merge in merges)]
    bpe = Tokenizer(models.BPE(vocab={word: index for index, word in enumerate(words)}, merges=list(merges)))
    bpe.pre_tokenizer, bpe.decoder = byte_level, decoders.ByteLevel()
    bpe.add_special_tokens([AddedToken(token, special=True) for token in SPECIAL])
    return PreTrainedTokenizerFast(
        tokenizer_object=bpe, eos_token="<|im_end|>", pad_token="<|endoftext|>", bos_token="<|endoftext|>"
    )


def build(words: Any) -> Any:
    """The model in transformers' layout."""
    from transformers import FunAsrNanoConfig, FunAsrNanoForConditionalGeneration

    identity = words.convert_tokens_to_ids
    configuration = FunAsrNanoConfig(
        audio_config={
            "model_type": "fun_asr_nano_encoder", "hidden_size": AUDIO_WIDTH, "num_attention_heads": HEADS,
            "intermediate_size": 48, "num_hidden_layers": 4, "num_timestamp_prediction_layers": 1,
            "hidden_dropout": 0.0, "attention_dropout": 0.0,
        },
        adaptor_config={
            "hidden_size": TEXT_WIDTH, "num_attention_heads": HEADS, "intermediate_size": TEXT_WIDTH // 4,
            "num_hidden_layers": 1, "projector_hidden_size": PROJECTOR_WIDTH,
        },
        text_config={
            "model_type": "qwen3", "vocab_size": len(words), "hidden_size": TEXT_WIDTH, "intermediate_size": 64,
            "num_hidden_layers": 2, "num_attention_heads": HEADS, "num_key_value_heads": 2, "head_dim": 12,
            "max_position_embeddings": 2048, "tie_word_embeddings": True, "pad_token_id": identity("<|endoftext|>"),
            "bos_token_id": identity("<|endoftext|>"), "eos_token_id": identity("<|im_end|>"),
        },
        audio_token_id=identity("<|object_ref_start|>"),
        initializer_range=SPREAD,
    )  # fmt: skip
    model = FunAsrNanoForConditionalGeneration(configuration).eval()
    draw = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.dim() > 1:
                parameter.copy_((torch.randn(parameter.shape, generator=draw) * SPREAD).half())
    return model


_LAYER = {
    "input_layernorm": "norm1",
    "post_attention_layernorm": "norm2",
    "mlp.fc1": "feed_forward.w_1",
    "mlp.fc2": "feed_forward.w_2",
    "self_attn.o_proj": "self_attn.linear_out",
    "self_attn.q_proj": "self_attn.linear_q",
    "self_attn.k_proj": "self_attn.linear_k",
    "self_attn.v_proj": "self_attn.linear_v",
    "self_attn.fsmn.conv": "self_attn.fsmn_block",
}


def _layer(weights: dict[str, Tensor], source: str, target: str, joined: bool) -> dict[str, Tensor]:
    """One layer under FunASR's names; its SAN-M layers keep query, key and value in one matrix."""
    named = {}
    for ours, theirs in _LAYER.items():
        for part in ("weight", "bias"):
            if f"{source}.{ours}.{part}" in weights:
                named[f"{target}.{theirs}.{part}"] = weights[f"{source}.{ours}.{part}"]
    if joined:
        for part in ("weight", "bias"):
            columns = [named.pop(f"{target}.self_attn.linear_{which}.{part}") for which in "qkv"]
            named[f"{target}.self_attn.linear_q_k_v.{part}"] = torch.cat(columns)
    return named


def funasr_weights(model: Any) -> dict[str, Tensor]:
    """The same numbers under the names of FunASR's `model.pt`."""
    weights, audio = dict(model.state_dict()), model.config.audio_config
    heard = audio.num_hidden_layers - audio.num_timestamp_prediction_layers
    named: dict[str, Tensor] = {}
    for index in range(audio.num_hidden_layers):
        place = f"encoders0.{index}" if index == 0 else f"encoders.{index - 1}" if index < heard else None
        place = place or f"tp_encoders.{index - heard}"
        named |= _layer(weights, f"model.audio_tower.layers.{index}", f"audio_encoder.{place}", joined=True)
    for layer, norm in ((heard - 1, "after_norm"), (audio.num_hidden_layers - 1, "tp_norm")):
        for part in ("weight", "bias"):
            source = f"model.audio_tower.layers.{layer}.final_layernorm.{part}"
            named[f"audio_encoder.{norm}.{part}"] = weights[source]
    for index in range(model.config.adaptor_config.num_hidden_layers):
        source = f"model.multi_modal_projector.layers.{index}"
        named |= _layer(weights, source, f"audio_adaptor.blocks.{index}", joined=False)
    for index in (1, 2):
        for part in ("weight", "bias"):
            named[f"audio_adaptor.linear{index}.{part}"] = weights[f"model.multi_modal_projector.linear_{index}.{part}"]
    for name, value in weights.items():
        if name.startswith("model.language_model."):
            named[f"llm.model.{name.removeprefix('model.language_model.')}"] = value
    return named  # the output layer is the embedding's


def configuration(model: Any) -> dict[str, Any]:
    audio, adaptor = model.config.audio_config, model.config.adaptor_config
    return {
        "model": "FunASRNano",
        "model_conf": {"length_normalized_loss": True},
        "audio_encoder": "SenseVoiceEncoderSmall",
        "audio_encoder_conf": {
            "output_size": AUDIO_WIDTH, "attention_heads": HEADS, "linear_units": audio.intermediate_size,
            "num_blocks": audio.num_hidden_layers - audio.num_timestamp_prediction_layers,
            "tp_blocks": audio.num_timestamp_prediction_layers, "dropout_rate": 0.0, "positional_dropout_rate": 0.0,
            "attention_dropout_rate": 0.0, "input_layer": "pe", "pos_enc_class": "SinusoidalPositionEncoder",
            "normalize_before": True, "kernel_size": audio.fsmn_kernel_size, "sanm_shfit": 0,
            "selfattention_layer_type": "sanm", "freeze": True,
        },
        "llm": "Qwen3-0.6b",
        "llm_conf": {"hub": "hf", "freeze": True, "llm_dtype": "fp32"},
        "audio_adaptor": "Transformer",
        "audio_adaptor_conf": {
            "downsample_rate": 1, "use_low_frame_rate": False, "ffn_dim": PROJECTOR_WIDTH, "llm_dim": TEXT_WIDTH,
            "encoder_dim": AUDIO_WIDTH, "n_layer": adaptor.num_hidden_layers, "attention_heads": HEADS,
            "freeze": True,
        },
        "dataset_conf": {"do_think": True, "sys_prompt": True},
        "tokenizer": "HuggingfaceTokenizer",
        "tokenizer_conf": {},
        "frontend": "WavFrontend",
        "frontend_conf": dict(FRONT_END),
    }  # fmt: skip


def make(folder: Path) -> None:
    """Writes the FunASR directory and, under `hf`, the same model for transformers."""
    folder.mkdir(parents=True, exist_ok=True)
    words = tokenizer()
    model = build(words)
    language_model = folder / LANGUAGE_MODEL
    words.save_pretrained(language_model)
    model.config.text_config.architectures = ["Qwen3ForCausalLM"]
    model.config.text_config.save_pretrained(language_model)
    half = {name: value.half().contiguous().clone() for name, value in funasr_weights(model).items()}
    torch.save(half, folder / "model.pt")
    settings = configuration(model)
    (folder / "config.yaml").write_text(yaml.safe_dump(settings, allow_unicode=True, sort_keys=False))
    paths = {
        "init_param": "model.pt",
        "config": "config.yaml",
        "tokenizer_conf": {"init_param_path": LANGUAGE_MODEL},
        "llm_conf": {"init_param_path": LANGUAGE_MODEL},
    }
    (folder / "configuration.json").write_text(
        json.dumps({"framework": "pytorch", "task": "auto-speech-recognition", "file_path_metas": paths}, indent=2)
    )
    model.half().save_pretrained(folder / "hf")
    words.chat_template = CHAT_TEMPLATE
    words.save_pretrained(folder / "hf")
    (folder / "hf" / "preprocessor_config.json").write_text(json.dumps(FEATURE_EXTRACTOR, indent=2))
