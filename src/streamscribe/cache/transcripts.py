"""What models said of a segment, kept so that equal audio that is asked about alike runs no model again.

Kept is what the models gave, not the text that people read: hot words, numbers, rules and redaction work on it anew
each time, so that a tenant's changed list never meets an old text.
"""

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass

import msgspec

from streamscribe import __version__
from streamscribe.audio.fingerprint import Fingerprints
from streamscribe.cache.purges import Purges
from streamscribe.core.cachekey import CacheKey, CacheKeys, Field
from streamscribe.core.errors import CacheUnavailable
from streamscribe.core.ids import TenantId
from streamscribe.core.tokens import Mark
from streamscribe.models.ports import Hypothesis, Identity, SegmentRequest
from streamscribe.ports import BlobStore

KIND = "transcript"
_SCHEMA = 1


@dataclass(frozen=True, slots=True)
class Said:
    """The recogniser's hypothesis, its words relative to the segment, and a punctuation model's marks for its text."""

    heard: Hypothesis
    marks: tuple[Mark, ...] = ()


@dataclass(frozen=True, slots=True)
class AnswerKey:
    """Under which key an answer is to be kept, and when work on it began, as `Purges` counts."""

    cache_key: CacheKey
    began: int


@dataclass(frozen=True, slots=True)
class Found:
    """What a look-up brought, and the key under which the answer is to be kept; no key: it is not to be."""

    key: AnswerKey | None = None
    said: Said | None = None


@dataclass(frozen=True, slots=True)
class Sources:
    """What answers depend on besides the request: who recognises, and who punctuates, if anybody is to.

    The identities hold the sums of the weights.
    """

    recognizer: Identity
    punctuator: Identity | None


class Transcripts:
    """Keeps answers of deterministic models for at most `ttl_s`; blocking, to be called from worker threads.

    An answer is found for the same tenant, samples and sources, and the same wishes: language, task, hot words with
    their weights, words, itn, punctuation, and after the same context. Drafts, and what may not be stored, are neither
    looked up nor kept.
    """

    def __init__(
        self,
        blobs: BlobStore,
        keys: CacheKeys,
        fingerprints: Fingerprints,
        *,
        ttl_s: float,
        purges: Purges | None = None,
    ) -> None:
        self._purges = purges or Purges()
        self._blobs = blobs
        self._keys = keys
        self._fingerprints = fingerprints
        self._ttl_s = ttl_s

    def find(self, request: SegmentRequest, sources: Sources) -> Found:
        """What these models said of an equal segment that was asked about alike. Raises BadRequest for NaN in it."""
        if request.draft or not request.store:
            return Found()
        began = self._purges.begin()
        key = AnswerKey(self._key(request, sources), began)
        return Found(key, self._read(key.cache_key))

    def keep(self, tenant: TenantId | None, key: AnswerKey, said: Said) -> bool:
        """Keeps an answer under the key that `find` gave.

        False: there is no room, the storage fails, or the tenant's answers were purged since it was looked for.
        """
        stored = self._keys.owner(tenant), key.cache_key, _encode(said), self._ttl_s
        return self._purges.keep(tenant, key.began, lambda: self._blobs.put(*stored))

    def _read(self, key: CacheKey) -> Said | None:
        blob = self._blobs.get(key)
        if blob is None:
            return None
        try:
            return _decode(blob.data)
        except msgspec.DecodeError:
            with suppress(CacheUnavailable):
                self._blobs.remove(key)
            return None

    def _key(self, request: SegmentRequest, sources: Sources) -> CacheKey:
        fields = (
            _SCHEMA,
            __version__,
            self._fingerprints.of(request.tenant_id, request.samples),
            request.frames is None,
            request.language,
            request.task.value,
            request.words,
            request.itn,
            request.context,
            *_listed(sources.recognizer),
            *_listed(sources.punctuator),
            len(request.hotwords),
            *(field for hotword in request.hotwords for field in (hotword.phrase, float(hotword.weight).hex())),
        )
        return self._keys.derive(request.tenant_id, KIND, *fields)


def _listed(identity: Identity | None) -> Iterator[Field]:
    """An identity between others: its length tells where it ends, None that there is none."""
    yield None if identity is None else len(identity)
    yield from identity or ()


_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(Said).decode
