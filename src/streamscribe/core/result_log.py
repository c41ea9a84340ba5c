"""The results of a session: each told once, in order, and kept for a resume."""

from collections import deque
from dataclasses import replace

from streamscribe.core.integrity import ensure
from streamscribe.core.records import RulesHit
from streamscribe.core.results import Result
from streamscribe.core.session_mark import ResultMark, runs_of
from streamscribe.core.transcript import continue_from

_REMEMBERED_FINALS = 1024
"""Segments are opened in order and few are open at once, so an older one is closed for good."""

_KEPT_PARTIALS = 16
"""More segments than are ever open at once; a partial is lossy, so losing one is no harm."""

_RESULT_BYTES = 200
_WORD_BYTES = 120
_CHAR_BYTES = 4
_HIT_BYTES = 500
"""A hit's names and phrase are bounded where the rules are read."""


def size_of(result: Result) -> int:
    """Bytes that a result holds, estimated from above without looking at each word."""
    return _RESULT_BYTES + _CHAR_BYTES * len(result.text) + _WORD_BYTES * len(result.words)


class ResultLog:
    """Keeps law 3 on the client's side of the bus, and what a resume must send again.

    Where one worker takes a session over from another, much is told again: each final is taken once a segment and pass,
    and a partial if it is of more audio than the one before it, whose stable text it keeps. The log gives what it takes
    the session's next version, so that versions grow whoever tells. An empty final takes back a text that stands; where
    none does it is not told.

    Finals are kept, with what the rules found in them, up to `max_bytes`, the oldest are dropped first; of partials
    only the newest of each segment that has no final yet, as a client overwrites them anyway.
    """

    def __init__(self, max_bytes: int, mark: ResultMark | None = None) -> None:
        """Goes on behind a `mark`, before which nothing is held any more."""
        self._max_bytes = max_bytes
        self._finals: deque[tuple[Result, int]] = deque()
        self._hits: dict[int, RulesHit] = {}
        self._expected: RulesHit | None = None
        self._bytes = 0
        self._partials: dict[int, Result] = {}
        self._last_version = 0
        self._dropped_version = 0
        self._final_pass: dict[int, int] = {}
        self._told: set[int] = set()
        self._closed_up_to = -1
        if mark is not None:
            self._last_version = self._dropped_version = mark.last_version
            self._closed_up_to = mark.closed_up_to
            for run in mark.finals:
                for segment_id in range(run.first, run.first + run.count):
                    self._final_pass[segment_id] = run.pass_
                    if run.stands:
                        self._told.add(segment_id)

    @property
    def last_version(self) -> int:
        """The newest version given; 0 before the first."""
        return self._last_version

    def mark(self) -> ResultMark | None:
        """Where it stands; None while a text without its final is shown, or hits wait for theirs."""
        if self._partials or self._expected is not None:
            return None
        finals = ((one, self._final_pass[one], one in self._told) for one in sorted(self._final_pass))
        return ResultMark(self._last_version, self._closed_up_to, runs_of(finals))

    def add(self, result: Result) -> Result | None:
        """The result as the client is told it; None for one that tells nothing new."""
        hits, self._expected = self._expected, None
        shown = self._partials.get(result.segment_id)
        if not self._may_follow(result) or (not result.is_final and shown and not _is_newer(result, shown)):
            return None
        if result.is_final and not result.text and not self._stands(result.segment_id):
            self._conclude(result)  # there is nothing to take back
            return None
        if not result.is_final and shown:
            result = _continued(result, shown)
        self._last_version += 1
        result = replace(result, version=self._last_version)
        if result.is_final:
            self._conclude(result)
            self._keep(result, hits)
        else:
            self._partials.pop(result.segment_id, None)
            self._partials[result.segment_id] = result
            if len(self._partials) > _KEPT_PARTIALS:
                del self._partials[next(iter(self._partials))]
        return result

    def expect(self, hits: RulesHit) -> None:
        """The result that comes next, if it is a new final of this segment, has these hits: both are kept together."""
        self._expected = hits

    def hits_of(self, result: Result) -> RulesHit | None:
        """The hits of a kept final."""
        return self._hits.get(result.version)

    def _may_follow(self, result: Result) -> bool:
        if result.segment_id in self._final_pass:
            return result.is_final and result.pass_ > self._final_pass[result.segment_id]
        return result.segment_id > self._closed_up_to

    def _stands(self, segment_id: int) -> bool:
        """Whether the client has a text of the segment."""
        shown = self._partials.get(segment_id)
        return segment_id in self._told or (shown is not None and bool(shown.text))

    def _conclude(self, result: Result) -> None:
        self._partials.pop(result.segment_id, None)
        self._final_pass[result.segment_id] = result.pass_
        (self._told.add if result.text else self._told.discard)(result.segment_id)
        if len(self._final_pass) > _REMEMBERED_FINALS:
            oldest = next(iter(self._final_pass))
            del self._final_pass[oldest]
            self._told.discard(oldest)
            self._closed_up_to = max(self._closed_up_to, oldest)

    def _keep(self, result: Result, hits: RulesHit | None) -> None:
        size_bytes = size_of(result)
        if hits is not None and hits.segment_id == result.segment_id:
            self._hits[result.version] = hits
            size_bytes += _HIT_BYTES * len(hits.hits)
        self._finals.append((result, size_bytes))
        self._bytes += size_bytes
        while self._bytes > self._max_bytes:
            dropped, size_bytes = self._finals.popleft()
            self._bytes -= size_bytes
            self._dropped_version = dropped.version
            self._hits.pop(dropped.version, None)

    def since(self, version: int) -> list[Result] | None:
        """What a client that has seen up to `version` lacks, in order; None if part of it is no longer held."""
        if not self._dropped_version <= version <= self._last_version:
            return None
        kept = [result for result, _ in self._finals if result.version > version]
        kept += [result for result in self._partials.values() if result.version > version]
        return sorted(kept, key=lambda result: result.version)

    def check_integrity(self) -> None:
        """Kept bytes == sum of the finals' sizes <= max_bytes; dropped < kept <= last version."""
        versions = [result.version for result, _ in self._finals]
        ensure(self._bytes == sum(size for _, size in self._finals), "kept bytes == sum of sizes")
        ensure(self._bytes <= self._max_bytes, "kept bytes <= max_bytes")
        ensure(versions == sorted(set(versions)), "versions grow")
        ensure(self._hits.keys() <= set(versions), "hits are kept with their finals")
        ensure(all(self._dropped_version < v <= self._last_version for v in versions), "dropped < kept <= last")
        ensure(len(self._final_pass) <= _REMEMBERED_FINALS, "remembered finals are bounded")
        ensure(self._told <= self._final_pass.keys(), "texts that stand are of finals")
        ensure(len(self._partials) <= _KEPT_PARTIALS, "kept partials are bounded")
        ensure(self._partials.keys().isdisjoint(self._final_pass), "no partial is kept beside its final")


def _is_newer(result: Result, shown: Result) -> bool:
    """Whether a partial is of more audio than the one that is shown, or says something else of as much."""
    if result.end_ms != shown.end_ms:
        return result.end_ms > shown.end_ms
    return (result.text, result.stable_chars) != (shown.text, shown.stable_chars)


def _continued(result: Result, shown: Result) -> Result:
    """The partial with all that was stable of the one before it, though another worker told that."""
    stable = shown.text[: shown.stable_chars]
    if not result.text.startswith(stable):  # its words would tell another text
        return replace(result, text=continue_from(stable, result.text), stable_chars=len(stable), words=())
    return replace(result, stable_chars=len(stable)) if result.stable_chars < len(stable) else result
