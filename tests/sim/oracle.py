"""What must hold of each client after a run, whatever went wrong."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from streamscribe.core import messages as m
from streamscribe.core.ids import SessionId, TraceId
from streamscribe.core.records import AudioChunk, AudioEnded, FlushRequested, Record
from streamscribe.core.results import Result
from streamscribe.wire.native_server import ResultMessage, SpeechStartedMessage, to_wire
from tests.sim.client import SimClient
from tests.sim.cluster import BEHIND_S
from tests.sim.script import Ask, undisturbed

if TYPE_CHECKING:
    from tests.sim.run import Run


MOVES = {"die", "bus", "drain", "number lost"}
"""After these clients come back at other gateways."""

HOLDS_UP = {"crash", "freeze", "move", "outage", "stall", "jump", "store", "broker", "die", "bus", "empty"}
"""After these the finals of a gateway that drains may not come in its time."""

ENDS_AT_ONCE = {"bus", "number lost"}
"""A gateway ends without a drain: sessions that have only begun can go on nowhere."""

LOSES_SEATS = {"store", "empty", "stall", "jump"}
"""In these a gateway may have sessions whose seats are others' by then."""

LIVED_ON = {"freeze", "jump", "store", "broker", "empty"}
"""In these a worker may lose its sessions as if it had ended, and do so again."""

FAILED = {"quarantined", "store_unavailable"}
"""A worker has said so."""

ENDS_OF_FINALIZERS = {
    "finalizer dies",
    "finalizer freezes",
    "finalizer is mute",
    "finalizer's model stops",
    "no finalizer",
}
"""A segment that was there at three of these may look as if it had been deadly."""

SLACK_S = 3.0
"""What was on its way to a client that a connection's end was the last to know of."""


def check(run: Run, client: SimClient) -> None:
    """Raises AssertionError for a broken law."""
    try:
        _check(run, client)
    except AssertionError as error:
        error.add_note(f"{client.name}: closed {client.closed}, error {client.error}, gone {client.gone}")
        raise


def _check(run: Run, client: SimClient) -> None:
    law_3(client.results)
    session_id = client.session_id
    records = [] if session_id is None else run.records(session_id)
    if session_id is None or not records:
        assert client.gone or client.error is not None, "a session that ends well has said something"
        assert not client.acks
        return
    was_published(client, records, failed=client.error is not None and client.error.name in FAILED)
    whole = [*records] if isinstance(records[-1], AudioEnded) else [*records, AudioEnded(session_id, len(records))]
    expected = undisturbed(whole)
    wanted = [shown(result) for result in expected.finals]
    heard = finals(client.results, degraded(run, client.results, wanted))
    for channel, told in voice(client).items():
        assert is_part_in_order(told, by_channel(voice_of(expected.voice))[channel]), "voice is told once, in order"
    if client.closed is not None:
        assert isinstance(records[-1], AudioEnded)
        assert b"".join(r.data for r in records if isinstance(r, AudioChunk)) == client.script.audio, "all is heard"
        if misses_nothing(run, client):
            assert heard == wanted, "the text is that of an undisturbed run"
        assert all(final in wanted for final in heard)
        assert client.closed.audio_ms == expected.ended.audio_ms
        flushes(run, client, records)
        if not client.disconnects and not run.happened.keys() & MOVES:
            assert client.flushed == expected.flushes, "flushes are answered once, in order"
            assert voice(client) == by_channel(voice_of(expected.voice)), "voice is told"
        return
    assert all(final in wanted for final in heard)
    if client.error is not None:
        assert may_be_told(run, client, client.error.name), f"no client may be told {client.error}"
    else:
        assert client.gone
    draining = client.error is not None and client.error.name == "draining"
    if draining and not client.slowed and not run.happened.keys() & HOLDS_UP:
        assert heard == wanted, "what was taken before the end of a drain has its finals"


