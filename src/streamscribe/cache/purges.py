"""Lets a purge hold for what is on its way: work that began before it keeps nothing after it."""

from collections import Counter
from collections.abc import Callable
from threading import Condition

from streamscribe.core.ids import TenantId
from streamscribe.core.integrity import ensure
from streamscribe.core.purges import PurgeEpochs


class Purges:
    """One for all that keeps things of one process; safe to use from many threads.

    Work asks `begin` when it begins, and hands in what it made by `keep`.
    """

    def __init__(self) -> None:
        self._epochs = PurgeEpochs()
        self._keeping: Counter[int] = Counter()
        self._changed = Condition()

    def begin(self) -> int:
        """When work begins: to be told to `keep`."""
        with self._changed:
            return self._epochs.now

    def keep(self, tenant: TenantId | None, began: int, put: Callable[[], object]) -> bool:
        """Calls `put`, which is to be quick, unless the tenant's things were purged since the work began."""
        with self._changed:
            if self._epochs.stale(tenant, began):
                return False
            epoch = self._epochs.now
            self._keeping[epoch] += 1
        try:
            return bool(put())
        finally:
            with self._changed:
                self._keeping[epoch] -= 1
                if not self._keeping[epoch]:
                    del self._keeping[epoch]
                    self._changed.notify_all()

    def purge(self, tenant: TenantId | None) -> None:
        """From now on nothing is kept of what began until now, for a tenant or for everyone.

        Returns when all that was being put has been put: what is purged then is all there is.
        """
        with self._changed:
            epoch = self._epochs.purge(tenant)
            self._changed.wait_for(lambda: min(self._keeping, default=epoch) >= epoch)

    def check_integrity(self) -> None:
        """The books' equation; what is being put is counted."""
        with self._changed:
            self._epochs.check_integrity()
            ensure(all(count > 0 for count in self._keeping.values()), "what is being put is positive")
