"""OpenAI's Whisper on CTranslate2: encoder and decoder apart, batched, equal audio giving equal text."""

from streamscribe.models.whisper.model import WhisperModel

__all__ = ["WhisperModel"]
