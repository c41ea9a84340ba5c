"""Keeps the garbage collector from holding up the event loop."""

import gc

THRESHOLDS = (10_000, 10, 10)
"""A tenth as often as Python would: sessions free their audio by reference counts, and leave cycles only rarely."""


def settle_collector() -> None:
    """Leaves all that exists by now (modules, models) out of later collections; call it once, when started.

    A full collection goes over every object: tens of milliseconds with the libraries of a server in memory.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(*THRESHOLDS)
