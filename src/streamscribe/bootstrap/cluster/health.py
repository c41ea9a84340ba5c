"""Whether what a process shares with others, its brokers and its store, answers."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import NoReturn

from streamscribe.core.errors import StreamScribeError
from streamscribe.observe.logs import get_logger

CHECK_EVERY_S = 1.0

_log = get_logger(__name__)


class Health:
    """Asks each of some things again and again; what does not answer is in `lacking`, and in the log once."""

    def __init__(self, checks: dict[str, Callable[[], Awaitable[object]]]) -> None:
        self._checks = checks
        self._errors: dict[str, StreamScribeError] = {}

    def lacking(self) -> list[str]:
        """The names of what does not answer."""
        return list(self._errors)

    def error(self, name: str) -> StreamScribeError | None:
        """Why it does not answer; None where it does."""
        return self._errors.get(name)

    async def watch(self) -> NoReturn:
        """Until cancelled."""
        while True:
            await asyncio.gather(*map(self._check, self._checks))
            await asyncio.sleep(CHECK_EVERY_S)

    async def _check(self, name: str) -> None:
        try:
            await self._checks[name]()
        except StreamScribeError as error:
            if name not in self._errors:
                _log.warning("no answer", component=name, code=error.code)
            self._errors[name] = error
        else:
            if self._errors.pop(name, None) is not None:
                _log.info("answers again", component=name)
