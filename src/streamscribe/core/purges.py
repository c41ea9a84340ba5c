"""Which work began before what it makes was purged: the books, without a lock."""

from collections import OrderedDict
from collections.abc import Hashable

from streamscribe.core.integrity import ensure

MAX_OWNERS = 1024


class PurgeEpochs:
    """Counts purges; the count at which work begins says later whether its owner's things were purged since.

    Of the owners purged last, `max_owners`, it is known exactly. Beyond that whoever's work began before the oldest
    purge that is forgotten counts as purged too: it is done again, which is better than kept.
    """

    def __init__(self, max_owners: int = MAX_OWNERS) -> None:
        self._max_owners = max_owners
        self._last: OrderedDict[Hashable, int] = OrderedDict()
        self._everyone = 0
        self.now = 0

    def purge(self, owner: Hashable = None) -> int:
        """All of an owner's is purged now, or of everyone; what begins from now on has at least the epoch returned."""
        self.now += 1
        if owner is None:
            self._everyone = self.now
            self._last.clear()
            return self.now
        self._last[owner] = self.now
        self._last.move_to_end(owner)
        if len(self._last) > self._max_owners:
            _, self._everyone = self._last.popitem(last=False)
        return self.now

    def stale(self, owner: Hashable, began: int) -> bool:
        """Whether what began at `began`, a value of `now`, must not be kept."""
        return began < max(self._everyone, self._last.get(owner, 0))

    def check_integrity(self) -> None:
        """Purges are told in order, those of everyone before those of owners, and of so many owners at most."""
        epochs = [self._everyone, *self._last.values()]
        ensure(epochs == sorted(epochs) and 0 <= epochs[-1] <= self.now, "0 <= everyone's <= owners' in order <= now")
        ensure(len(set(epochs)) == len(epochs), "each purge has an epoch of its own")
        ensure(len(self._last) <= self._max_owners, "owners <= max_owners")
