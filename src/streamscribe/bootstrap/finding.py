"""What a look at what a server needs has found, for `doctor`."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing looked at; `needed` ones that are not `ok` fail the command, without the others a server runs."""

    name: str
    ok: bool
    detail: str
    type_this: str = ""
    needed: bool = True
