"""What a worker asks of the stages that its models run in, and the pool of their parts."""

from collections.abc import Hashable
from typing import Protocol, TypeVar

from streamscribe.core.batching import BatchPolicy, Priority
from streamscribe.core.errors import ModelUnavailable
from streamscribe.core.fair_share import NOBODYS, Share

Req_contra = TypeVar("Req_contra", contravariant=True)
Res_co = TypeVar("Res_co", covariant=True)

THREAD_PREFIX = "replica-"
"""How the threads that own models are named; they may outlive `Part.close`, if their step does."""


class Part(Protocol):
    """Something that a model runs in: a replica, or what else owns threads."""

    @property
    def name(self) -> str:
        """What it is called in logs and metrics."""
        ...

    @property
    def ready(self) -> bool:
        """Whether it is warm, alive, and does not hang."""
        ...

    @property
    def inflight(self) -> int:
        """Requests that wait or run."""
        ...

    @property
    def warmup_s(self) -> float:
        """How long the warm-up took; 0 before its end."""
        ...

    def start(self) -> None:
        """Starts the warm-up and returns."""
        ...

    def wait_ready(self) -> None:
        """Blocks until it is warm; raises ModelUnavailable when that failed."""
        ...

    def outage(self) -> ModelUnavailable | None:
        """Why it would take no request now."""
        ...

    def fail_if_stalled(self) -> None:
        """Fails all that waits for a step that hangs; for a watchdog, from any thread."""
        ...

    def close(self) -> None:
        """Fails what waits and joins the threads; blocks until what runs has ended."""
        ...


class Stage(Protocol[Req_contra, Res_co]):
    """Answers requests of any number of sessions, one way or another in batches."""

    population: int
    """How many sessions may have a request."""

    @property
    def policy(self) -> BatchPolicy:
        """How its requests are gathered into steps."""
        ...

    @property
    def parts(self) -> "tuple[Part, ...]":
        """What it runs in."""
        ...

    async def submit(
        self,
        request: Req_contra,
        *,
        priority: Priority,
        audio_s: float,
        group: Hashable = None,
        exclusive: Hashable = None,
        share: Share = NOBODYS,
        patient: bool = False,
    ) -> Res_co:
        """The request's answer, as of `models.replica.Replica.submit`; cancelling gives the request up.

        Where there is no room a `patient` one waits for it: it may not be dropped. Others are refused as Overloaded.
        """
        ...
