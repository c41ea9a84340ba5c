"""Which engines a profile is made of; each is imported only where it is used, for it brings its libraries along."""

from collections.abc import Mapping
from dataclasses import astuple, dataclass
from pathlib import Path

from streamscribe.bootstrap.extras import need_extras
from streamscribe.bootstrap.threads import step_threads
from streamscribe.core.audio import to_samples
from streamscribe.models.ports import Punctuator, SegmentRecognizer, StreamingRecognizer, VoiceActivityDetector
from streamscribe.models.registry import catalogue, open_verified
from streamscribe.settings import ModelSettings, SettingsError


@dataclass(frozen=True, slots=True)
class Engines:
    """What recognises: without `streaming`, partials are drafts of `recognizer`; it punctuates itself, or the other."""

    vad: VoiceActivityDetector
    recognizer: SegmentRecognizer
    streaming: StreamingRecognizer | None = None
    punctuator: Punctuator | None = None


def engines_of(settings: ModelSettings) -> Engines:
    """Loads the engines of the profile.

    Raises ModelUnavailable where a file is missing or another one, and SettingsError for a folder of no known model.
    """
    loader = EngineLoader(settings)
    vad, punctuator = loader.vad(), loader.punctuator()  # the small ones first: what is wrong is told sooner
    return Engines(vad, loader.recognizer(), loader.streaming(), punctuator)


@dataclass(frozen=True, slots=True)
class _Names:
    """The catalogue's ids of a profile's parts."""

    streaming: str
    streaming_torch: str
    paraformer: str
    sense_voice: str
    nano: str
    punctuation: str


_NAMES = {
    "tiny": _Names(
        streaming="tiny-paraformer-streaming",
        streaming_torch="tiny-paraformer-streaming",
        paraformer="tiny-paraformer",
        sense_voice="tiny-sensevoice",
        nano="tiny-fun-asr-nano",
        punctuation="tiny-punc",
    ),
    "zh": _Names(
        streaming="paraformer-zh-streaming",
        streaming_torch="paraformer-zh-streaming-torch",
        paraformer="paraformer-zh",
        sense_voice="sensevoice-small",
        nano="fun-asr-nano",
        punctuation="ct-punc",
    ),
}

UNMEASURED_TAIL_PADDING_MS = 300
"""For a model without an entry in the catalogue: as much as any entry has, for too much costs some time of a step, and
too little a last word."""

VAD_ID = "fsmn-vad"
_WHISPER = "whisper-base"
_AUTO_MODEL = "funasr"
"""What AutoModel loads has no entry in the catalogue, and so no other id."""
_KNOWN = frozenset(
    {VAD_ID, _WHISPER, _AUTO_MODEL, *(model_id for names in _NAMES.values() for model_id in astuple(names))}
)
"""The models that may be taken from a folder of the user's."""


def recognizer_id(settings: ModelSettings) -> str:
    """The catalogue's id of what recognises whole segments; `auto` where the length decides."""
    if settings.profile not in _NAMES:
        return {"whisper": _WHISPER}.get(settings.profile, settings.profile)
    if settings.second_pass == "funasr":
        return _AUTO_MODEL
    if settings.second_pass == "auto":
        return "auto"
    names = _NAMES[settings.profile]
    return {"paraformer": names.paraformer, "sensevoice": names.sense_voice, "nano": names.nano}[settings.second_pass]


def recognizer_ids(settings: ModelSettings) -> tuple[str, ...]:
    """The catalogue's ids of all that recognises whole segments."""
    return tuple(map(recognizer_id, by_length(settings))) or (recognizer_id(settings),)


def by_length(settings: ModelSettings) -> tuple[ModelSettings, ...]:
    """The settings of what recognises short segments, and of what recognises long ones; none where one does all."""
    if settings.profile not in _NAMES or settings.second_pass != "auto":
        return ()
    choices = (settings.auto_short, settings.auto_long)
    return tuple(settings.model_copy(update={"second_pass": choice}) for choice in choices)


def writes_continuously(settings: ModelSettings) -> bool:
    """Whether what recognises is Fun-ASR-Nano, whose language model writes answers in continuous batches."""
    return settings.profile in _NAMES and settings.second_pass == "nano"


def streaming_id(settings: ModelSettings) -> str | None:
    """The catalogue's id of what recognises streams; None where nothing does."""
    if settings.profile not in _NAMES:
        return None
    names = _NAMES[settings.profile]
    return names.streaming_torch if settings.engine == "torch" else names.streaming


def punctuator_id(settings: ModelSettings) -> str | None:
    """The catalogue's id of what punctuates; None where nothing does."""
    return _NAMES[settings.profile].punctuation if settings.profile in _NAMES else None


def reads_on(settings: ModelSettings) -> bool:
    """Whether any model that recognises segments reads on from what was said before: Whisper and Fun-ASR-Nano do."""
    return settings.profile == "whisper" or any(map(writes_continuously, by_length(settings) or (settings,)))


def tail_padding_ms(settings: ModelSettings) -> int:
    """How much audio must follow a segment for whatever recognises it, without loading that."""
    if settings.profile == "fake":
        from streamscribe.models.fake.recognizer import FakeRecognizer

        return FakeRecognizer.tail_padding_ms
    return max(map(_tail_padding_ms, recognizer_ids(settings)))


