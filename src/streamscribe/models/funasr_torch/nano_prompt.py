"""What Fun-ASR-Nano is asked, and what of its answer counts: the dialogue in its own words, limits, plain text."""

import math
import re
from collections.abc import Sequence

from streamscribe.core.audio import SAMPLE_RATE
from streamscribe.core.errors import BadRequest
from streamscribe.core.options import Hotword
from streamscribe.core.script import ending
from streamscribe.models.ports import DecodeRequest

_LANGUAGES = {"zh": "中文", "en": "英文", "ja": "日文"}
_CONTEXT = "请结合上下文信息，更加准确地完成语音转写任务。如果没有相关信息，我们会留空。\n\n\n**上下文信息：**\n\n\n"
_MOST_CONTEXT_CHARS = 200
"""Of what was said before, the end: as much as in half a minute."""
_MARKUP = re.compile(r"[<>|\[\]\x00-\x1f\x7f]+")
MOST_TOKENS = 2048
"""What a request and its answer may take with what was said before; where they need more, that is left out."""
_BASE_TOKENS = 8
"""For marks, and a word that was cut."""
_TOKENS_PER_SECOND = 12
"""Twice as many as a fast speaker needs: six Chinese characters or four English words, at most two tokens each."""


def language_name(code: str) -> str:
    """The model's name for a language tag such as `zh-CN`; raises BadRequest for one that it does not know."""
    name = _LANGUAGES.get(code.lower().replace("_", "-").partition("-")[0])
    if name is None:
        raise BadRequest("language is not one that this model knows", field="language")
    return name


def instruction(hotwords: Sequence[Hotword], language: str | None, *, itn: bool, earlier: str = "") -> str:
    """The words before the audio: FunASR's, with what was said before where its training has it.

    (`funasr/datasets/fun_asr_datasets/multicontext_prompt.py`, which calls it the historical transcription.) FunASR's
    own `prev_text` is something else: the beginning of this audio's answer. Neither phrases nor earlier text can carry
    the markup that the model's dialogue is made of.
    """
    phrases = [phrase for hotword in hotwords if (phrase := _plain(hotword.phrase))]
    history = ending(_plain(earlier), _MOST_CONTEXT_CHARS)
    lines = [f"历史转写结果：{history}\n"] if history else []
    if phrases:
        lines.append(f"热词列表：[{', '.join(phrases)}]\n")
    context = "".join([_CONTEXT, *lines]) if lines else ""
    into = "" if language is None else f"成{language_name(language)}"
    style = "" if itn else "，不进行文本规整"
    return f"{context}语音转写{into}{style}："


def dialogue(request: DecodeRequest, before_user: str, before_answer: str) -> tuple[str, str]:
    """The words before the audio's rows and behind them."""
    asked = instruction(request.hotwords, request.language, itn=request.itn, earlier=request.context)
    before = f"{before_user}<|im_start|>user\n{asked}"
    return before, f"<|im_end|>\n<|im_start|>assistant\n{before_answer}"


def _plain(text: str) -> str:
    return _MARKUP.sub(" ", text).strip()


def token_limit(samples: int) -> int:
    """More tokens than anyone speaks in so much audio."""
    return _BASE_TOKENS + math.ceil(_TOKENS_PER_SECOND * samples / SAMPLE_RATE)


def plain_text(answer: str) -> str:
    """The answer without its word for silence, in single spaces."""
    return re.sub(r"\s+", " ", answer.replace("/sil", " ")).strip()
