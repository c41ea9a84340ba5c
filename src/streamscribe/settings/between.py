"""What settings say of each other: pairs of which each is fine, and that lose sessions together."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from streamscribe.settings.base import SettingsError

if TYPE_CHECKING:
    from streamscribe.settings import Settings


def check(settings: "Settings") -> None:
    """Raises SettingsError, which names all settings of it, for the first contradiction."""
    for told in _contradictions(settings):
        raise SettingsError(told)


def _contradictions(settings: "Settings") -> Iterator[str]:
    limits, store, kafka, finalizer = settings.limits, settings.store, settings.kafka, settings.finalizer
    # A mark from which a session is read lies up to twice as far back as texts must be there, when its gateway ends.
    read_again_s = 2 * (limits.resume_window_s + limits.slow_reader_timeout_s) + limits.resume_window_s
    if kafka.retention_s < read_again_s:
        yield (
            f"settings kafka.retention_s, limits.resume_window_s and limits.slow_reader_timeout_s: a session that "
            f"comes to another gateway is read from up to {read_again_s:g} s ago, and the log keeps "
            f"{kafka.retention_s:g} s"
        )
    for name in ("timeout_s", "file_timeout_s"):
        waits_s = getattr(finalizer, name)
        if finalizer.enabled and kafka.retention_s < waits_s:
            yield (
                f"settings kafka.retention_s and finalizer.{name}: a segment may wait {waits_s:g} s for its text, and "
                f"the log keeps its audio for {kafka.retention_s:g} s"
            )
    away_s = limits.resume_window_s + store.seat_ttl_s
    if store.keep_s < away_s:
        yield (
            f"settings store.keep_s, limits.resume_window_s and store.seat_ttl_s: a client may come back for "
            f"{away_s:g} s to a session that is forgotten after {store.keep_s:g} s"
        )
    for name in ("lease_ttl_s", "seat_ttl_s"):
        ttl_s = getattr(store, name)
        if store.timeout_s > ttl_s:
            yield (
                f"settings store.timeout_s and store.{name}: Redis may take {store.timeout_s:g} s to answer who keeps "
                f"what ends after {ttl_s:g} s"
            )
