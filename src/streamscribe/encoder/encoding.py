"""What the encoder service gives, and what it tells of its work."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

from streamscribe.core.cachekey import CacheKey
from streamscribe.core.ids import TenantId
from streamscribe.models.ports import Embedding, EncoderInput


class Lookup(StrEnum):
    """How a request came to its embedding."""

    HIT = "hit"
    """It was in the cache."""
    MERGED = "merged"
    """It was being encoded for somebody else."""
    MISS = "miss"
    """It was encoded."""
    INVALID = "invalid"
    """What was in the cache is not an embedding of this audio; it was encoded anew, for this request or another."""
    BYPASS = "bypass"
    """It was encoded without a look at the cache: a draft, what nothing may be kept of, or silence, which is not."""


@dataclass(frozen=True, slots=True)
class Encoding:
    """A complete and valid embedding; it cannot be written to.

    `silent` audio is not encoded and has no rows. Drafts and silence have no fingerprint.
    """

    embedding: Embedding
    audio_fingerprint: str
    num_audio_tokens: int
    lookup: Lookup
    silent: bool = False


@dataclass(frozen=True, slots=True)
class EncodedStep:
    """One step of the encoder: `padded_share` is the part of what was read that was padding.

    `fallbacks` are the passes that it took more because some failed; `failed` requests got an error.
    """

    batch_size: int
    padded_share: float
    queue_wait_s: float
    encode_s: float
    audio_s: float
    fallbacks: int
    failed: int


class EncoderObserver(Protocol):
    """Counts what happens; called from several threads, and quick."""

    def looked_up(self, result: Lookup, saved_s: float) -> None:
        """A request has its embedding, and was spared about so many seconds of encoding."""
        ...

    def read(self, spent_s: float) -> None:
        """The front end has read a segment, which took so long."""
        ...

    def encoded(self, step: EncodedStep) -> None:
        """A step is over."""
        ...

    def cancelled(self) -> None:
        """The last who waited for an encoding has left."""
        ...


class FeatureStore(Protocol):
    """Keeps what encoders read; blocking, called from several threads."""

    def get(self, key: CacheKey) -> EncoderInput | None:
        """The rows of the key."""
        ...

    def put(self, tenant: TenantId | None, key: CacheKey, rows: EncoderInput) -> None:
        """Keeps them if there is room."""
        ...
