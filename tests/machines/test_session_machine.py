"""A session under any order of client messages, late confirmations, worker events, lost connections and time."""

from dataclasses import replace

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from streamscribe.core.errors import BadRequest, BusUnavailable, Draining, SlowReader
from streamscribe.core.messages import (
    Ack,
    Audio,
    Closed,
    End,
    ErrorSent,
    Flush,
    Invalid,
    Ping,
    ResultSent,
    Resumed,
    RuleHitsSent,
    Start,
    Update,
)
from streamscribe.core.options import SessionOptions
from streamscribe.core.records import (
    AudioChunk,
    Failed,
    Finished,
    Progress,
    Recognised,
    RulesHit,
    SessionAbandoned,
    SessionOpened,
)
from streamscribe.core.results import Result
from streamscribe.core.rules import RuleHit, RuleKind
from streamscribe.core.session_io import (
    BrokenDown,
    ConnectionLost,
    ConnectionResumed,
    Delivered,
    Disconnect,
    Durable,
    Effect,
    GoingAway,
    Killed,
    Pace,
    Publish,
    Release,
    Send,
    Stopped,
    Tick,
)
from streamscribe.core.session_table import Stage
from tests.unit.session_kit import SESSION, Driver, recognised

seldom = st.integers(0, 30).map(lambda n: n == 17)


def chunk_of(sequence: int) -> bytes:
    return b"%08d" % sequence


class Client:
    """Overwrites by (segment, version) as docs/protocol.md says, and remembers what it had at each message."""

    def __init__(self) -> None:
        self.last_version = 0
        self.last_ack: int | None = None
        self.segments: dict[int, Result] = {}
        self.finals: list[tuple[int, int]] = []
        self.history: list[tuple[int, int | None, dict[int, Result]]] = []
        self.texts_with_hits: set[str] = set()
        self.hits: RuleHitsSent | None = None

    def receive(self, message: object) -> None:
        if isinstance(message, Ack):
            self.last_ack = message.sequence
        hits, self.hits = self.hits, message if isinstance(message, RuleHitsSent) else None
        if hits is not None:
            assert isinstance(message, ResultSent)
            assert (hits.segment_id, hits.hits[0].phrase) == (message.result.segment_id, message.result.text)
        if isinstance(message, ResultSent):
            result = message.result
            assert (hits is not None) == (result.is_final and result.text in self.texts_with_hits)
            known = self.segments.get(result.segment_id)
            assert known is None or result.version > known.version
            self.segments[result.segment_id] = result
            self.last_version = result.version
        self.history.append((self.last_version, self.last_ack, dict(self.segments)))

    def lose_the_last(self, messages: int) -> None:
        """What the server had sent and the network had not delivered."""
        if 0 < messages < len(self.history):
            del self.history[-messages:]
            self.last_version, self.last_ack, segments = self.history[-1]
            self.segments = dict(segments)
        self.history = [(self.last_version, self.last_ack, dict(self.segments))]


