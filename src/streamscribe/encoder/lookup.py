"""What is known of audio before it is encoded, and what is kept of it afterwards."""

from functools import partial
from time import monotonic

import numpy as np

from streamscribe.audio.fingerprint import Fingerprints
from streamscribe.cache.purges import Purges
from streamscribe.cache.stage_output import StageOutputCache
from streamscribe.core.audio import SAMPLE_RATE
from streamscribe.core.cachekey import CacheKey, CacheKeys
from streamscribe.core.errors import AudioTooLong
from streamscribe.encoder.encoding import EncoderObserver, Lookup
from streamscribe.encoder.flight import Caller
from streamscribe.encoder.shelf import FeatureShelf
from streamscribe.models.embedding import flaw, frozen
from streamscribe.models.guards import is_silent
from streamscribe.models.ports import AudioEncoder, Embedding, EncoderInput, SegmentRequest, Window
from streamscribe.models.warm_up import noise


class AudioLookup:
    """Fingerprints audio, looks it up, reads it for the encoder, and keeps what was encoded.

    What it gives and keeps are embeddings of that audio, or nothing. It blocks: it is called in front threads.
    """

    def __init__(
        self,
        encoder: AudioEncoder,
        *,
        weights: str,
        fingerprints: Fingerprints,
        keys: CacheKeys,
        cache: StageOutputCache | None,
        features: FeatureShelf | None,
        purges: Purges,
        observer: EncoderObserver,
    ) -> None:
        self._encoder = encoder
        self._identity = (weights, *encoder.encoder_identity)
        self._fingerprints = fingerprints
        self._keys = keys
        self._cache = cache
        self._features = features
        self._purges = purges
        self._observer = observer
        self._opened = False
        longest = noise(encoder.max_samples)
        self._size_per_s = encoder.features(longest).size / len(longest) * SAMPLE_RATE

    def find(self, caller: Caller, request: SegmentRequest) -> Embedding | None:
        """What needs no encoding: silence, and what the cache has. The caller gets its fingerprint and key.

        Raises AudioTooLong, and BadRequest for what is no audio.
        """
        if caller.num_samples > self._encoder.max_samples:
            raise AudioTooLong("a segment is longer than the model takes")
        if not caller.store:
            caller.lookup = Lookup.BYPASS
        if is_silent(request.samples):
            caller.lookup, caller.silent = Lookup.BYPASS, True
            return frozen(np.zeros((0, self._encoder.width), np.float32))
        if request.draft:
            return None
        caller.fingerprint = self._fingerprints.of(caller.tenant, request.samples)
        described = (*self._identity, caller.window.value, caller.fingerprint)
        caller.key = self._keys.derive(caller.tenant, "embedding", *described)
        return self.cached(caller)

    def cached(self, caller: Caller) -> Embedding | None:
        """A valid embedding of the cache; an invalid one is removed, unless another has taken its place since."""
        key = caller.key
        if self._cache is None or key is None or not caller.store:
            return None
        embedding = self._cache.get(key)
        if embedding is None:
            return None
        if flaw(embedding, self.rows(caller), self._encoder.width) is None:
            if caller.lookup is not Lookup.INVALID:  # what it found at first
                caller.lookup = Lookup.HIT
            return embedding
        caller.lookup = Lookup.INVALID
        self._cache.remove_if_same(key, embedding)
        return None

    def read(self, caller: Caller, request: SegmentRequest) -> tuple[EncoderInput, CacheKey | None]:
        """What the encoder reads of the audio, from the store of features where it is there.

        With a key it is to be kept there.
        """
        if self._features is None or not caller.store:
            return self._features_of(request, caller.window), None
        key = self._keys.derive(
            caller.tenant, "features", *self._encoder.front_end, caller.window.value, caller.fingerprint
        )
        found = self._features.get(key)
        return (self._features_of(request, caller.window), key) if found is None else (found, None)

    def keep_read(self, caller: Caller, key: CacheKey, read: EncoderInput) -> None:
        """Has it kept, unless its tenant's things are purged since the caller came; returns at once."""
        if self._features is not None:
            self._features.keep(caller.tenant, caller.began, key, read)

    def read_s(self, read: EncoderInput) -> float:
        """How many seconds the encoder reads there: audio, and what its window has beside that."""
        return read.size / self._size_per_s

    def keep(self, caller: Caller, began: int, embedding: Embedding) -> None:
        """Keeps what was encoded for the caller, unless its tenant's things were purged since `began`."""
        if self._cache is not None and caller.key is not None:
            put = partial(self._cache.put, caller.tenant, caller.key, embedding, self._identity)
            self._purges.keep(caller.tenant, began, put)

    def answered(self, caller: Caller) -> None:
        """The caller has its answer: what the cache was to it is counted, once. What was merged it neither had nor
        missed: that is spared without a cache too."""
        if self._cache is not None and caller.lookup in (Lookup.HIT, Lookup.MISS, Lookup.INVALID):
            self._cache.looked_up(found=caller.lookup is Lookup.HIT)

    def open(self) -> None:
        """This encoder's embeddings may be kept from now on, and features looked up."""
        if self._features is not None:
            self._features.start()
        if self._cache is not None and not self._opened:
            self._cache.enter(self._identity)
        self._opened = True

    def close(self) -> None:
        """Nobody asks for embeddings here any more: they go, unless another service has the same encoder."""
        if self._features is not None:
            self._features.close()
        if self._cache is not None and self._opened:
            self._cache.leave(self._identity)
        self._opened = False

    def rows(self, caller: Caller) -> int:
        """How many rows the caller's embedding must have: the model's own rule."""
        return self._encoder.num_tokens(caller.num_samples, caller.window)

    def _features_of(self, request: SegmentRequest, window: Window) -> EncoderInput:
        began_s = monotonic()
        read = self._encoder.features(request.samples, request.frames, window)
        self._observer.read(monotonic() - began_s)
        return read
