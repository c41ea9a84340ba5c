"""Several addresses of one service: which is asked now, and how long for."""

from collections.abc import Sequence

OPEN_TIMEOUT_S = 10.0
HASTY_TIMEOUT_S = 2.0
"""A frozen process's kernel takes connections that nobody answers: a server that lives has answered long before."""


class Addresses:
    """Goes round and round. With several, none is waited for as long as it may take, while others are left to ask."""

    def __init__(self, urls: Sequence[str]) -> None:
        self._urls = tuple(dict.fromkeys(urls))
        self._at = 0
        self._asked = 0

    def __len__(self) -> int:
        """How many there are."""
        return len(self._urls)

    @property
    def current(self) -> str:
        """The one to ask."""
        return self._urls[self._at % len(self._urls)]

    def begin(self) -> None:
        """Nobody has been asked yet, of those who are asked now."""
        self._asked = 0

    def move_on(self) -> None:
        """The next one."""
        self._at += 1
        self._asked += 1

    def patience_s(self, *, last: bool = False) -> float:
        """For an answer of the current one: twice as long in each round, unless it is the only one, or the `last`."""
        if last or len(self._urls) == 1:
            return OPEN_TIMEOUT_S
        return min(OPEN_TIMEOUT_S, HASTY_TIMEOUT_S * 2.0 ** (self._asked // len(self._urls)))
