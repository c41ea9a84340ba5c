"""What workers of a cluster tell all gateways, and what these ask of them, as JSON in the store that they share.

Of several releases at once, while one replaces the other: fields that are not known are passed over, what is no
message of ours is as if it were not there.
"""

from typing import Annotated, Literal, TypeVar

import msgspec

from streamscribe.core.cluster_load import GatewayVoices, WorkerLoad
from streamscribe.core.ids import TenantId
from streamscribe.core.load import ModelLoad
from streamscribe.wire.worker_control import Problem

T = TypeVar("T")

What = Literal["facts", "outline", "purge"]


class Order(msgspec.Struct, frozen=True, omit_defaults=True):
    """To all workers. `facts`: what their caches hold. `outline`: the names only. `purge`: forget all of `tenant`."""

    what: What
    tenant: str | None = None


class Told(msgspec.Struct, frozen=True, omit_defaults=True):
    """A worker's answer to an order."""

    value: msgspec.Raw = msgspec.Raw(b"null")
    problem: Problem | None = None


_Figure = Annotated[float, msgspec.Meta(ge=0)]
_Count = Annotated[int, msgspec.Meta(ge=0, lt=2**31)]
"""Figures are reckoned with counts: one that no float can hold ends who does."""


class _Model(msgspec.Struct, frozen=True, array_like=True):
    name: str
    utilisation: _Figure
    heard: _Figure
    lag_p95_s: _Figure


class _Load(msgspec.Struct, frozen=True, omit_defaults=True):
    partitions: tuple[_Count, ...]
    voices: dict[_Count, tuple[_Count, _Count]]
    models: tuple[_Model, ...]
    outage: bool = False
    late_tenants: tuple[str, ...] = ()


encode = msgspec.json.Encoder().encode
_NO_SESSIONS = b"null"
_load = msgspec.json.Decoder(_Load)
_order = msgspec.json.Decoder(Order)
_told = msgspec.json.Decoder(Told)


def encode_load(load: WorkerLoad | None) -> bytes:
    """How a worker is; None: it takes no sessions."""
    if load is None:
        return _NO_SESSIONS
    models = tuple(
        _Model(m.name, round(m.utilisation, 4), round(m.heard, 2), round(m.lag_p95_s, 4)) for m in load.models
    )
    voices = {number: (one.voices, one.newcomers) for number, one in load.voices.items()}
    late = tuple(sorted(map(str, load.late)))
    return encode(_Load(tuple(sorted(load.partitions)), voices, models, load.outage, late))


def decode_load(data: bytes) -> WorkerLoad | None:
    """What `encode_load` wrote; None for anything else."""
    read = _decoded(_load, data)
    if read is None:
        return None
    models = tuple(ModelLoad(one.name, one.utilisation, one.heard, one.lag_p95_s) for one in read.models)
    voices = {number: GatewayVoices(*counts) for number, counts in read.voices.items()}
    try:
        late = frozenset(map(TenantId, read.late_tenants))
    except ValueError:
        return None
    return WorkerLoad(frozenset(read.partitions), voices, models, read.outage, late)


def takes_no_sessions(data: bytes) -> bool:
    """Whether a process tells that it runs and takes no sessions: a finalizer."""
    return data == _NO_SESSIONS


def decode_order(data: bytes) -> Order | None:
    """An order; None for what is none."""
    return _decoded(_order, data)


def decode_told(data: bytes) -> Told | None:
    """An answer; None for what is none."""
    return _decoded(_told, data)


def _decoded(decoder: "msgspec.json.Decoder[T]", data: bytes) -> T | None:
    try:
        return decoder.decode(data)
    except (msgspec.MsgspecError, RecursionError):  # nesting without an end
        return None
