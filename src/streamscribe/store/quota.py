"""Why a tenant's session may not begin, in the same words by every session store."""

from streamscribe.core.admission import QUOTA_RETRY_S
from streamscribe.core.errors import QuotaExceeded


def seats_taken() -> QuotaExceeded:
    """The tenant has as many sessions at once as it may have."""
    return QuotaExceeded(retry_after_s=QUOTA_RETRY_S)


def too_many_a_minute(max_per_minute: int, wait_s: float) -> QuotaExceeded:
    """The tenant has begun as many sessions within a minute as it may; one more in `wait_s`."""
    return QuotaExceeded(f"at most {max_per_minute} sessions may begin in a minute", retry_after_s=wait_s)
