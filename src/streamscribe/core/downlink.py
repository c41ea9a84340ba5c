"""A session's way down: from what the worker tells to messages for the client, and what a resume must send again.

Knows no stage and no connection: whether a message is sent is the session's affair.
"""

from typing import assert_never

from streamscribe.core import messages as m
from streamscribe.core import records as r
from streamscribe.core.result_log import ResultLog
from streamscribe.core.results import Result
from streamscribe.core.session_io import SessionIdentity, SessionLimits
from streamscribe.core.session_mark import DownlinkMark

WorkerNews = r.Recognised | r.RulesHit | r.Progress | r.SpeechStarted | r.SpeechStopped | r.Flushed
"""What a worker tells while it works."""


class Downlink:
    """Turns a worker's events into messages; a segment gets one final per pass, and versions grow (law 3).

    What another worker tells again is dropped: voice of audio whose voice was told, the answer to a flush that has one.
    """

    def __init__(self, identity: SessionIdentity, limits: SessionLimits, mark: DownlinkMark | None = None) -> None:
        """Goes on behind a `mark`."""
        self._identity = identity
        self._limits = limits
        self._results = ResultLog(limits.replay_bytes, mark.results if mark else None)
        self._voice = {channel: (at_ms, started) for channel, at_ms, started in mark.voice} if mark else {}
        self._answered = mark.answered if mark else -1
        self._processed_ms = mark.processed_ms if mark else 0

    @property
    def processed_ms(self) -> int:
        """Audio that the worker has told it heard."""
        return self._processed_ms

    def greeting(self) -> m.Connected:
        """The first message of a session."""
        identity, limits = self._identity, self._limits
        return m.Connected(
            session_id=identity.session_id,
            tenant_id=identity.tenant_id,
            trace_id=identity.trace_id,
            resume_token=identity.resume_token,
            durability=identity.durability,
            bounds=m.SessionBounds(
                max_message_bytes=limits.max_message_bytes,
                max_session_s=int(limits.max_session_s),
                idle_timeout_s=limits.idle_timeout_s,
                resume_window_s=limits.resume_window_s,
            ),
        )

    def mark(self) -> DownlinkMark | None:
        """Where it stands; None while a text without its final is shown."""
        results = self._results.mark()
        if results is None:
            return None
        voice = tuple((channel, at_ms, started) for channel, (at_ms, started) in sorted(self._voice.items()))
        return DownlinkMark(results, self._processed_ms, self._answered, voice)

    def take(self, news: WorkerNews, received_ms: int) -> list[m.ServerMessage]:
        """What the client is to be told of it; nothing of a result that is not new."""
        match news:
            case r.Recognised(result=result):
                taken = self._results.add(result)
                return [] if taken is None else self._told(taken)
            case r.RulesHit():
                self._results.expect(news)
                return []
            case r.Progress(processed_ms=processed_ms):
                self._processed_ms = max(self._processed_ms, processed_ms)
                return [m.Heartbeat(received_ms, self._processed_ms)]
            case r.SpeechStarted(channel=channel, at_ms=at_ms):
                return self._speech(m.SpeechActivity(started=True, channel=channel, at_ms=at_ms))
            case r.SpeechStopped(channel=channel, at_ms=at_ms):
                return self._speech(m.SpeechActivity(started=False, channel=channel, at_ms=at_ms))
            case r.Flushed(marker=marker, index=index):
                if index <= self._answered:
                    return []
                self._answered = index
                return [m.FlushDone(marker)]
        assert_never(news)

    def _speech(self, activity: m.SpeechActivity) -> list[m.ServerMessage]:
        """A change of the voice; they follow each other, and where one ends the next may begin."""
        change = activity.at_ms, activity.started
        if change <= self._voice.get(activity.channel, (-1, False)):
            return []
        self._voice[activity.channel] = change
        return [activity]

    def missed_since(self, version: int) -> list[m.ServerMessage] | None:
        """What a client lacks that has seen results up to `version`; None if part of it is no longer held."""
        missed = self._results.since(version)
        return None if missed is None else [message for result in missed for message in self._told(result)]

    def _told(self, result: Result) -> list[m.ServerMessage]:
        """A result that was taken, behind what the rules found in it."""
        sent = m.ResultSent(self._identity.session_id, self._identity.trace_id, result)
        hits = self._results.hits_of(result)
        return [sent] if hits is None else [m.RuleHitsSent(hits.segment_id, hits.channel, hits.hits), sent]

    def check_integrity(self) -> None:
        """The equation of the results."""
        self._results.check_integrity()
