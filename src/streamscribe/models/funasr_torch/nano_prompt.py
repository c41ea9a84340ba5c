"""What Fun-ASR-Nano is asked, and what of its answer counts: the dialogue in its own words, limits, plain text."""

import math
import re
from collections.abc import Sequence

from streamscribe.core.audio import SAMPLE_RATE
from streamscribe.core.errors import BadRequest
from streamscribe.core.options import Hotword
from streamscribe.models.ports import DecodeRequest

_LANGUAGES = {"zh": "中文", "en": "英文", "ja": "日文"}
_CONTEXT = "请结合上下文信息，更加准确地完成语音转写任务。如果没有相关信息，我们会留空。\n\n\n**上下文信息：**\n\n\n"
_MARKUP = re.compile(r"[<>|\[\]\x00-\x1f\x7f]+")
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


def instruction(hotwords: Sequence[Hotword], language: str | None, *, itn: bool) -> str:
    """The words before the audio. Phrases cannot carry the markup that the model's dialogue is made of."""
    phrases = [phrase for hotword in hotwords if (phrase := _MARKUP.sub(" ", hotword.phrase).strip())]
    context = f"{_CONTEXT}热词列表：[{', '.join(phrases)}]\n" if phrases else ""
    into = "" if language is None else f"成{language_name(language)}"
    style = "" if itn else "，不进行文本规整"
    return f"{context}语音转写{into}{style}："


def dialogue(request: DecodeRequest, before_user: str, before_answer: str) -> tuple[str, str]:
    """The words before the audio's rows and behind them."""
    asked = instruction(request.hotwords, request.language, itn=request.itn)
    before = f"{before_user}<|im_start|>user\n{asked}"
    return before, f"<|im_end|>\n<|im_start|>assistant\n{before_answer}"


def token_limit(samples: int) -> int:
    """More tokens than anyone speaks in so much audio."""
    return _BASE_TOKENS + math.ceil(_TOKENS_PER_SECOND * samples / SAMPLE_RATE)


def plain_text(answer: str) -> str:
    """The answer without its word for silence, in single spaces."""
    return re.sub(r"\s+", " ", answer.replace("/sil", " ")).strip()
