"""Virtual time: an event loop whose clock jumps to the next timer, and processes in it that can stand still."""

import asyncio
import contextvars
import heapq
import threading
from collections import deque
from collections.abc import Callable, Coroutine
from concurrent.futures import Executor
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

_node: contextvars.ContextVar["Node | None"] = contextvars.ContextVar("node", default=None)

MAX_TURNS = 2_000_000
"""Turns of a loop: more than any run needs. A run that spins fails instead of hanging."""


class Stuck(Exception):
    """Nothing is ready, and no timer is set: the run would wait for ever."""


class Spinning(Exception):
    """The loop turns without end."""


class Node:
    """A process of the simulation: what it runs is marked by its context, so it can stand still as a whole."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.context = contextvars.copy_context()
        self.context.run(_node.set, self)
        self._frozen = False
        asyncio.get_running_loop().nodes.append(self)  # type: ignore[attr-defined]  # a VirtualLoop
        self._held: deque[_Due] = deque()

    @property
    def frozen(self) -> bool:
        """Whether it stands still."""
        return self._frozen

    def spawn(self, work: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        """A task of this process."""
        return asyncio.get_running_loop().create_task(work, name=self.name, context=self.context.copy())

    def call(self, callback: Callable[..., Any], *args: Any) -> None:
        """Calls in this process, in the loop's next turn."""
        asyncio.get_running_loop().call_soon(callback, *args, context=self.context)

    def freeze(self) -> None:
        """As SIGSTOP: from now on nothing of it runs, timers neither."""
        self._frozen = True

    async def stand_still(self, for_s: float) -> None:
        """For so long."""
        self.freeze()
        await asyncio.sleep(for_s)
        self.thaw()

    def thaw(self) -> None:
        """As SIGCONT: all that became due meanwhile runs, in its order."""
        self.thaw_in(asyncio.get_running_loop())

    def thaw_in(self, loop: asyncio.AbstractEventLoop) -> None:
        """As `thaw`, in a loop that stands still."""
        self._frozen = False
        while self._held:
            due = self._held.popleft()
            loop.call_soon(self._go_on, due, context=due.context)

    def run(self, due: "_Due") -> None:
        """A callback that is due: now, or once the process goes on."""
        if self._frozen:
            self._held.append(due)
        else:
            due.callback(*due.args)

    def _go_on(self, due: "_Due") -> None:
        if due.handle is None or not due.handle.cancelled():  # by one that was due before it
            self.run(due)


@dataclass(slots=True)
class _Due:
    """A callback of a process."""

    callback: Callable[..., Any]
    args: tuple[Any, ...]
    context: contextvars.Context
    handle: asyncio.Handle | None = None


class VirtualLoop(asyncio.BaseEventLoop):
    """Runs everything in one thread, at once where it is due, in an order that depends on nothing but the program.

    There are no sockets. Executors run their work at once, in the loop. A callback that another thread schedules is a
    defect of the simulation and raises.
    """

    def __init__(self) -> None:
        super().__init__()
        self._selector = self  # `BaseEventLoop` asks it for events between two turns, and how long it may wait
        self._now_s = 1000.0
        self._turns = 0
        self.failures: list[dict[str, Any]] = []
        self.left: list[str] = []
        """Tasks that were not done at the end."""
        self.nodes: list[Node] = []
        self.set_exception_handler(lambda loop, context: self.failures.append(context))

    def time(self) -> float:
        """Virtual seconds."""
        return self._now_s

    def jump(self, seconds: float) -> None:
        """The clock goes forward by so much at once, as after a machine's sleep."""
        self._now_s += seconds

    def select(self, timeout: float | None) -> list[Any]:
        """No event ever comes: the clock goes to the next timer."""
        self._turns += 1
        if self._turns > MAX_TURNS:
            raise Spinning
        if timeout is None:
            raise Stuck
        if timeout > 0:
            self._now_s = max(self._now_s, self._scheduled[0].when())
        return []

    def _process_events(self, event_list: list[Any]) -> None:
        pass

    def call_soon(
        self, callback: Callable[..., Any], *args: Any, context: contextvars.Context | None = None
    ) -> asyncio.Handle:
        """As of any loop, in the process whose context it is."""
        context = contextvars.copy_context() if context is None else context  # an empty one is false, and is meant
        node = context.get(_node)
        if node is None:
            return super().call_soon(callback, *args, context=context)
        due = _Due(callback, args, context)
        due.handle = super().call_soon(node.run, due, context=context)
        return due.handle

    def call_soon_threadsafe(
        self, callback: Callable[..., Any], *args: Any, context: contextvars.Context | None = None
    ) -> asyncio.Handle:
        """As `call_soon`; the only thread is the loop's."""
        assert threading.get_ident() == self._thread_id, "no other thread may speak to the loop of a simulation"
        return self.call_soon(callback, *args, context=context)

    def call_at(
        self, when: float, callback: Callable[..., Any], *args: Any, context: contextvars.Context | None = None
    ) -> asyncio.TimerHandle:
        """As of any loop, in the process whose context it is."""
        context = contextvars.copy_context() if context is None else context  # an empty one is false, and is meant
        node = context.get(_node)
        if node is None:
            return super().call_at(when, callback, *args, context=context)
        due = _Due(callback, args, context)
        due.handle = handle = super().call_at(when, node.run, due, context=context)
        return handle

    def run_in_executor(self, executor: Executor | None, func: Callable[..., Any], *args: Any) -> asyncio.Future[Any]:
        """Runs the work at once."""
        done = self.create_future()
        try:
            done.set_result(func(*args))
        except Exception as error:
            done.set_exception(error)
        return done

    def timers(self) -> list[asyncio.TimerHandle]:
        """Those that are still set."""
        return [handle for handle in heapq.nsmallest(len(self._scheduled), self._scheduled) if not handle.cancelled()]


def run_virtually(main: Callable[[], Coroutine[Any, Any, Any]]) -> tuple[Any, VirtualLoop]:
    """Runs a coroutine to its end in a loop of its own; the loop tells what went wrong beside it."""
    loop = VirtualLoop()
    try:
        result = loop.run_until_complete(loop.create_task(main()))
    except BaseException:
        _unwind(loop)
        raise
    finally:
        left = asyncio.all_tasks(loop)
        for one in left:
            one._log_destroy_pending = False  # type: ignore[attr-defined]  # the failure says more
        loop.left = [str(one) for one in left]
        loop.close()
    return result, loop


def _unwind(loop: VirtualLoop) -> None:
    """After a failure, so that what it leaves warns of nothing."""
    for node in loop.nodes:
        node.thaw_in(loop)
    tasks = asyncio.all_tasks(loop)
    for one in tasks:
        one.cancel()
    with suppress(Stuck, Spinning):
        loop.run_until_complete(loop.create_task(_ended(tasks)))


async def _ended(tasks: set[asyncio.Task[Any]]) -> None:
    await asyncio.gather(*tasks, return_exceptions=True)
