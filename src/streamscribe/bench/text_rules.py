"""What finishing a text costs, and whether spoken numbers are written as the tables say.

The tables (`itn_zh.tsv`, `itn_en.tsv`) hold what native readers expect, a line each: spoken, a tab, written. Costs are
processor microseconds of one thread, the median of several rounds: of a draft, and of a final with a time for every
word and marks from a punctuator, full of numbers (`finish`) or without any (`plain`).
"""

import time
from collections.abc import Callable
from functools import partial
from importlib.resources import files
from statistics import median

from streamscribe.bench.report import Report, report
from streamscribe.core.results import Word
from streamscribe.core.tokens import Mark
from streamscribe.text.itn import number_edits
from streamscribe.text.pipeline import FinishRequest, TextPipeline
from streamscribe.text.timed import TimedText

LANGUAGES = ("zh", "en")
LENGTHS = (20, 30, 100, 400)
ROUNDS, CALLS = 7, 30
_SPOKEN = {
    "zh": "会议定在二零二六年四月十六日下午三点半在北京召开费用是一百二十块",
    "en": "we meet on april sixteenth at three thirty p m it costs twenty three dollars ",
}
_PLAIN = {
    "zh": "我们今天讨论的问题是怎么样把产品做好让客户满意谢谢大家",
    "en": "what we talk about today is how to make this product good for people ",
}


def table(language: str) -> list[tuple[str, str]]:
    """Spoken and written form of each line of a language's table."""
    lines = files(__package__).joinpath(f"itn_{language}.tsv").read_text(encoding="utf-8").splitlines()
    rows = [line.split("\t") for line in lines if line and not line.startswith("#")]
    return [(spoken, written) for spoken, written in rows]


def run() -> Report:
    """Measures on this machine; the words of the tables and the texts are fixed."""
    pipeline = TextPipeline()
    pipeline.warm_up()
    figures: dict[str, float] = {}
    for language in LANGUAGES:
        rows = table(language)
        failed = sum(_written(spoken, language) != written for spoken, written in rows)
        figures |= {f"itn_{language}_lines": float(len(rows)), f"itn_{language}_failed": float(failed)}
        for chars in LENGTHS:
            spoken, plain = (_request(texts[language], language, chars) for texts in (_SPOKEN, _PLAIN))
            figures[f"draft_{language}_{chars}_us"] = _cost_us(partial(pipeline.draft, spoken.text, language))
            figures[f"plain_{language}_{chars}_us"] = _cost_us(partial(pipeline.finish, plain))
            figures[f"finish_{language}_{chars}_us"] = _cost_us(partial(pipeline.finish, spoken))
    return report("text", {"rounds": ROUNDS, "calls": CALLS}, figures)


def _written(spoken: str, language: str) -> str:
    return TimedText(spoken).edited(number_edits(spoken, language)).text


def _request(sentence: str, language: str, chars: int) -> FinishRequest:
    """So many characters of the sentence, over and over, with a mark behind every twentieth and at the end."""
    text = (sentence * (chars // len(sentence) + 1))[:chars].strip()
    pieces = text.split() if language == "en" else list(text)
    words = tuple(Word(piece, 200 * at, 200 * at + 200, 1.0) for at, piece in enumerate(pieces))
    ends = [at for at in range(20, len(text)) if at % 20 == 0 and (language == "zh" or text[at : at + 1] == " ")]
    marks = (*(Mark(at, "，") for at in ends), Mark(len(text), "。"))
    return FinishRequest(text, words, language, marks=marks)


def _cost_us(call: Callable[[], object]) -> float:
    costs = []
    for _ in range(ROUNDS):
        before_s = time.thread_time()
        for _ in range(CALLS):
            call()
        costs.append(1e6 * (time.thread_time() - before_s) / CALLS)
    return round(median(costs), 1)
