"""A request to Fun-ASR-Nano as token ids around the audio's rows, and its answer as text."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from streamscribe.core.errors import BadRequest, InternalError
from streamscribe.models.funasr_torch.nano_modules import NanoModules
from streamscribe.models.funasr_torch.nano_prompt import MOST_TOKENS, dialogue, plain_text, token_limit
from streamscribe.models.funasr_torch.watch import mean_probability, said
from streamscribe.models.ports import DecodeRequest, Hypothesis


@dataclass(frozen=True, slots=True)
class Prompt:
    """The ids before and behind the rows of audio, and how many tokens the answer may have."""

    before: tuple[int, ...]
    rows: int
    after: tuple[int, ...]
    limit: int

    @property
    def tokens(self) -> int:
        """Positions that prompt and answer may take."""
        return len(self.before) + self.rows + len(self.after) + self.limit


def encoded(request: DecodeRequest, parts: NanoModules) -> tuple[list[int], list[int]]:
    """The ids before and behind the rows of audio, with what was said before as far as there is room."""
    before, after = map(parts.tokenizer.encode, dialogue(request, parts.before_user, parts.before_answer))
    needed = len(before) + len(request.embedding) + len(after) + token_limit(request.num_samples)
    if request.context and needed > MOST_TOKENS:
        return encoded(replace(request, context=""), parts)
    return before, after


class NanoDialogue:
    """Not thread-safe, as its tokenizer is not."""

    def __init__(self, parts: NanoModules) -> None:
        model = parts.language_model
        self._parts = parts
        self._width = model.get_input_embeddings().weight.shape[1]
        configured = (model.config.eos_token_id, getattr(model.generation_config, "eos_token_id", None))
        self.ends = frozenset(
            end for ends in configured if ends is not None for end in (ends if isinstance(ends, list) else [ends])
        )
        """The tokens that end an answer, as for `generate`."""

    def prompt(self, request: DecodeRequest) -> Prompt:
        """Raises BadRequest for a language that it does not know or words that its tokenizer cannot read, and
        InternalError for an embedding that is not of this model.

        Not finite rows are refused because they would spoil the texts of all that share a step with them.
        """
        rows = request.embedding
        if rows.ndim != 2 or rows.shape[1] != self._width or not np.isfinite(rows).all():
            raise InternalError("an embedding is not one that the language model can read")
        before, after = self._encoded(request)
        return Prompt(tuple(before), len(rows), tuple(after), token_limit(request.num_samples))

    def answer(
        self, request: DecodeRequest, prompt: Prompt, tokens: Sequence[int], logarithms: Sequence[float]
    ) -> Hypothesis:
        """What the tokens say, punctuated by the model; its confidence is the mean probability of a token."""
        spoken = said(tokens, prompt.limit, self.ends)
        text = plain_text(self._parts.tokenizer.decode(spoken, skip_special_tokens=True))
        confidence = mean_probability(logarithms[: len(spoken)]) if text else 0.0
        return Hypothesis(text, request.language, confidence, punctuated=True)

    def _encoded(self, request: DecodeRequest) -> tuple[list[int], list[int]]:
        try:
            return encoded(request, self._parts)
        except BadRequest:
            raise
        except Exception as error:  # the tokenizer's edge: it may raise anything
            raise BadRequest("hot words have letters that cannot be read", field="hotwords") from error
