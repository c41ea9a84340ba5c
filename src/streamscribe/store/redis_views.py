"""A session's record in Redis as people read it."""

from collections.abc import Sequence

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
)
"""What is read of a record, in this order."""

_US = 1_000_000


def view_of(session_id: SessionId, values: Sequence[bytes | None], now_us: int) -> SessionView | None:
    """The view of a record's `FIELDS`; None where there is no record."""
    texts = {name: value.decode() for name, value in zip(FIELDS, values, strict=True) if value is not None}
    numbers = {name: int(text) for name, text in texts.items() if name.endswith(("_us", "_ms", "epoch"))}
    if "since_us" not in numbers:
        return None

    def ago_s(name: str) -> float | None:
        return max(0, now_us - numbers[name]) / _US if name in numbers else None

    held = numbers.get("lease_end_us", 0) > now_us
    epoch = numbers.get("epoch")
    return SessionView(
        session_id,
        age_s=ago_s("since_us") or 0.0,
        tenant_id=TenantId(texts["tenant"]) if "tenant" in texts else None,
        called=SessionId(texts["called"]) if "called" in texts else None,
        gateway=texts.get("gateway"),
        stage=Stage(texts["stage"]) if "stage" in texts else None,
        received_ms=numbers.get("received_ms"),
        processed_ms=numbers.get("processed_ms"),
        told_s=ago_s("told_us"),
        owner=texts.get("owner") if held else None,
        lease_s=(numbers["lease_end_us"] - now_us) / _US if held else None,
        epoch=LeaseEpoch(epoch) if epoch is not None else None,
        owners=epoch - numbers["first_epoch"] + 1 if epoch is not None else 0,
        checkpoint_ms=numbers.get("checkpoint_ms"),
        saved_s=ago_s("saved_us"),
    )
