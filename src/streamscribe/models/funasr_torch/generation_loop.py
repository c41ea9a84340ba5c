"""transformers' continuous batching for one language model: a thread that writes many texts, which join and leave."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from streamscribe.core.errors import ModelUnavailable
from streamscribe.models.funasr_torch.nano_prompt import MOST_TOKENS

PAGE_TOKENS = 16
"""Tokens of one page of keys and values."""
TRANSFORMERS = "5.24"
"""The first release that has all that is used here; the extra `funasr` asks for it."""
_POLL_S = 0.005
_TOKENS_EACH = 512


@dataclass(frozen=True, slots=True)
class Capacity:
    """What the language model has room for.

    `requests` are written side by side, with `tokens` in all: prompts and as many as may be written. `rows` of audio
    stand in their prompts. A step reads `step_tokens`: longer prompts are read in parts, so that others can go on.
    The warm-up needs 20 rows and 512 tokens; a segment of 30 s may need 63 rows (500 of an encoder whose rows are not
    joined) and about as many tokens more as 400, its hot words and what was said before have.
    """

    requests: int = 8
    tokens: int = 4096
    rows: int = 2048
    step_tokens: int = 256

    @classmethod
    def of(cls, requests: int) -> Capacity:
        """For so many side by side: 512 tokens each, as much as a segment of 30 s may need, and 2,048 at least, so that
        one with many hot words has room too."""
        return cls(requests, max(MOST_TOKENS, _TOKENS_EACH * requests))

    @property
    def pages(self) -> int:
        """Pages of keys and values."""
        return self.tokens // PAGE_TOKENS


class Written(Protocol):
    """What transformers tells of a request after each of its tokens: all so far, and its end (`error` if it failed)."""

    @property
    def generated_tokens(self) -> list[int]:
        """The tokens, with the one that ended it."""
        ...

    @property
    def logprobs(self) -> list[float]:
        """The logarithm of each one's probability."""
        ...

    @property
    def error(self) -> str | None:
        """Why it failed: alone, or with all others of a loop that ends and `accepts` nothing by then."""
        ...

    def is_finished(self) -> bool:
        """Whether nothing follows."""
        ...


def check_transformers() -> None:
    """Raises ModelUnavailable where the installed transformers is older than what is used here."""
    from transformers.generation import ContinuousBatchingConfig

    if not {"page_size", "auto_switch_to_flash", "safety_margin"} <= set(ContinuousBatchingConfig.__annotations__):
        raise ModelUnavailable(f"continuous batches need transformers {TRANSFORMERS} or later")


class GenerationLoop:
    """Greedy decoding, owned by the thread whose event loop runs while `start`, `add` and `cancel` are called.

    Blocks of keys and values are not shared between prompts: what is shared is found by token ids, and an id of the
    virtual embedding means another row tomorrow. Room is never fought for, as its user admits only what fits.
    """

    def __init__(self, language_model: Any, ends: Collection[int], capacity: Capacity) -> None:
        from transformers import GenerationConfig
        from transformers.generation import ContinuousBatchingConfig

        # It prints by a handler of its own: that psutil is missing, which is for sizes that are given here, and ids.
        logging.getLogger("ContinuousBatchingLogger").setLevel(logging.CRITICAL)
        self._ends = sorted(ends)
        self._manager = language_model.init_continuous_batching(
            generation_config=GenerationConfig(do_sample=False, eos_token_id=self._ends),
            continuous_batching_config=ContinuousBatchingConfig(
                page_size=PAGE_TOKENS,
                num_blocks=capacity.pages,
                max_batch_tokens=max(capacity.step_tokens, capacity.requests),
                max_requests_per_batch=capacity.requests,
                allow_block_sharing=False,
                use_async_batching=False,
                use_cuda_graph=False,
                safety_margin=0.0,
                return_logprobs=True,
                auto_switch_to_flash=False,
            ),
        )

    @property
    def alive(self) -> bool:
        """Whether its thread runs."""
        return bool(self._manager.is_running())

    @property
    def accepts(self) -> bool:
        """Whether it has not begun to end, by an error of a step or by `stop`; from any thread."""
        return self._manager.background_thread_status.can_accept_new_requests() is None

    @property
    def failure(self) -> BaseException | None:
        """What ended it, if an error did; known once its thread has ended."""
        error: BaseException | None = self._manager.background_thread_status.fatal_error
        return error

    def start(self) -> None:
        """Starts its thread, which ends with the process if the caller's does; what fails there is a `failure`."""
        self._manager.start()

    def add(self, name: str, ids: Sequence[int], limit: int, heard: Callable[[Written], None]) -> bool:
        """Writes on from the prompt, at most `limit` tokens; calls back in the event loop for each of them.

        False: it has ended meanwhile, and perhaps nobody calls back. Where it ends later, each is called with an error.
        """
        self._manager.register_result_handler(name, heard)
        self._manager.add_request(
            list(ids), request_id=name, max_new_tokens=limit, streaming=True, eos_token_id=self._ends
        )
        return self.accepts  # it says that it ends before it fails those whom it has, so that no request falls between

    async def cancel(self, name: str) -> None:
        """Ends a request that has not finished; returns once the loop reads none of its rows any more, or has died.

        The loop reads its two queues one after the other, so that a cancellation could overtake what it cancels.
        """
        self._manager.output_router.result_handlers.pop(name, None)
        await self._until_read(self._manager.input_queue)
        self._manager.cancel_request(name)
        await self._until_read(self._manager.cancel_queue)

    def stop(self, timeout_s: float) -> None:
        """Ends the thread after its step and gives the memory back; blocks, at most so long."""
        self._manager.stop(block=True, timeout=timeout_s, hard_stop=True)

    async def _until_read(self, queue: Any) -> None:
        while self.alive and not queue.empty():  # noqa: ASYNC110 - its queues tell nobody that they were read
            await asyncio.sleep(_POLL_S)
