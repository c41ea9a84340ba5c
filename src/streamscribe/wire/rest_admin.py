"""What `/admin` answers."""

import msgspec


class Drained(msgspec.Struct, frozen=True):
    """So many sessions are asked to go by `deadline_ms` from now; `movable` of them can go on at another gateway."""

    sessions: int
    movable: int
    deadline_ms: int
    object: str = "gateway.drain"
