"""The error tree. A client branches on `code`, never on text; whether to retry is a fact of the error.

Each class carries a stable `code`, the HTTP status and WebSocket close code it maps to, and `retry`. The message is
safe to show: it names the field and the limit, and never holds speech, keys, paths or a traceback.
"""

from enum import StrEnum
from typing import ClassVar


class Retry(StrEnum):
    """What a client may do after the error."""

    NEVER = "never"
    AFTER = "after"
    RESUME = "resume"


class StreamScribeError(Exception):
    """Root of the tree; an instance is one failure that belongs to exactly one request or session."""

    code: ClassVar[str] = "internal"
    http_status: ClassVar[int] = 500
    close_code: ClassVar[int] = 1011
    retry: ClassVar[Retry] = Retry.AFTER
    default_message: ClassVar[str] = "internal error"

    def __init__(self, message: str | None = None, *, field: str | None = None, retry_after_s: float | None = None):
        self.message = message or self.default_message
        self.field = field
        self.retry_after_s = retry_after_s
        super().__init__(self.message)


class InternalError(StreamScribeError):
    """A defect of ours; the details are in the logs under the trace id."""


class Quarantined(StreamScribeError):
    """Workers ended at the session's audio, one after the other: it is not tried again."""

    code, http_status, close_code, retry = "quarantined", 500, 1011, Retry.NEVER
    default_message = "the session's audio stopped one worker after the other and is not tried again"


class BadRequest(StreamScribeError):
    """A message that is not of the protocol."""

    code, http_status, close_code, retry = "bad_request", 400, 4400, Retry.NEVER
    default_message = "the request is not valid"


class SequenceGap(BadRequest):
    """An audio sequence was missing for too long."""

    code, retry = "sequence_gap", Retry.RESUME
    default_message = "an audio sequence is missing"


class Unauthenticated(StreamScribeError):
    """No key, or one that is not valid."""

    code, http_status, close_code, retry = "unauthenticated", 401, 4401, Retry.NEVER
    default_message = "a valid API key is needed"


class Forbidden(StreamScribeError):
    """A valid key for something else."""

    code, http_status, close_code, retry = "forbidden", 403, 4403, Retry.NEVER
    default_message = "this key may not do that"


class NotFound(StreamScribeError):
    """No such route, model or resource."""

    code, http_status, close_code, retry = "not_found", 404, 4404, Retry.NEVER
    default_message = "not found"


class SessionNotFound(NotFound):
    """The session to resume is unknown, expired or another tenant's (the three look the same)."""

    code = "session_not_found"
    default_message = "the session is unknown or can no longer be resumed"


class ModelNotFound(NotFound):
    """The named model is not served here."""

    code = "model_not_found"
    default_message = "the model is not served here"


class MethodNotAllowed(StreamScribeError):
    """A route that exists, asked with a method that it does not have."""

    code, http_status, close_code, retry = "method_not_allowed", 405, 4400, Retry.NEVER
    default_message = "the method is not allowed here"


class Timeout(StreamScribeError):
    """Nothing came for too long: no first audio, idle, or a reader too slow for its results."""

    code, http_status, close_code, retry = "timeout", 408, 4408, Retry.NEVER
    default_message = "timed out"


class SlowReader(Timeout):
    """The client does not read its results."""

    code = "slow_reader"
    default_message = "results were not read in time"


class SessionSuperseded(StreamScribeError):
    """A newer connection took the session."""

    code, http_status, close_code, retry = "session_superseded", 409, 4409, Retry.NEVER
    default_message = "a newer connection resumed this session"


class TooLarge(StreamScribeError):
    """An upload, frame or field over its limit."""

    code, http_status, close_code, retry = "too_large", 413, 1009, Retry.NEVER
    default_message = "too large"


class AudioTooLong(TooLarge):
    """More audio than one session or request may carry."""

    code, close_code = "audio_too_long", 4413
    default_message = "the audio is too long"


class UnsupportedFormat(StreamScribeError):
    """Audio of a format that is not accepted here."""

    code, http_status, close_code, retry = "unsupported_format", 415, 4415, Retry.NEVER
    default_message = "the audio format is not supported"


class BadAudio(StreamScribeError):
    """A file of an accepted format that cannot be decoded: truncated, forged or empty."""

    code, http_status, close_code, retry = "bad_audio", 400, 4400, Retry.NEVER
    default_message = "the audio cannot be decoded"


class QuotaExceeded(StreamScribeError):
    """The tenant has as many sessions as it may have, or began as many within a minute."""

    code, http_status, close_code, retry = "quota_exceeded", 429, 4429, Retry.AFTER
    default_message = "tenant session quota exceeded"


class RateExceeded(StreamScribeError):
    """Chunks or audio faster than the hard bound."""

    code, http_status, close_code, retry = "rate_exceeded", 429, 4429, Retry.AFTER
    default_message = "audio arrives faster than the limit"


class Overloaded(StreamScribeError):
    """The service sheds this request to keep its promises to the others."""

    code, http_status, close_code, retry = "overloaded", 503, 1013, Retry.AFTER
    default_message = "the service is at its capacity"


class Draining(StreamScribeError):
    """The service is shutting down; its sessions end with it, so begin anew."""

    code, http_status, close_code, retry = "draining", 503, 1012, Retry.AFTER
    default_message = "the service is restarting"


class LeaseLost(StreamScribeError):
    """A write of an older epoch: another owner has the session."""

    code, http_status, close_code, retry = "lease_lost", 409, 1012, Retry.RESUME
    default_message = "another worker owns the session"


class ModelUnavailable(StreamScribeError):
    """The model cannot run: not installed, changed on disk, or failing."""

    code, http_status, close_code, retry = "model_unavailable", 503, 1013, Retry.AFTER
    default_message = "the model is not available"


class BusUnavailable(StreamScribeError):
    """The bus between the processes did not take a record in time, or cannot be used at all."""

    code, http_status, close_code, retry = "bus_unavailable", 503, 1013, Retry.AFTER
    default_message = "the bus between the processes is not available"


class CacheUnavailable(StreamScribeError):
    """What was asked of a cache (to purge, to count, to verify) is not done: its folder or server cannot be used."""

    code, http_status, close_code, retry = "cache_unavailable", 503, 1013, Retry.AFTER
    default_message = "the cache is not available"


class StoreUnavailable(StreamScribeError):
    """The session store is away, does not answer in time, or is full; what was asked of it may be done all the same."""

    code, http_status, close_code, retry = "store_unavailable", 503, 1013, Retry.AFTER
    default_message = "the session store is not available"


class FinalizationTimeout(StreamScribeError):
    """The last finals did not come in time."""

    code, http_status, close_code, retry = "finalization_timeout", 504, 1011, Retry.AFTER
    default_message = "the final results did not come in time"
