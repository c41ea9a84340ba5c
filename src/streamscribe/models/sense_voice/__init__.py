"""SenseVoiceSmall: five languages, with the emotion and the events that are heard."""

from streamscribe.models.sense_voice.model import OnnxSenseVoice

__all__ = ["OnnxSenseVoice"]
