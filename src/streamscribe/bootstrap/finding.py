"""What a look at something that is not this process has found, for `doctor`."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing looked at; without `needed` a server runs all the same."""

    name: str
    ok: bool
    detail: str
    type_this: str = ""
    needed: bool = True
