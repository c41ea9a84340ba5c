"""What a worker tells about its work; nothing spoken is in it."""

from typing import Protocol

from streamscribe.core.ids import TenantId


class WorkerObserver(Protocol):
    """Receives facts as they happen, on the event loop: must be quick and never raise."""

    def stream_opened(self, tenant_id: TenantId) -> None:
        """A worker has taken a session."""
        ...

    def stream_closed(self, tenant_id: TenantId) -> None:
        """The worker has forgotten it, for whatever reason."""
        ...

    def taken_over_with_other_models(self) -> None:
        """A session goes on here with other versions of models than it was heard with elsewhere."""
        ...

    def first_partial_sent(self, latency_s: float) -> None:
        """A live segment's first partial, so long after its voice began."""
        ...

    def partial_sent(self, interval_s: float) -> None:
        """A live segment's next partial, so long after the one before."""
        ...

    def final_sent(self, tenant_id: TenantId, latency_s: float | None, pass_: int, last: bool) -> None:
        """A pass's final, so long after its voice ended; None where the session is no live one."""
        ...

    def hotwords_sought(self, tenant_id: TenantId, found: bool) -> None:
        """A segment with text whose hot words were sought, and whether it has at least one of them."""
        ...

    def transcript_sought(self, found: bool) -> None:
        """A final was looked up among those that are kept, and whether it was there."""
        ...

    def segment_empty(self, tenant_id: TenantId) -> None:
        """A segment in which the model heard nobody speak."""
        ...

    def first_pass_failed(self, tenant_id: TenantId) -> None:
        """A segment that gets no first text: the pass that follows tells it."""
        ...

    def segment_degraded(self, tenant_id: TenantId) -> None:
        """A live segment whose last final is the text of its first pass: the second would have come too late."""
        ...

    def segment_failed(self, tenant_id: TenantId) -> None:
        """A segment whose final will not come; its session fails."""
        ...

    def segment_recognised(self, audio_s: float, elapsed_s: float) -> None:
        """What a final's decode took, its waiting included."""
        ...
