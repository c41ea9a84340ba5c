"""A request to a continuous batch: who asked, what is held for it while it is written, and who hears of it."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from math import ceil
from typing import Protocol

from streamscribe.core.batching import Waiting
from streamscribe.core.errors import StreamScribeError
from streamscribe.models.funasr_torch.generation_loop import PAGE_TOKENS
from streamscribe.models.funasr_torch.nano_dialogue import Prompt
from streamscribe.models.ports import DecodeRequest, Hypothesis


@dataclass(slots=True, eq=False)
class Asked:
    """One request from its arrival until the language model has let go of it, and where its answer goes."""

    item: Waiting
    request: DecodeRequest
    future: asyncio.Future[Hypothesis]
    loop: asyncio.AbstractEventLoop
    settled: bool = False
    failed: bool = False

    def settle(self, answer: Hypothesis | StreamScribeError) -> None:
        """Hands the answer to who asked, the first one only; from any thread."""
        self.settled = True
        self.failed = isinstance(answer, StreamScribeError)
        try:
            self.loop.call_soon_threadsafe(_settle, self.future, answer)
        except RuntimeError:
            return  # that loop is closed: nobody waits there


@dataclass(slots=True, eq=False)
class Writing:
    """A request with its prompt, and the ids of the rows that it holds while it is written. A `trial` is nobody's."""

    asked: Asked
    prompt: Prompt
    rows: list[int]
    trial: bool = False

    @property
    def pages(self) -> int:
        """Pages of keys and values that its prompt and the longest answer need."""
        return ceil(self.prompt.tokens / PAGE_TOKENS)


class Keeper(Protocol):
    """Whose a batch is: hears what becomes of its requests and of the generation loop."""

    def forget(self, asked: Asked) -> None:
        """A request holds nothing any more."""
        ...

    def answered(self) -> None:
        """A request got its text."""
        ...

    def failed(self, error: BaseException) -> StreamScribeError:
        """A request failed alone; what it is to be told."""
        ...

    def broke(self, defect: BaseException | None = None) -> None:
        """The loop has ended, or a `defect` left it unknown what it reads: it is to be ended, and `lose` called."""
        ...


def _settle(future: asyncio.Future[Hypothesis], answer: Hypothesis | StreamScribeError) -> None:
    if future.done():
        return
    if isinstance(answer, StreamScribeError):
        future.set_exception(answer)
    else:
        future.set_result(answer)
