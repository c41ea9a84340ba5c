"""A replica whose engine doubles numbers, step by step as the test lets it."""

import asyncio
import threading

from streamscribe.core.batching import BatchPolicy, Priority
from streamscribe.core.errors import TooLarge
from streamscribe.models.pool import Replica

POISON = -1
REFUSED = -2
DEADLY = -3
HUGE = -4


class OutOfMemoryError(RuntimeError):
    """As PyTorch names its own."""


class Doubler:
    """An engine whose steps wait at a gate, so that tests choose what is queued when a step begins."""

    def __init__(self) -> None:
        self.gate = threading.Event()
        self.began = threading.Semaphore(0)
        self.steps: list[list[int]] = []
        self.room = 1000
        self.threads: set[str] = set()

    def step(self, batch):
        self.steps.append(list(batch))
        self.threads.add(threading.current_thread().name)
        self.began.release()
        self.gate.wait()
        if HUGE in batch or len(batch) > self.room:
            raise OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB")
        if DEADLY in batch:
            raise SystemExit
        if POISON in batch:
            raise ZeroDivisionError("secret words")
        if REFUSED in batch:
            raise TooLarge("too long for this model")
        return [2 * number for number in batch]


class Bench:
    """A running replica of a Doubler, and what its hooks reported."""

    def __init__(self, *, step_timeout_s=3600.0, **policy) -> None:
        self.engine = Doubler()
        self.reports = []
        self.errors = []
        self.replica: Replica[int, int] = Replica(
            "doubler",
            self.engine.step,
            policy=BatchPolicy(**policy),
            on_step=self.reports.append,
            on_error=lambda name, error: self.errors.append((name, error)),
            step_timeout_s=step_timeout_s,
        )
        self.replica.start()

    def submit(self, number, **how):
        how = {"priority": Priority.NORMAL, "audio_s": 1.0, **how}
        return asyncio.create_task(self.replica.submit(number, **how))

    async def occupy(self):
        """Returns once a step runs and waits at the gate."""
        task = self.submit(0)
        await asyncio.to_thread(self.engine.began.acquire)
        return task
