"""What a server needs of whatever recognises behind its gateway, in this process or in others."""

from collections.abc import Mapping
from typing import Protocol

from streamscribe.audio.decode import DecoderPool
from streamscribe.bootstrap.reload import Reloads
from streamscribe.gateway.app import Exposition
from streamscribe.gateway.hub import Hub
from streamscribe.gateway.rest.cache import CacheDesk


class Parts(Protocol):
    """A gateway's sessions, and the rest of the platform behind them."""

    @property
    def hub(self) -> Hub:
        """Its sessions."""
        ...

    @property
    def decoders(self) -> DecoderPool:
        """Who decodes files."""
        ...

    @property
    def exposition(self) -> Exposition:
        """All metrics."""
        ...

    @property
    def desk(self) -> CacheDesk | None:
        """What is kept; None where nothing is kept here."""
        ...

    @property
    def reloads(self) -> Reloads | None:
        """For SIGHUP; None where there are no models."""
        ...

    @property
    def warmup_s(self) -> Mapping[str, float]:
        """How long each model took to be warm."""
        ...

    def waiting_for(self) -> list[str]:
        """What is not ready, for `/readyz`; asked at each request."""
        ...

    async def wait_ready(self) -> None:
        """Returns when all is warm; raises ModelUnavailable when it cannot be."""
        ...
