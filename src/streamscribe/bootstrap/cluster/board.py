"""Both ends of a cluster's notice board: workers tell their load and do what is asked of all, gateways read and ask."""

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING, Any, NoReturn

import msgspec

from streamscribe.bootstrap.cluster.door import WorkersDoor
from streamscribe.bootstrap.desk import Asked, LevelsDesk, not_all
from streamscribe.cache.levels import Levels
from streamscribe.core.cluster_load import WorkerLoad
from streamscribe.core.errors import CacheUnavailable, InternalError, StoreUnavailable, StreamScribeError
from streamscribe.core.ids import TenantId
from streamscribe.observe.logs import get_logger
from streamscribe.settings import StoreSettings
from streamscribe.wire import worker_board as wire
from streamscribe.wire.worker_control import Problem

if TYPE_CHECKING:
    from streamscribe.store.redis_board import Posted, RedisBoard

EVERY_S = 0.25
BLIND_AFTER_S = 2.0
"""A gateway that could read nothing for so long knows nothing of the workers."""
LOOK_FOR_ANSWERS_EVERY_S = 0.1
ANSWERS_TIMEOUT_S = 60.0
"""How long all workers may take: a purge of Redis walks all its keys."""
MAX_WAITING = 16
ANSWER_TRIES = 8
"""Each `EVERY_S` after the other: what was done is told also where Redis was away for a moment."""

_log = get_logger(__name__)


@asynccontextmanager
async def open_board(settings: StoreSettings, timeout_s: float | None = None) -> "AsyncIterator[RedisBoard]":
    """That of the store's Redis, which is named and whose package is here (`bootstrap.sessions`).

    `timeout_s` in place of the setting.
    """
    from streamscribe.store.redis_board import RedisBoard

    assert settings.redis_url is not None  # noqa: S101 - the caller has opened the store
    board = RedisBoard(settings.redis_url.get_secret_value(), timeout_s or settings.timeout_s)
    try:
        yield board
    finally:
        await board.close()


async def loads_on(board: "RedisBoard") -> dict[str, WorkerLoad]:
    """What workers tell of their load now. Raises StoreUnavailable."""
    told = {name: wire.decode_load(text) for name, text in (await board.announced()).items()}
    return {name: load for name, load in told.items() if load is not None}


Look = Callable[[], WorkerLoad | None]
"""What is told of a process; nothing of one that takes no sessions."""
BoardWork = Callable[["RedisBoard"], Coroutine[Any, Any, NoReturn]]
"""What a process does with the board as long as it is on it."""


class BoardWriter:
    """A worker's end: says how it is several times a second, and does what is ordered, one thing after the other.

    While the store does not answer, nothing is told and nothing is heard.
    """

    def __init__(self, board: "RedisBoard", worker: str, look: Look, desk: LevelsDesk) -> None:
        self._board = board
        self._worker = worker
        self._look = look
        self._desk = desk
        self._orders: asyncio.Queue[Posted] = asyncio.Queue(MAX_WAITING)

    async def run(self) -> NoReturn:
        """Until cancelled; then what it told is withdrawn."""
        try:
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(self._do_all())
                tasks.create_task(self._tell_all())
        finally:
            with suppress(StoreUnavailable):
                await self._board.withdraw(self._worker)
        raise AssertionError("only a cancellation ends it")

    async def _tell_all(self) -> NoReturn:
        heard = 0
        while True:
            with suppress(StoreUnavailable):  # the process' health says so
                for posted in await self._board.announce(self._worker, wire.encode_load(self._look()), heard):
                    if self._orders.full():
                        break
                    heard = posted.number
                    if posted.asked or _outlasts(posted):
                        self._orders.put_nowait(posted)
            await asyncio.sleep(EVERY_S)

    async def _do_all(self) -> NoReturn:
        while True:
            posted = await self._orders.get()
            answer = wire.encode(await self._answer(posted))
            for _ in range(ANSWER_TRIES):  # none of them: who asked hears that it is not done
                with suppress(StoreUnavailable):
                    await self._board.answer(posted.number, self._worker, answer)
                    break
                await asyncio.sleep(EVERY_S)

    async def _answer(self, posted: "Posted") -> wire.Told:
        order = wire.decode_order(posted.text)
        try:
            if order is None:
                raise CacheUnavailable("this worker does not know what was asked")
            return wire.Told(msgspec.Raw(wire.encode(await self._desk.answer(order.what, order.tenant))))
        except StreamScribeError as error:
            return wire.Told(problem=Problem.of(error))
        except Exception as error:  # noqa: BLE001 - the process' edge: a defect is this order's alone
            _log.error("an order was not done", exc_info=error)
            return wire.Told(problem=Problem.of(InternalError()))