def may_be_told(run: Run, client: SimClient, error: str) -> bool:
    """Whether something happened of which a client is to be told so."""
    happened, quarantined = run.happened, client.session_id in run.quarantined()
    unsure = run.cluster is not None and bool(run.cluster.store.was_unsure or happened["store"] or happened["empty"])
    match error:
        case "draining":
            if run.cluster is None:
                return any(site.drained for site in run.sites)
            if not client.acks and happened["broker"]:  # the log has nothing of it
                return True
            return unsure or bool(happened.keys() & ENDS_AT_ONCE)  # else all sessions go on at another gateway
        case "session_not_found":
            if quarantined:  # told to a connection that had broken
                return True
            if run.cluster is None:
                return any(site.drained for site in run.sites)
            if not client.acks:  # it had not begun
                return bool(happened.keys() & MOVES)
            if not misses_nothing(run, client):
                return True
            return unsure and client.session_id in run.cluster.store.missed
        case "quarantined":
            blamed = run.cluster is None or client.session_id in run.cluster.blamed
            deadly = run.deadly_segment is not None and run.deadly_segment[0] == client.name
            return quarantined and (blamed or deadly or finalizers_ended(run, unsure))
        case "quota_exceeded":
            return run.cluster is not None and len(run.clients) > run.cluster.max_sessions
        case "model_unavailable":  # no finalizer has answered in time
            fleet = None if run.cluster is None else run.cluster.finalizers
            return fleet is not None and fleet.habits.impatient
        case "store_unavailable":  # it is empty, and so is the worker
            return happened["empty"] > 0
    return False


def quarantines(run: Run) -> None:
    """Whom workers blame had as many ends as that takes, and no more innocents are blamed than ends by chance can meet.

    Over Kafka two ends make all that were there suspects, and two more, at one record of it on trial, blame one. On the
    local bus it takes two at one record, and each end blames one at most.
    """
    cluster = run.cluster
    deadly = {run.deadly, run.deadly_segment if cluster is None or cluster.finalizers is None else None} - {None}
    guilty = {one.session_id for one in run.clients for victim in deadly if victim and one.name == victim[0]}
    if cluster is None:
        innocents = run.quarantined() - guilty
        chance = sum(site.counts.ended for site in run.sites)
        most = chance - (not deadly)
    else:
        innocents = cluster.blamed - guilty
        silent = cluster.store.silent
        for session_id in cluster.blamed:
            places = [place for _, place in silent.get(session_id, ())]
            assert len(places) >= 4, f"{session_id} was blamed for ends at {places}"
            assert any(one is not None and one == other for one, other in pairwise(places)), f"no two met of {places}"
        owners = {owner for ends in silent.values() for owner, _ in ends} - cluster.killed
        chance = len(owners) + sum(run.happened[kind] for kind in LIVED_ON)
        most = chance // 2 - (not deadly)
    assert len(innocents) <= max(0, most), f"{innocents} were blamed for {chance} ends by chance"


def quota(run: Run) -> None:
    """Nobody is refused for whom there is room, wherever sessions moved; and nobody more is let in, while the store
    says what it does and gateways keep their seats."""
    if run.cluster is None:
        return
    most = run.cluster.max_sessions
    refused = [one.name for one in run.clients if one.error is not None and one.error.name == "quota_exceeded"]
    assert len(refused) <= len(run.clients) - most, f"{refused} had room"
    if not run.cluster.store.was_unsure and not run.happened.keys() & LOSES_SEATS:
        assert run.cluster.most_seats <= most, f"{run.cluster.most_seats} had seats"


def law_2(run: Run) -> None:
    """Nothing of a former owner was taken, by gateways or by the store."""
    assert not any(site.counts.stale for site in run.sites), "a former owner was heard"
    assert run.cluster is None or not run.cluster.store.stale, "a former owner wrote"


def attempts_are_over(run: Run) -> None:
    """Only what a finalizer that ended had begun counts for longer, where the store says what it does."""
    if run.cluster is None or run.cluster.store.was_unsure or run.happened.keys() & {"store", "empty"}:
        return
    left = {segment for segment, names in run.cluster.store.attempts.items() if names}
    assert left <= run.cluster.store.blamed, "an attempt that was ended, or not one, counts"


def finalizers_ended(run: Run, unsure: bool) -> bool:
    """Whether so many ended that a segment which was there looks deadly: at two that a deadly one ended it was company.

    A store that does not say what it has counted has a deadly segment tried again and again, in company.
    """
    if run.cluster is None or run.cluster.finalizers is None:
        return False
    ends = sum(run.happened[kind] for kind in ENDS_OF_FINALIZERS)
    return ends >= 3 or (run.deadly_segment is not None and (ends >= 1 or unsure))


def misses_nothing(run: Run, client: SimClient) -> bool:
    """Whether a client was back in the time in which all that it can have missed is kept."""
    if run.cluster is None or run.cluster.behind_s > BEHIND_S:
        return True
    return client.longest_away_s < BEHIND_S - SLACK_S and not run.happened["jump"]


