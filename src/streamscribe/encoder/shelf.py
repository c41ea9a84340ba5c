"""The store of features as the service uses it: in a thread beside, with patience for as long as a look-up is worth."""

from collections.abc import Callable
from concurrent.futures import Future
from functools import partial
from itertools import count
from threading import Lock
from time import monotonic

from streamscribe.cache.purges import Purges
from streamscribe.core.cachekey import CacheKey
from streamscribe.core.ids import TenantId
from streamscribe.encoder.encoding import FeatureStore
from streamscribe.encoder.front import FrontThreads
from streamscribe.models.ports import EncoderInput
from streamscribe.observe.logs import get_logger

PATIENCE_S = 0.5
"""A look-up that takes longer is a miss: to compute the features takes tens of milliseconds."""
MAX_KEEPING = 16
"""Features that wait to be kept; further ones are not kept. Those of half a minute have about a megabyte."""

_CLOSE_S = 5.0
_FIRST, _LAST = 0.0, 1.0

_log = get_logger(__name__)


class FeatureShelf:
    """Looks features up and keeps them, in one thread of its own: a disk that hangs holds nobody for long.

    While something there hangs, each look-up is a miss at once, and nothing more is kept. Look-ups go before what is to
    be kept. What the store raises is logged, and a miss.
    """

    def __init__(self, store: FeatureStore, purges: Purges, name: str, *, patience_s: float = PATIENCE_S) -> None:
        """`purges` is that of whoever purges `store`."""
        self._store = store
        self._purges = purges
        self._patience_s = patience_s
        self._thread = FrontThreads(1, f"{name}-features")
        self._numbers = count()
        self._began_s: float | None = None
        self._lock = Lock()
        self._keeping = 0

    @property
    def hangs(self) -> bool:
        """Whether what runs has taken longer than there is patience for."""
        began_s = self._began_s
        return began_s is not None and monotonic() - began_s > self._patience_s

    def start(self) -> None:
        """Starts the thread."""
        self._thread.start()

    def get(self, key: CacheKey) -> EncoderInput | None:
        """The rows of the key; blocks for `patience_s` at most."""
        if self.hangs:
            return None
        answer: Future[EncoderInput | None] = Future()
        number = next(self._numbers)
        self._thread.run(_FIRST, number, partial(self._timed, partial(self._look, key, answer)))
        try:
            return answer.result(self._patience_s)
        except TimeoutError:
            self._thread.drop(number)
            return None

    def keep(self, tenant: TenantId | None, began: int, key: CacheKey, rows: EncoderInput) -> None:
        """Has them kept, unless the tenant's things are purged after `began`, as `Purges` counts; returns at once."""
        with self._lock:
            if self.hangs or self._keeping >= MAX_KEEPING:
                return
            self._keeping += 1
        keep = partial(self._purges.keep, tenant, began, partial(self._store.put, tenant, key, rows))
        self._thread.run(_LAST, next(self._numbers), partial(self._timed, partial(self._put, keep)))

    def close(self) -> None:
        """Ends the thread after what waits; one that hangs is left behind."""
        self._thread.close(0.0 if self.hangs else _CLOSE_S)

    def _timed(self, work: Callable[[], None]) -> None:
        self._began_s = monotonic()
        try:
            work()
        except Exception as error:  # noqa: BLE001 - the thread's edge: a disk may fail in any way
            _log.error("the store of features failed", exc_info=error)
        finally:
            self._began_s = None

    def _look(self, key: CacheKey, answer: "Future[EncoderInput | None]") -> None:
        rows = None
        try:
            rows = self._store.get(key)
        finally:
            answer.set_result(rows)

    def _put(self, keep: Callable[[], object]) -> None:
        try:
            keep()
        finally:
            with self._lock:
                self._keeping -= 1
