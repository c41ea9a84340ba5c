"""Whisper's tokens: the special ones by name, prompts, and text of token runs."""

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from tokenizers import Tokenizer

from streamscribe.core.errors import BadRequest
from streamscribe.core.options import Hotword, Task
from streamscribe.core.script import is_unspaced

MAX_PROMPT_TOKENS = 200
"""Tokens of hot words and earlier text in a prompt; of Whisper's 448 positions half are for the text."""

_ALIASES = {"yue": "zh", "cmn": "zh", "nb": "no", "fil": "tl", "iw": "he", "in": "id"}
"""Codes that people use for languages that this model knows by another one."""


_UNSPACED = frozenset({"zh", "ja"})


class Piece(NamedTuple):
    """Some text and how many tokens spell it."""

    text: str
    tokens: int


class Vocabulary:
    """A tokenizer with Whisper's special tokens; `languages` are the codes that the model can be told."""

    def __init__(self, tokenizer_json: Path, language_ids: Sequence[int]) -> None:
        self._tokenizer = Tokenizer.from_file(str(tokenizer_json))
        self._tokenizer.encode_special_tokens = True
        self.end_of_text = self._special("<|endoftext|>")
        self._start = self._special("<|startoftranscript|>")
        self._previous = self._special("<|startofprev|>")
        self._no_timestamps = self._special("<|notimestamps|>")
        self._tasks = {
            Task.TRANSCRIBE: self._special("<|transcribe|>"),
            Task.TRANSLATE: self._special("<|translate|>"),
        }
        self.languages = {self.text_of_special(token): token for token in language_ids}

    def text_of_special(self, token: int) -> str:
        """What stands between the bars of a special token."""
        return str(self._tokenizer.id_to_token(token))[2:-2]

    def language(self, code: str) -> str:
        """The model's code for a language tag such as `zh-CN`; raises BadRequest for one that it does not know."""
        base = code.lower().replace("_", "-").partition("-")[0]
        base = _ALIASES.get(base, base)
        if base not in self.languages:
            raise BadRequest("language is not one that this model knows", field="language")
        return base

    def task_prompt(self, language: str, task: Task) -> list[int]:
        """What every decode begins with."""
        return [self._start, self.languages[language], self._tasks[task], self._no_timestamps]

    def earlier_prompt(self, hotwords: Sequence[Hotword], spoken: Sequence[int], language: str) -> list[int]:
        """Text that "came before": the hot words, then the end of what did come before, as far as there is room.

        `spoken` are tokens of `context_tokens`. Empty without either.
        """
        listed = self._hotword_sentence(hotwords, language)
        room = MAX_PROMPT_TOKENS - len(listed)
        earlier = [*listed, *(spoken[-room:] if room else [])]
        return [self._previous, *earlier] if earlier else []

    def context_tokens(self, context: str, language: str) -> list[int]:
        """What was said before, as it stands in a prompt of the language; nothing of it where its script is another.

        Told an English text, the model writes Chinese speech in Latin letters, or translates it.
        """
        if not context or (language in _UNSPACED) != any(map(is_unspaced, context)):
            return []
        return self._encode(context if language in _UNSPACED else f" {context}")

    def _hotword_sentence(self, hotwords: Sequence[Hotword], language: str) -> list[int]:
        """The phrases: the heaviest ones that fit.

        It is a finished sentence: a phrase left open at its end would count as spoken already, and the same words at
        the start of the segment would be left out.
        """
        begin, between, end = ("", "、", "。") if language in _UNSPACED else (" ", ", ", ".")
        fitting: list[str] = []
        sentence: list[int] = []
        for hotword in sorted(hotwords, key=lambda one: -one.weight):
            fitting.append(hotword.phrase)
            tokens = self._encode(begin + between.join(fitting) + end)
            if len(tokens) > MAX_PROMPT_TOKENS:
                break
            sentence = tokens
        return sentence

    def pieces(self, tokens: Sequence[int]) -> list[Piece]:
        """The tokens' text in the smallest runs of tokens that are whole characters; broken ones are left out."""
        pieces: list[Piece] = []
        begin = 0
        for end in range(1, len(tokens) + 1):
            text: str = self._tokenizer.decode(list(tokens[begin:end]), skip_special_tokens=True)
            if "\ufffd" not in text:
                pieces.append(Piece(text, end - begin))
                begin = end
            elif end == len(tokens):
                pieces.append(Piece(text.replace("\ufffd", ""), end - begin))
        return pieces

    def _encode(self, text: str) -> list[int]:
        ids: list[int] = self._tokenizer.encode(text, add_special_tokens=False).ids
        return ids

    def _special(self, token: str) -> int:
        number: int | None = self._tokenizer.token_to_id(token)
        if number is None:
            raise ValueError(f"the tokenizer has no {token}")
        return number
