"""A session's record in Redis as people read it."""

from collections.abc import Callable, Sequence
from typing import TypeVar

from streamscribe.core.ids import LeaseEpoch, SessionId, TenantId
from streamscribe.core.session_table import Stage
from streamscribe.core.session_view import SessionView

FIELDS = (
    "since_us",
    "tenant",
    "called",
    "gateway",
    "stage",
    "received_ms",
    "processed_ms",
    "told_us",
    "owner",
    "lease_end_us",
    "epoch",
    "first_epoch",
    "checkpoint_ms",
    "saved_us",
    "models",
)
"""What is read of a record, in this order."""

_US = 1_000_000
_MAX_NUMBER = 2**53
"""As `common.lua` has it."""

_Read = TypeVar("_Read")


def read_as(kind: Callable[[str], _Read], text: bytes | str | None) -> _Read | None:
    """What Redis has of that kind; None where there is none, or nobody can read it."""
    if text is None:
        return None
    try:
        return kind(text.decode() if isinstance(text, bytes) else text)
    except ValueError:
        return None


def _number(text: str) -> int:
    """Raises ValueError for what no script of ours has written."""
    number = int(text)
    if not 0 <= number <= _MAX_NUMBER:
        raise ValueError("no script writes such a number")
    return number


def view_of(session_id: SessionId, values: Sequence[bytes | None], now_us: int) -> SessionView | None:
    """The view of a record's `FIELDS`; None where there is no record. Fields that nobody can read are left out."""
    texts = {
        name: text for name, value in zip(FIELDS, values, strict=True) if (text := read_as(str, value)) is not None
    }
    numbers = {
        name: number
        for name, text in texts.items()
        if name.endswith(("_us", "_ms", "epoch")) and (number := read_as(_number, text)) is not None
    }
    if "since_us" not in numbers:
        return None

    def ago_s(name: str) -> float | None:
        return max(0, now_us - numbers[name]) / _US if name in numbers else None

    held = numbers.get("lease_end_us", 0) > now_us
    epoch = numbers.get("epoch")
    return SessionView(
        session_id,
        age_s=ago_s("since_us") or 0.0,
        tenant_id=read_as(TenantId, texts.get("tenant")),
        called=read_as(SessionId, texts.get("called")),
        gateway=texts.get("gateway"),
        stage=read_as(Stage, texts.get("stage")),
        received_ms=numbers.get("received_ms"),
        processed_ms=numbers.get("processed_ms"),
        told_s=ago_s("told_us"),
        owner=texts.get("owner") if held else None,
        lease_s=(numbers["lease_end_us"] - now_us) / _US if held else None,
        epoch=LeaseEpoch(epoch) if epoch is not None else None,
        owners=epoch - numbers.get("first_epoch", epoch) + 1 if epoch is not None else 0,
        checkpoint_ms=numbers.get("checkpoint_ms"),
        saved_s=ago_s("saved_us"),
        models=tuple(texts.get("models", "").split()),
    )
