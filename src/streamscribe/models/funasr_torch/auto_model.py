"""Any other FunASR model, as its own `AutoModel` runs it, one segment after the other."""

import re
from collections.abc import Iterable, Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import torch

from streamscribe.core.audio import SAMPLE_RATE
from streamscribe.core.errors import AudioTooLong, BadRequest, ModelUnavailable
from streamscribe.core.options import Hotword
from streamscribe.models.funasr_torch.device import open_device
from streamscribe.models.funasr_torch.packages import import_all_of_funasr
from streamscribe.models.guards import is_silent
from streamscribe.models.ports import Hypothesis, HypothesisWord, Identity, SegmentRequest

_MAX_SAMPLES = 30 * SAMPLE_RATE
_LEAST_SAMPLES = SAMPLE_RATE // 10
"""Below this some models fail for having no frame; nothing is said in it."""

_TAG = re.compile(r"<\|[^|]*\|>")
_LANGUAGE = re.compile(r"[A-Za-z]{2,8}([-_][A-Za-z0-9]{1,8})*")
_WORDS = re.compile(r"\w+(?:['-]\w+)*")


class AutoModelRecognizer:
    """Recognises segments with the model of a local directory; not thread-safe, one thread owns it.

    Segments run alone: not all of FunASR's models take a batch, and of those that do some hear a segment otherwise in
    company.
    """

    def __init__(self, folder: Path, *, device: str = "cpu", threads: int = 1, tail_padding_ms: int = 0) -> None:
        """Loads it without a hub and without the directory's own code; raises ModelUnavailable where that fails."""
        self.tail_padding_ms = tail_padding_ms
        self._device = open_device(device, threads=threads)
        if not (folder / "config.yaml").is_file():
            raise ModelUnavailable("the model's directory has no config.yaml")
        try:
            self._model = import_all_of_funasr().AutoModel(
                model=str(folder),
                device=device,
                ncpu=threads,
                disable_update=True,
                disable_pbar=True,
                trust_remote_code=False,
                log_level="ERROR",
            )
        except Exception as error:  # FunASR's edge: its models raise anything for a directory that is not theirs
            raise ModelUnavailable(f"FunASR cannot load the model: {type(error).__name__}") from error
        self._is_prompted = hasattr(self._model.model, "get_prompt")
        libraries = (version("funasr"), torch.__version__, version("transformers"), np.__version__)
        self._identity: Identity = ("auto-model", 1, *libraries, self._device.type)
        self._samples = samples(self._model.model, self._model.kwargs)

    @property
    def identity(self) -> Identity:
        """FunASR's own inference on this device, and the libraries that it computes with."""
        return self._identity

    @property
    def deterministic(self) -> bool:
        """Whether it draws no tokens by their probabilities."""
        return not self._samples

    @property
    def max_samples(self) -> int:
        """30 s."""
        return _MAX_SAMPLES

    def check_language(self, code: str) -> None:
        """Raises BadRequest for what is no language tag; which ones a model knows, only it can tell."""
        if not _LANGUAGE.fullmatch(code):
            raise BadRequest("language is no language tag", field="language")

    def recognize(self, batch: Sequence[SegmentRequest]) -> list[Hypothesis]:
        """One hypothesis a request, in order. Raises AudioTooLong for more than `max_samples`."""
        if any(len(request.samples) > _MAX_SAMPLES for request in batch):
            raise AudioTooLong("a segment is longer than 30 s")
        return [self._recognize(request) for request in batch]

    def _recognize(self, request: SegmentRequest) -> Hypothesis:
        if len(request.samples) < _LEAST_SAMPLES or is_silent(request.samples):
            return Hypothesis("", request.language)
        samples = torch.from_numpy(request.samples.copy())
        results = self._model.generate(
            input=[samples], cache={}, batch_size=1, disable_pbar=True, use_itn=request.itn, **self._wishes(request)
        )
        result = results[0] if results else {}
        text = " ".join(_TAG.sub(" ", str(result.get("text", ""))).split())
        words = _words(text, result.get("timestamp"), len(samples)) if request.words else ()
        return Hypothesis(text, request.language, words=words, punctuated=bool(re.search(r"[，。？！,.?!]", text)))

    def _wishes(self, request: SegmentRequest) -> dict[str, Any]:
        """Language and hot words in the model's own way."""
        wishes: dict[str, Any] = {}
        if self._is_prompted:
            wishes = {"hotwords": list(plain_words(request.hotwords)), "itn": request.itn}
        elif request.hotwords:
            wishes["hotword"] = hotword_string(request.hotwords)
        if request.language:
            wishes["language"] = request.language
        return wishes


def samples(model: Any, options: Any) -> bool:
    """Whether a model draws tokens by their probabilities: its options say so, or a language model in it is set to."""
    configs = (getattr(module, "generation_config", None) for module in model.modules())
    return _asks_to_sample(options) or any(getattr(config, "do_sample", False) for config in configs)


def _asks_to_sample(options: Any) -> bool:
    """Whether options, or any inside them, have `do_sample`, or a `temperature` unless that is off."""
    if isinstance(options, Mapping):
        drawn = options.get("do_sample", bool(options.get("temperature")))
        return bool(drawn) or any(map(_asks_to_sample, options.values()))
    return isinstance(options, list | tuple) and any(map(_asks_to_sample, options))


def plain_words(hotwords: Iterable[Hotword]) -> Iterable[str]:
    """The words of the phrases, of letters and digits alone."""
    return (word for hotword in hotwords for word in _WORDS.findall(hotword.phrase))


def hotword_string(hotwords: Iterable[Hotword]) -> str:
    """The phrases as FunASR's `hotword`, which it would open if it named a `.txt` file and fetch if it began with http.

    It can be neither: its words are of letters and digits alone, and it begins and ends with a space.
    """
    return f" {' '.join(plain_words(hotwords))} "


def _words(text: str, timestamps: Any, samples: int) -> tuple[HypothesisWord, ...]:
    """Words with their times where the model told one for each; else none."""
    units = text.split() if " " in text else list(text)
    if not isinstance(timestamps, list) or len(timestamps) != len(units):
        return ()
    words = []
    until = 0
    for unit, (start_ms, end_ms) in zip(units, timestamps, strict=True):
        start = min(max(until, int(start_ms) * SAMPLE_RATE // 1000), samples)
        until = min(max(start, int(end_ms) * SAMPLE_RATE // 1000), samples)
        words.append(HypothesisWord(unit, start, until, 0.0))
    return tuple(words)
