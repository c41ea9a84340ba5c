"""Who waits for a replica's answers, in an event loop or a thread, and how they get them."""

import asyncio
from collections.abc import Sequence
from concurrent.futures import Future, InvalidStateError
from contextlib import suppress
from dataclasses import dataclass
from typing import Generic, TypeVar

from streamscribe.core.errors import InternalError, StreamScribeError

Req = TypeVar("Req")
Res = TypeVar("Res")


@dataclass(slots=True)
class Pending(Generic[Req, Res]):
    """Who asked, and where the answer goes: to a future of an event loop, or of a thread."""

    request: Req
    future: "asyncio.Future[Res] | Future[Res]"
    loop: asyncio.AbstractEventLoop | None
    answer: Res | None = None
    error: StreamScribeError | None = None


def deliver(pending: Sequence[Pending[Req, Res]]) -> None:
    """Hands each its answer or error: one call for each event loop, not for each request."""
    for loop in {id(one.loop): one.loop for one in pending}.values():
        if loop is None:
            _settle([one for one in pending if one.loop is None])
            continue
        try:
            loop.call_soon_threadsafe(_settle, [one for one in pending if one.loop is loop])
        except RuntimeError:
            continue  # that loop is closed: nobody waits there


def _settle(pending: Sequence[Pending[Req, Res]]) -> None:
    for one in pending:
        if one.future.done():
            continue
        with suppress(InvalidStateError):  # a thread has cancelled it just now
            if one.error is not None:
                one.future.set_exception(one.error)
            else:
                one.future.set_result(one.answer)  # type: ignore[arg-type]  # None only where Res allows it


def shown(error: Exception) -> StreamScribeError:
    """What the requester may see of it; its traceback, and what it was raised in, would keep the batch alive."""
    if not isinstance(error, StreamScribeError):
        return InternalError()
    error.__cause__ = error.__context__ = None
    return error.with_traceback(None)