def law_3(results: list[ResultMessage]) -> None:
    """Versions grow; a final once a segment and pass; no partial after one; what is stable stays."""
    assert all(before.version < after.version for before, after in pairwise(results))
    told: dict[int, int] = {}
    shown_before: dict[int, ResultMessage] = {}
    for result in results:
        segment = result.segment_id
        if result.is_final:
            assert result.pass_ > told.get(segment, 0), "one final a segment and pass"
            told[segment] = result.pass_
        else:
            assert segment not in told, "no partial after a final"
            before = shown_before.get(segment)
            if before is not None:
                assert result.end_ms >= before.end_ms, "partials are of more and more audio"
                assert result.text.startswith(before.text[: before.stable_chars]), "what is stable stays"
            shown_before[segment] = result


def was_published(client: SimClient, records: list[Record], *, failed: bool) -> None:
    """Indices without gaps; the audio is the client's, from its begin on; nothing acknowledged is missing.

    Of a session that has `failed` what was on its way to the log may be acknowledged, and is of no use to anybody.
    """
    assert [record.index for record in records] == list(range(len(records)))
    audio = [record for record in records if isinstance(record, AudioChunk)]
    assert client.script.audio.startswith(b"".join(record.data for record in audio))
    assert [record.sequence for record in audio] == list(range(len(audio)))
    assert failed or not client.acks or client.acks[-1] < len(audio), "what is acknowledged is published"


def flushes(run: Run, client: SimClient, records: list[Record]) -> None:
    """Each flush was answered: no more often than it was asked, and once where the connection held."""
    asked = [record.marker for record in records if isinstance(record, FlushRequested)]
    for action in client.script.actions:
        if isinstance(action, Ask):
            assert client.flushed.count(action.marker) <= asked.count(action.marker)
            if not client.disconnects and not run.happened.keys() & MOVES:
                assert client.flushed.count(action.marker) == 1


def degraded(run: Run, results: list[ResultMessage], wanted: list[Any]) -> dict[int, list[Any]]:
    """By segment, what second passes would have said for which clients were told the first one's again.

    That is marked, and only where the settings say so.
    """
    first = {final[0]: final for final in wanted if final[1] == 1}
    found = {result.segment_id: result for result in results if result.degraded is True}
    fleet = None if run.cluster is None else run.cluster.finalizers
    assert not found or (fleet is not None and fleet.habits.degrade_after_ms is not None), "nobody asked for less"
    for segment_id, result in found.items():
        assert (result.is_final, result.pass_) == (True, 2)
        again = first.get(segment_id)
        if again is None:
            assert not result.text, "the first pass had heard nothing"
        else:
            assert (again[0], 2, *again[2:]) == shown_wire(result), "a degraded final is the first pass' one"
    return {one: [final for final in wanted if final[:2] == (one, 2)] for one in found}


def finals(results: list[ResultMessage], degraded: dict[int, list[Any]]) -> list[Any]:
    """What was said, without what belongs to the telling; what is degraded as if it were not."""
    said = [shown_wire(one) for one in results if one.is_final and one.text and one.degraded is not True]
    said += [final for instead in degraded.values() for final in instead]
    return sorted(said, key=lambda final: final[:2])


def shown(result: Result) -> tuple[Any, ...]:
    """A result as a client sees it."""
    wire = to_wire(m.ResultSent(SessionId("s"), TraceId("t"), replace(result, version=1)))
    assert isinstance(wire, ResultMessage)
    return shown_wire(wire)


def shown_wire(result: ResultMessage) -> tuple[Any, ...]:
    words = tuple((word.text, word.start_ms, word.end_ms) for word in result.words)
    times = (result.start_ms, result.end_ms)
    return (result.segment_id, result.pass_, result.channel, result.text, *times, words, result.confidence)


Voice = tuple[int, bool, int]
"""Channel, whether it began, and when."""


def voice(client: SimClient) -> dict[int, list[Voice]]:
    return by_channel([(one.channel, isinstance(one, SpeechStartedMessage), one.at_ms) for one in client.voice])


def by_channel(voice: list[Voice]) -> dict[int, list[Voice]]:
    found = defaultdict[int, list[Voice]](list)
    for change in voice:
        found[change[0]].append(change)
    return found


def is_part_in_order(part: list[Voice], whole: list[Voice]) -> bool:
    """Whether it is the whole without some: each one is there once."""
    rest = iter(whole)
    return all(one in rest for one in part)


def voice_of(activities: list[m.SpeechActivity]) -> list[Voice]:
    return [(one.channel, one.started, one.at_ms) for one in activities]
