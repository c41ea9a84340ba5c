"""FunASR's models in PyTorch, from local files: what the `funasr` extra adds to the ONNX engines."""