class SessionMachine(RuleBasedStateMachine):
    @initialize(sequenced=st.booleans(), live=st.booleans(), window=st.sampled_from([0, 3]), lingers=st.booleans())
    def open(self, sequenced: bool, live: bool, window: int, lingers: bool) -> None:
        self.driver = Driver(
            SessionOptions(sequenced=sequenced, live=live),
            lingers=lingers,
            reorder_window=window,
            replay_bytes=2**20,
            max_session_s=1000.0,
        )
        self.sequenced = sequenced
        self.lingers = lingers
        self.lost_its_last_words = False
        self.client = Client()
        self.worker_version = 0
        self.told = 0
        self.reference: dict[int, Result] = {}
        self.worker_done = False
        self.published: list[object] = []
        self.confirmed = -1
        self.connected = True
        self.released = 0
        self.acked = -1
        self.taken = 0

    # --- performing effects

    def handle(self, event: object) -> list[Effect]:
        was_over = self.released
        effects = self.driver(event)  # type: ignore[arg-type]
        assert not (was_over and effects)
        for effect in effects:
            assert not self.released, "Release is the last effect"
            match effect:
                case Publish(record=record):
                    assert record.index == len(self.published)
                    self.published.append(record)
                case Send(message=message):
                    assert self.connected, "nothing is sent to nobody"
                    self.check_message(message)
                    self.client.receive(message)
                case Disconnect():
                    assert self.connected
                    self.connected = False
                    self.lost_its_last_words = self.worker_done
                case Release():
                    self.released += 1
                case Pace(until=until):
                    assert until > self.driver.now
        return effects

    def check_message(self, message: object) -> None:
        if isinstance(message, Ack):
            self.law_1_only_durable_audio_is_acknowledged(message.sequence)
        if isinstance(message, ResultSent):
            assert message.result.version > self.client.last_version, "law 3: versions grow"

    def law_1_only_durable_audio_is_acknowledged(self, sequence: int) -> None:
        assert self.sequenced
        durable = [r.sequence for r in self.published[: self.confirmed + 1] if isinstance(r, AudioChunk)]
        assert sequence in durable
        assert sequence >= self.acked
        self.acked = sequence

    @property
    def audio(self) -> list[AudioChunk]:
        return [record for record in self.published if isinstance(record, AudioChunk)]

    def reading(self) -> bool:
        return self.connected and not self.released

    # --- the client

    @precondition(reading)
    @rule(jump=st.sampled_from([0, 0, 0, 0, 1, 2, 3]))
    def client_sends_audio(self, jump: int) -> None:
        sequence = len(self.audio) + (jump if self.audio else 0)
        self.handle(
            Audio(chunk_of(sequence if self.sequenced else len(self.audio)), sequence if self.sequenced else None)
        )

    @precondition(lambda self: self.reading() and self.sequenced and self.audio)
    @rule(back=st.integers(1, 3))
    def client_repeats_audio(self, back: int) -> None:
        before = len(self.published)
        sequence = max(0, len(self.audio) - back)
        self.handle(Audio(chunk_of(sequence), sequence))
        assert len(self.published) == before, "law 2: a chunk is published once"

    @precondition(reading)
    @rule(message=st.sampled_from([Ping(), Flush("m"), Update(()), Invalid(BadRequest(), fatal=False)]))
    def client_says(self, message: object) -> None:
        self.handle(message)
        assert not self.released

    @precondition(reading)
    @rule()
    def client_starts(self) -> None:
        self.handle(Start(self.driver.session.options))

    @precondition(lambda self: self.reading() and self.audio)
    @rule(really=seldom)
    def client_ends(self, really: bool) -> None:
        if really:
            self.handle(End())

    @precondition(reading)
    @rule(really=seldom, event=st.sampled_from([Invalid(BadRequest()), Killed(SlowReader())]))
    def something_fatal_happens(self, really: bool, event: Invalid | Killed) -> None:
        if really:
            self.handle(event)
            assert self.released or (isinstance(event, Invalid) and not self.connected)

    @precondition(lambda self: not self.released)
    @rule(really=seldom)
    def process_stops(self, really: bool) -> None:
        if really:
            owed = self.connected and self.audio
            self.handle(Stopped(Draining()))
            assert bool(self.released) != bool(owed), "finals are delivered before the end"

    @precondition(lambda self: not self.released)
    @rule(really=seldom)
    def bus_fails(self, really: bool) -> None:
        if really:
            self.handle(BrokenDown(BusUnavailable()))
            assert self.released or not self.connected

    # --- bus and worker

    @precondition(lambda self: self.published and not self.released)
    @rule(data=st.data())
    def records_become_durable(self, data: st.DataObject) -> None:
        index = data.draw(st.integers(0, len(self.published) - 1))
        self.confirmed = max(self.confirmed, index)
        self.handle(Durable(index))

    def working(self) -> bool:
        return bool(self.audio) and not self.worker_done and not self.released

    @precondition(working)
    @rule(
        segment=st.integers(0, 4),
        pass_=st.sampled_from([1, 2]),
        final=st.booleans(),
        again=st.booleans(),
        hits=st.booleans(),
    )
    def worker_recognises(self, segment: int, pass_: int, final: bool, again: bool, hits: bool) -> None:
        known = self.reference.get(segment)
        if again and known is not None:
            self.handle(RulesHit(SESSION, segment, segment % 2, ()))
            assert self.handle(Recognised(SESSION, known)) == [], "law 3: nothing is told twice"
            return
        self.worker_version += 1
        text = f"{segment} {self.worker_version}"
        pass_ = pass_ if final else 1
        event = recognised(
            self.worker_version, segment=segment, pass_=pass_, final=final, text=text, channel=segment % 2
        )
        fresh = known is None or not known.is_final or (final and pass_ > known.pass_)
        if final and hits:
            found = (RuleHit("rule", RuleKind.PRODUCT, text, 0, 1),)
            assert self.handle(RulesHit(SESSION, segment, segment % 2, found)) == []
            if fresh:
                self.client.texts_with_hits.add(text)
        if fresh:
            self.told += 1
            self.reference[segment] = replace(event.result, version=self.told)
        effects = self.handle(event)
        assert bool(effects) == (fresh and self.connected), "law 3: one final per segment and pass"

    @precondition(working)
    @rule()
    def worker_makes_progress(self) -> None:
        self.handle(Progress(SESSION, 0))

    @precondition(lambda self: self.working() and self.driver.session.stage is Stage.FINALIZING)
    @rule(failed=seldom)
    def worker_is_done(self, failed: bool) -> None:
        self.worker_done = True
        self.handle(Failed(SESSION, BadRequest()) if failed else Finished(SESSION, 0))

    # --- connections and time

    @precondition(reading)
    @rule(undelivered=st.integers(0, 6), even_before_audio=seldom)
    def connection_is_lost(self, undelivered: int, even_before_audio: bool) -> None:
        if not self.audio and not even_before_audio:
            return
        self.client.lose_the_last(undelivered)
        self.connected = False
        self.handle(ConnectionLost())

    @precondition(lambda self: not self.released and self.published)
    @rule(undelivered=st.integers(0, 6))
    def client_resumes(self, undelivered: int) -> None:
        if self.connected or self.lost_its_last_words:  # it gave up a connection that we believe to be good
            self.client.lose_the_last(undelivered)
        self.lost_its_last_words = False
        self.connected = True
        effects = self.handle(ConnectionResumed(self.client.last_version, self.client.last_ack))
        resumed = effects[0]
        assert isinstance(resumed, Send)
        if isinstance(resumed.message, Resumed):
            assert resumed.message.next_sequence == len(self.audio)
        else:
            assert self.released
        if self.lost_its_last_words:
            assert self.client.segments == self.reference, "law 3: what a broken connection took is told again"

    @precondition(lambda self: not self.released)
    @rule(version=st.sampled_from([-1, 10**6]), sequence=st.sampled_from([None, -1, 0, 10**6]))
    def a_newcomer_claims_what_was_never_sent(self, version: int, sequence: int | None) -> None:
        stage = self.driver.session.stage
        assert self.handle(ConnectionResumed(version, sequence)) == []
        assert self.driver.session.stage is stage

    @precondition(lambda self: self.released == 0 and not self.connected)
    @rule()
    def client_answers_the_close(self) -> None:
        done = self.worker_done or self.driver.session.broken
        self.handle(Delivered())
        assert bool(self.released) == done

    @precondition(lambda self: not self.released)
    @rule(seconds=st.sampled_from([0.1, 0.5, 1.0, 3.0]))
    def time_passes(self, seconds: float) -> None:
        self.driver.now += seconds
        due = self.driver.session.next_timer()
        effects = self.handle(Tick())
        if due is None or due > self.driver.now:
            assert effects == []
        after = self.driver.session.next_timer()
        assert after is None or after > self.driver.now, "a timer that has rung does not ring again at once"

    @precondition(lambda self: not self.released)
    @rule()
    def process_goes_away(self) -> None:
        stage = self.driver.session.stage
        self.handle(GoingAway(1000, 100))
        assert self.driver.session.stage is stage

    @precondition(lambda self: self.released)
    @rule(
        event=st.sampled_from(
            [Audio(b"x"), End(), Durable(0), Finished(SESSION, 0), ConnectionResumed(0, None), Tick()]
        )
    )
    def nothing_follows_the_release(self, event: object) -> None:
        assert self.handle(event) == []

    # --- laws that always hold

    @invariant()
    def law_2_each_accepted_chunk_is_published_once_and_in_order(self) -> None:
        if not self.published:
            return
        assert isinstance(self.published[0], SessionOpened)
        assert [(r.sequence, r.data) for r in self.audio] == [(i, chunk_of(i)) for i in range(len(self.audio))]

    @invariant()
    def law_3_a_connected_client_has_what_one_never_disconnected_has(self) -> None:
        if self.connected and not self.released:
            assert self.client.segments == self.reference

    @invariant()
    def the_worker_is_told_when_nobody_waits_any_more(self) -> None:
        if self.released and self.published and not self.worker_done:
            assert isinstance(self.published[-1], SessionAbandoned)

    @invariant()
    def a_session_is_closed_once_released(self) -> None:
        assert self.released == (self.driver.session.stage is Stage.CLOSED)

    def teardown(self) -> None:
        """Whatever happened, a client that comes back gets every final and the end, once."""
        if not hasattr(self, "driver") or self.released:
            return
        if not self.connected:
            self.client_resumes(0)
        self.handle(End())
        if self.released or not self.connected:  # nothing was said, or a chunk was missing
            return
        if not self.worker_done:
            self.worker_done = True
            effects = self.handle(Finished(SESSION, 0))
            last = [effect.message for effect in effects if isinstance(effect, Send)][-1]
            assert isinstance(last, Closed | ErrorSent)
            assert bool(self.released) != self.lingers
            self.handle(Delivered())
        assert self.client.segments == self.reference
        assert self.released == 1


TestSession = SessionMachine.TestCase
TestSession.settings = settings(max_examples=60, stateful_step_count=60)
