"""FSMN-VAD: FunASR's voice activity detector with its real weights, streaming and batched over sessions."""

from streamscribe.models.fsmn_vad.detector import FsmnVad

__all__ = ["FsmnVad"]
