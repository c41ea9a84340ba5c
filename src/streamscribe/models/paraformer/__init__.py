"""Paraformer, FunASR's recogniser, on ONNX Runtime: streaming for first passes, offline for second ones."""
