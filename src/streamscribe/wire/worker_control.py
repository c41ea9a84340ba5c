"""What a gateway process and its worker processes say to each other besides records and events, as JSON.

The two are of one installation and start together, so there are no versions here.
"""

from typing import Any, Literal, TypeVar

import msgspec

from streamscribe.core.errors import BadRequest, InternalError, StreamScribeError
from streamscribe.wire.bus_records import ERROR_CLASSES

T = TypeVar("T")


class Begin(msgspec.Struct, tag="begin", frozen=True):
    """The first word: which worker it is, and its settings, secrets included."""

    worker: int
    settings: dict[str, Any]


class Ask(msgspec.Struct, tag="ask", frozen=True, omit_defaults=True):
    """A question, answered by an `Answer` of the same id.

    `metrics`: the exposition's text. `facts`: what the caches hold. `outline`: their names only, without a look.
    `purge`: forgets all of `tenant`. `reload`: brings the models to `settings` (of `model`).
    """

    id: int
    what: Literal["metrics", "facts", "outline", "purge", "reload"]
    tenant: str | None = None
    settings: dict[str, Any] | None = None


class Stop(msgspec.Struct, tag="stop", frozen=True):
    """The worker is not needed any more."""


class Step(msgspec.Struct, frozen=True, array_like=True):
    """A model's step, as `models.replica.StepReport` tells it."""

    name: str
    batch_size: int
    batch_limit: int
    step_s: float
    audio_s: float
    live: int
    live_asked: int
    live_asked_s: float
    lag_s: float | None


class Status(msgspec.Struct, tag="status", frozen=True, omit_defaults=True):
    """How a worker is, several times a second: that it comes shows that the worker's event loop runs.

    `waiting_for` names what is not ready; `outage`: a model that was ready serves nobody now. `steps` and `lags_s` (of
    the event loop) are those since the last status.
    """

    waiting_for: tuple[str, ...]
    rss_bytes: int
    outage: bool = False
    warmup_s: dict[str, float] = {}
    steps: tuple[Step, ...] = ()
    lags_s: tuple[float, ...] = ()


class Problem(msgspec.Struct, frozen=True, omit_defaults=True):
    """What went wrong, as an error of `core.errors`."""

    code: str
    message: str
    retry_after_s: float | None = None

    @classmethod
    def of(cls, error: StreamScribeError) -> "Problem":
        """As it is told."""
        return cls(error.code, error.message, error.retry_after_s)

    def error(self) -> StreamScribeError:
        """As it is raised."""
        return ERROR_CLASSES.get(self.code, InternalError)(self.message, retry_after_s=self.retry_after_s)


class Answer(msgspec.Struct, tag="answer", frozen=True, omit_defaults=True):
    """What a question brought."""

    id: int
    value: msgspec.Raw = msgspec.Raw(b"null")
    problem: Problem | None = None


class Unfit(msgspec.Struct, tag="unfit", frozen=True):
    """The last word of a worker that cannot work with its settings."""

    problem: Problem


class Leaving(msgspec.Struct, tag="leaving", frozen=True):
    """The worker was asked by others (SIGTERM) to end: it works on until it is told to stop."""


ToWorker = Begin | Ask | Stop
ToGateway = Status | Answer | Unfit | Leaving

_to_worker = msgspec.json.Decoder(ToWorker)
_to_gateway = msgspec.json.Decoder(ToGateway)

encode = msgspec.json.Encoder().encode


def for_worker(data: bytes | memoryview) -> ToWorker:
    """What a gateway said; raises BadRequest for anything else."""
    return _decoded(_to_worker, data)


def for_gateway(data: bytes | memoryview) -> ToGateway:
    """What a worker said; raises BadRequest for anything else."""
    return _decoded(_to_gateway, data)


def _decoded(decoder: "msgspec.json.Decoder[T]", data: bytes | memoryview) -> T:
    try:
        return decoder.decode(data)
    except msgspec.MsgspecError:
        raise BadRequest("the peer's words are no control messages", field="control") from None