@asynccontextmanager
async def on_board(
    settings: StoreSettings,
    name: str,
    look: Look,
    levels: Levels,
    *others: BoardWork,
) -> AsyncIterator[None]:
    """As long as this lasts gateways know of a process, by what `look` says, and may ask it of what it keeps.

    `others` run so long too, with the board.
    """
    async with open_board(settings) as board, asyncio.TaskGroup() as tasks:
        with suppress(StoreUnavailable):
            await board.announce(name, wire.encode_load(look()), 0)  # before anybody hears that it is ready
        writing = BoardWriter(board, name, look, LevelsDesk(levels)).run()
        running = [tasks.create_task(work) for work in (writing, *(other(board) for other in others))]
        try:
            yield
        finally:
            for task in running:
                task.cancel()


class BoardReader:
    """A gateway's end: gives the door what workers tell, and asks all of them."""

    def __init__(self, board: "RedisBoard", door: WorkersDoor) -> None:
        self._board = board
        self._door = door

    async def read(self) -> None:
        """Reads once. Raises StoreUnavailable."""
        self._door.heard(await loads_on(self._board))

    async def run(self) -> NoReturn:
        """Until cancelled."""
        loop = asyncio.get_running_loop()
        read_at = loop.time()
        while True:
            try:
                await self.read()
                read_at = loop.time()
            except StoreUnavailable:
                if loop.time() - read_at > BLIND_AFTER_S:
                    self._door.heard(None)
            await asyncio.sleep(EVERY_S)

    async def ask_all(self, asked: Asked, tenant: TenantId | None) -> Sequence[msgspec.Raw]:
        """The answers of all workers that tell their load now. Raises CacheUnavailable where one is missing.

        What is to be purged is also purged by workers that start within the next ten minutes.
        """
        try:
            order = wire.Order(asked, None if tenant is None else str(tenant))
            number, workers = await self._board.order(wire.encode(order))
            answers = await self._answers(number, set(workers))
        except StoreUnavailable as error:
            raise CacheUnavailable(f"workers cannot be asked: {error.message}", retry_after_s=1.0) from None
        good = [answer.value for answer in answers if answer.problem is None]
        if not workers or len(good) < len(workers):
            raise not_all(len(workers) - len(good), len(workers))
        return good

    async def _answers(self, number: int, workers: set[str]) -> list[wire.Told]:
        """Those that have come when all have, or the time is over."""
        loop = asyncio.get_running_loop()
        until = loop.time() + ANSWERS_TIMEOUT_S
        while True:
            found = await self._board.answers(number)
            if workers <= found.keys() or loop.time() > until:
                read = [wire.decode_told(text) for name, text in found.items() if name in workers]
                return [one for one in read if one is not None]
            await asyncio.sleep(LOOK_FOR_ANSWERS_EVERY_S)


def _outlasts(posted: "Posted") -> bool:
    """Whether who was not asked does it too: it has just started, and what it had kept before may lie on its disk."""
    order = wire.decode_order(posted.text)
    return order is not None and order.what == "purge"