class EngineLoader:
    """Opens the model files of a profile and builds the engines that read them, each by itself.

    The methods raise ModelUnavailable where a file is missing or another one.
    """

    def __init__(self, settings: ModelSettings) -> None:
        """Raises SettingsError for a folder of no known model."""
        for model_id in settings.folders:
            if model_id not in _KNOWN:
                listed = ", ".join(sorted(_KNOWN))
                raise SettingsError(f"setting model.folders.{model_id}: there is no such model; there are: {listed}")
        self._settings = settings
        self._threads = step_threads(settings)
        self._names = _NAMES.get(settings.profile)

    def vad(self) -> VoiceActivityDetector:
        """FSMN-VAD."""
        if self._settings.profile == "fake":
            from streamscribe.models.fake.voice_activity import FakeVoiceActivityDetector

            return FakeVoiceActivityDetector()
        from streamscribe.models.fsmn_vad.detector import FsmnVad

        return FsmnVad(self._files(VAD_ID))

    def recognizer(self) -> SegmentRecognizer:
        """Whisper, or the second pass."""
        if several := by_length(self._settings):
            from streamscribe.models.by_length import RecognizerByLength

            short, long = (EngineLoader(one).recognizer() for one in several)
            return RecognizerByLength(short, long, to_samples(self._settings.auto_up_to_ms))
        if self._names is not None:
            return self._second_pass(self._names)
        if self._settings.profile == "fake":
            from streamscribe.models.fake.recognizer import FakeRecognizer

            return FakeRecognizer(cost_ms=self._settings.fake_cost_ms)
        from streamscribe.models.encoder_decoder import EncoderDecoderRecognizer
        from streamscribe.models.whisper.model import WhisperModel

        whisper = WhisperModel(self._files(_WHISPER), threads=self._threads, compute_type=self._settings.compute_type)
        return EncoderDecoderRecognizer(whisper, tail_padding_ms=_tail_padding_ms(_WHISPER))

    def streaming(self) -> StreamingRecognizer | None:
        """A streaming Paraformer, in the profiles that have a first pass."""
        model_id = streaming_id(self._settings)
        if model_id is None:
            return None
        tail_padding_ms = _tail_padding_ms(model_id)
        if self._settings.engine == "torch":
            need_extras("setting model.engine torch", "funasr")
            from streamscribe.models.funasr_torch.streaming import TorchStreamingParaformer

            device = self._settings.device
            return TorchStreamingParaformer(
                self._files(model_id), device=device, threads=self._threads, tail_padding_ms=tail_padding_ms
            )
        from streamscribe.models.paraformer.streaming_onnx import OnnxStreamingParaformer

        return OnnxStreamingParaformer(self._files(model_id), threads=self._threads, tail_padding_ms=tail_padding_ms)

    def punctuator(self) -> Punctuator | None:
        """CT-Transformer, in the profiles whose texts come without marks."""
        model_id = punctuator_id(self._settings)
        if model_id is None:
            return None
        from streamscribe.models.ct_transformer import OnnxPunctuator

        return OnnxPunctuator(self._files(model_id), threads=self._threads)

    def _second_pass(self, names: _Names) -> SegmentRecognizer:
        match self._settings.second_pass:
            case "sensevoice":
                from streamscribe.models.sense_voice import OnnxSenseVoice

                return OnnxSenseVoice(
                    self._files(names.sense_voice),
                    threads=self._threads,
                    tail_padding_ms=_tail_padding_ms(names.sense_voice),
                )
            case "nano":
                return self._nano(names)
            case "funasr":
                return self._auto_model()
        from streamscribe.models.paraformer.offline_onnx import OnnxParaformer

        return OnnxParaformer(
            self._files(names.paraformer), threads=self._threads, tail_padding_ms=_tail_padding_ms(names.paraformer)
        )

    def _nano(self, names: _Names) -> SegmentRecognizer:
        need_extras("setting model.second_pass nano", "funasr")
        from streamscribe.models.encoder_decoder import EncoderDecoderRecognizer
        from streamscribe.models.funasr_torch.nano import FunAsrNano

        nano = FunAsrNano(self._files(names.nano), device=self._settings.device, threads=self._threads)
        return EncoderDecoderRecognizer(nano, tail_padding_ms=_tail_padding_ms(names.nano))

    def _auto_model(self) -> SegmentRecognizer:
        need_extras("setting model.second_pass funasr", "funasr")
        from streamscribe.models.funasr_torch.auto_model import AutoModelRecognizer

        folder = self._settings.folders.get(_AUTO_MODEL)
        if folder is None:
            raise SettingsError("setting model.folders.funasr: name the folder of the model that AutoModel is to load")
        return AutoModelRecognizer(
            folder.expanduser(),
            device=self._settings.device,
            threads=self._threads,
            tail_padding_ms=_tail_padding_ms(_AUTO_MODEL),
        )

    def _files(self, model_id: str) -> Mapping[str, Path]:
        """The model's files: those of the folder that the settings name for it as they are, else the verified ones."""
        if (folder := self._settings.folders.get(model_id)) is None:
            if model_id not in catalogue():
                raise SettingsError(f"setting model.folders.{model_id}: name its folder; this model cannot be pulled")
            return open_verified(model_id, self._settings.dir.expanduser())
        folder = folder.expanduser()
        files = {str(file.relative_to(folder)): file for file in folder.rglob("*") if file.is_file()}
        if not files:
            raise SettingsError(f"setting model.folders.{model_id}: no files in {folder}")
        return files


def _tail_padding_ms(model_id: str) -> int:
    """What the catalogue holds for the model, wherever its files come from."""
    entry = catalogue().get(model_id)
    return UNMEASURED_TAIL_PADDING_MS if entry is None else entry.tail_padding_ms
