"""What the session store says of gateways' numbers."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class NumbersTaken:
    """None of some numbers is free: when the first of them and the last would be, and whose the first is."""

    first_ends_us: int
    last_ends_us: int
    holder: str
