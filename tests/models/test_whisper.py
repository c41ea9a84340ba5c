"""Whisper base with its real weights: the recogniser's contract, languages, hot words, and no text where none is."""

import pytest
import soundfile

from streamscribe.models.encoder_decoder import EncoderDecoderRecognizer
from streamscribe.models.ports import Samples
from streamscribe.models.registry import open_verified
from streamscribe.models.whisper import WhisperModel
from tests.contracts.segment_recognizer import SegmentRecognizerContract

pytestmark = pytest.mark.models


@pytest.fixture(scope="module")
def whisper(model_dir) -> WhisperModel:
    model = WhisperModel(open_verified("whisper-base", model_dir), threads=2)
    model.warm_up()
    return model


@pytest.fixture(scope="module")
def clips(model_dir) -> dict[str, Samples]:
    """Recordings of two languages, 16 kHz."""
    folder = model_dir / "demo-recordings"
    return {path.stem: soundfile.read(path, dtype="float32")[0] for path in sorted(folder.glob("*/*.wav"))}


class TestWhisper(SegmentRecognizerContract):
    @pytest.fixture
    def recognizer(self, whisper):
        return EncoderDecoderRecognizer(whisper)

    @pytest.fixture
    def utterances(self, clips):
        return [clips["counting"], clips["jishu"], clips["quick_brown_fox"]]
