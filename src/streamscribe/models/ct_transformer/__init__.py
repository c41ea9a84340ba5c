"""FunASR's CT-Transformer: Chinese and English punctuation for texts that have none."""

from streamscribe.models.ct_transformer.punctuator import OnnxPunctuator, OnnxRealtimePunctuator

__all__ = ["OnnxPunctuator", "OnnxRealtimePunctuator"]
