"""A session and its client: options, audio, acks, pace, flush, update, end."""

import pytest

from streamscribe.core.audio import AudioFormat, Encoding
from streamscribe.core.errors import AudioTooLong, BadRequest, RateExceeded, SequenceGap, UnsupportedFormat
from streamscribe.core.messages import (
    Ack,
    Audio,
    Closed,
    Connected,
    End,
    ErrorSent,
    Flush,
    FlushDone,
    HotwordsTold,
    Invalid,
    Ping,
    Pong,
    SlowDown,
    Start,
    Update,
)
from streamscribe.core.options import Hotword, IgnoredHotword, SessionOptions
from streamscribe.core.records import (
    AudioChunk,
    AudioEnded,
    Finished,
    FlushRequested,
    HotwordsUpdated,
    SessionAbandoned,
    SessionOpened,
)
from streamscribe.core.rules import TextPolicy
from streamscribe.core.session_io import ConnectionLost, Disconnect, Durable, Pace, Release, TenantTexts
from streamscribe.core.session_table import Stage
from tests.unit.session_kit import FILE, IDENTITY, SECOND, SEQUENCED, SESSION, Driver, only, records, sent

HOTWORDS = (Hotword("StreamScribe", 2.0),)


def test_the_greeting_tells_identity_durability_and_bounds() -> None:
    greeting = only(sent(Driver().greeting))
    assert isinstance(greeting, Connected)
    assert (greeting.session_id, greeting.resume_token, greeting.durability) == (SESSION, "token", "process")
    assert (greeting.bounds.max_session_s, greeting.bounds.resume_window_s) == (100, 15.0)


def test_nothing_is_published_before_the_first_audio() -> None:
    session = Driver()
    assert session(Start(SEQUENCED)) == []
    assert records(session(Update(HOTWORDS))) == []
    assert session.session.stage is Stage.CREATED


def test_the_first_audio_opens_the_session_with_the_default_options() -> None:
    session = Driver(SessionOptions(language="en"))
    opened, chunk = records(session(Audio(b"ab")))
    assert opened == SessionOpened(SESSION, 0, IDENTITY.tenant_id, IDENTITY.trace_id, SessionOptions(language="en"))
    assert chunk == AudioChunk(SESSION, 1, 0, b"ab")
    assert session.session.stage is Stage.STREAMING


def test_a_start_replaces_the_one_before_it_while_no_audio_came() -> None:
    session = Driver()
    session(Start(SessionOptions(language="en")))
    session(Start(SessionOptions(language="zh")))
    session(Update(HOTWORDS))
    opened, _ = records(session(Audio(b"ab")))
    assert opened.options == SessionOptions(language="zh", hotwords=HOTWORDS)
    assert session.session.options == opened.options


def test_the_client_is_told_which_of_its_hot_words_hold_wherever_it_named_them() -> None:
    ignored = (IgnoredHotword("x", "too long"),)
    told = HotwordsTold(("StreamScribe",), ignored)
    named = SessionOptions(hotwords=HOTWORDS, ignored_hotwords=ignored)
    assert sent(Driver(named).greeting)[1:] == [told]
    session = Driver()
    assert sent(session(Start(SessionOptions(language="en")))) == []
    assert sent(session(Start(named))) == [told]
    assert sent(session(Update((), ()))) == [HotwordsTold((), ())]
    session.stream()
    assert sent(session(Update(HOTWORDS, ignored))) == [told]


def test_the_tenants_hot_words_join_the_clients_which_win() -> None:
    texts = TenantTexts((Hotword("StreamScribe", 9.0), Hotword("FunASR", 3.0)), TextPolicy(redact=("x",)))
    merged = (*HOTWORDS, Hotword("FunASR", 3.0))
    session = Driver(SessionOptions(ignored_hotwords=(IgnoredHotword("x", "too long"),)), texts=texts)
    session(Update(HOTWORDS))
    opened, _ = records(session(Audio(b"ab")))
    assert opened.options == SessionOptions(hotwords=merged)
    assert opened.policy == TextPolicy(redact=("x",))
    assert only(records(session(Update(HOTWORDS)))).hotwords == merged
    assert only(records(session(Update(())))).hotwords == texts.hotwords


def test_a_start_after_audio_is_refused_and_the_session_goes_on() -> None:
    session = Driver().stream()
    refused = only(sent(session(Start(SEQUENCED))))
    assert refused.error.message == "start must come before the first audio"
    assert records(session(Audio(b"ab"))) == [AudioChunk(SESSION, 2, 1, b"ab")]


def test_unsequenced_audio_is_numbered_from_zero_and_never_acknowledged() -> None:
    session = Driver()
    assert [records(session(Audio(b"x")))[-1].sequence for _ in range(3)] == [0, 1, 2]
    assert session(Durable(3)) == []


def test_a_number_that_an_unsequenced_client_gives_is_ignored() -> None:
    session = Driver()
    assert records(session(Audio(b"x", sequence=77)))[-1].sequence == 0


def test_a_sequenced_session_needs_a_sequence() -> None:
    session = Driver(SEQUENCED)
    error, disconnect, release = session(Audio(b"x"))
    assert isinstance(only(sent([error])).error, BadRequest)
    assert isinstance(disconnect, Disconnect)
    assert release == Release(disconnect.error)


def test_a_first_sequence_of_two_ends_the_session() -> None:
    effects = Driver(SEQUENCED)(Audio(b"x", 2))
    assert only(sent(effects)).error.field == "sequence"
    assert effects[-1] == Release(only(sent(effects)).error)


def test_early_chunks_are_held_and_published_in_order() -> None:
    session = Driver(SEQUENCED).stream(1)
    assert session(Audio(b"c", 2)) == []
    assert [r.data for r in records(session(Audio(b"b", 1)))] == [b"b", b"c"]


def test_law_1_an_ack_follows_the_durable_record_and_not_the_audio() -> None:
    session = Driver(SEQUENCED)
    assert sent(session(Audio(b"a", 0))) == []
    assert session(Durable(0)) == []
    assert sent(session(Durable(1))) == [Ack(0)]
    assert session(Durable(1)) == []


def test_acks_are_cumulative() -> None:
    session = Driver(SEQUENCED).stream(3, durable=False)
    assert sent(session(Durable(3))) == [Ack(2)]


def test_a_duplicate_is_dropped_and_acknowledged_again_if_durable() -> None:
    session = Driver(SEQUENCED).stream(2)
    assert sent(session(Audio(b"again", 0))) == [Ack(1)]
    session(Audio(b"new", 2))
    assert session(Audio(b"new", 2)) == []


def test_a_chunk_beyond_the_window_breaks_the_connection_but_not_the_session() -> None:
    session = Driver(SEQUENCED, reorder_window=2).stream(1)
    error, disconnect = session(Audio(b"x", 9))
    assert isinstance(only(sent([error])).error, SequenceGap)
    assert isinstance(disconnect, Disconnect)
    assert session.session.stage is Stage.DETACHED


def test_live_audio_beyond_the_burst_is_paced_and_told_at_most_once_a_second() -> None:
    session = Driver(SessionOptions())
    assert not any(isinstance(e, Pace) for e in session(Audio(SECOND * 10)))
    chunk, slow_down, pace = session(Audio(SECOND * 2))
    assert only(records([chunk])).data == SECOND * 2
    assert only(sent([slow_down])) == SlowDown(1001)
    assert pace == Pace(1.0)
    assert sent(session(Audio(SECOND), at=0.5)) == []
    assert len(sent(session(Audio(SECOND * 4), at=1.0))) == 1


def test_live_audio_beyond_the_hard_bound_ends_the_session() -> None:
    session = Driver(SessionOptions()).stream()
    error, disconnect, abandoned, release = session(Audio(SECOND * 41))
    assert isinstance(only(sent([error])).error, RateExceeded)
    assert isinstance(disconnect, Disconnect)
    assert isinstance(only(records([abandoned])), SessionAbandoned)
    assert release == Release(disconnect.error)


def test_too_many_small_chunks_are_paced() -> None:
    session = Driver(SessionOptions(), max_chunks_per_s=10.0)
    effects = [session(Audio(b"x")) for _ in range(11)]
    assert not any(isinstance(e, Pace) for e in effects[9])
    assert any(isinstance(e, Pace) for e in effects[10])


def test_a_file_is_never_paced() -> None:
    session = Driver(FILE)
    assert not any(isinstance(e, Pace) for e in session(Audio(SECOND * 90)))


def test_what_came_before_the_length_limit_is_finalized_and_then_the_error_told() -> None:
    session = Driver(FILE)
    session(Audio(SECOND * 60))
    assert records(session(Audio(SECOND * 40))) == [AudioChunk(SESSION, 2, 1, SECOND * 40)]
    assert records(session(Audio(b"xx"))) == [AudioEnded(SESSION, 3)]
    assert session(Audio(b"xx")) == []
    error, disconnect, release = session(Finished(SESSION, 100_000))
    assert isinstance(only(sent([error])).error, AudioTooLong)
    assert isinstance(disconnect, Disconnect)
    assert disconnect.error is not None
    assert release == Release(disconnect.error)


def test_a_chunk_beyond_the_length_limit_ends_the_audio_even_while_it_was_waited_for() -> None:
    session = Driver(SessionOptions(sequenced=True, live=False)).stream(1)
    session(Audio(b"held", 2))
    assert [type(record) for record in records(session(Audio(SECOND * 100, 1)))] == [AudioEnded]
    assert session.session.stage is Stage.FINALIZING


def test_a_first_chunk_longer_than_a_session_is_refused() -> None:
    effects = Driver(FILE)(Audio(SECOND * 101))
    assert isinstance(only(sent(effects)).error, AudioTooLong)
    assert records(effects) == []
    assert effects[-1] == Release(only(sent(effects)).error)


def test_a_repeated_chunk_at_the_length_limit_is_only_a_duplicate() -> None:
    session = Driver(SessionOptions(sequenced=True, live=False))
    session(Audio(SECOND * 60, 0))
    session(Audio(SECOND * 40, 1))
    assert session(Audio(SECOND * 40, 1)) == []
    assert session.session.stage is Stage.STREAMING


def test_length_is_counted_in_the_sessions_own_format() -> None:
    session = Driver(SessionOptions(audio=AudioFormat(Encoding.MULAW, 8000), live=False))
    assert session(Audio(b"\0" * 8000 * 100))
    assert session.session.stage is Stage.STREAMING


def test_flush_and_update_are_published_in_order_with_the_audio() -> None:
    session = Driver().stream()
    assert records(session(Flush("m"))) == [FlushRequested(SESSION, 2, "m")]
    assert records(session(Update(HOTWORDS))) == [HotwordsUpdated(SESSION, 3, HOTWORDS)]
    assert only(records(session(Audio(b"x")))).index == 4


def test_a_flush_without_audio_is_done_at_once() -> None:
    assert sent(Driver()(Flush("m"))) == [FlushDone("m")]


def test_ping_is_answered() -> None:
    assert sent(Driver()(Ping())) == [Pong()]


def test_an_end_without_audio_closes_at_once() -> None:
    closed, disconnect, release = Driver()(End())
    assert only(sent([closed])) == Closed("end", 0)
    assert disconnect == Disconnect(None)
    assert release == Release()


def test_after_the_end_nothing_more_is_taken_and_the_client_is_told_once() -> None:
    session = Driver().stream()
    assert records(session(End())) == [AudioEnded(SESSION, 2)]
    assert session.session.stage is Stage.FINALIZING
    assert session(End()) == []
    assert only(sent(session(Audio(b"x")))).error.message == "audio after the end is ignored"
    assert session(Audio(b"x")) == []
    for message in (Flush("m"), Update(HOTWORDS), Start(FILE)):
        effects = session(message)
        assert isinstance(only(sent(effects)), ErrorSent)
        assert len(effects) == 1


def test_a_chunk_sent_again_after_the_end_is_only_acknowledged() -> None:
    session = Driver(SEQUENCED).stream(2)
    session(End())
    assert sent(session(Audio(b"x", 1))) == [Ack(1)]


def test_an_end_while_a_chunk_is_missing_is_a_gap_to_be_resumed() -> None:
    session = Driver(SEQUENCED).stream(1)
    session(Audio(b"c", 2))
    effects = session(End())
    assert only(sent(effects)).error.message == "sequence 1 is missing"
    assert session.session.stage is Stage.DETACHED


@pytest.mark.parametrize("begun", [False, True])
def test_a_fatal_invalid_message_ends_the_session(begun: bool) -> None:
    session = Driver().stream() if begun else Driver()
    error = UnsupportedFormat()
    effects = session(Invalid(error))
    assert only(sent(effects)) == ErrorSent(error)
    assert [type(r) for r in records(effects)] == ([SessionAbandoned] if begun else [])
    assert Disconnect(error) in effects
    assert effects[-1] == Release(error)


def test_an_invalid_message_that_is_not_fatal_is_only_told() -> None:
    session = Driver().stream()
    error = BadRequest("hotwords[0].weight must be a number", field="hotwords")
    assert sent(session(Invalid(error, fatal=False))) == [ErrorSent(error)]
    assert session.session.stage is Stage.STREAMING


def test_a_connection_lost_before_any_audio_leaves_nothing_behind() -> None:
    session = Driver()
    session(Start(SEQUENCED))
    assert session(ConnectionLost()) == [Release()]


def test_after_the_release_every_event_yields_nothing() -> None:
    session = Driver()
    session(End())
    for event in (Audio(b"x"), Ping(), Durable(5), ConnectionLost(), Finished(SESSION, 0)):
        assert session(event) == []
    assert session.session.next_timer() is None


def test_control_messages_are_paced_too() -> None:
    session = Driver().stream()
    paced = [effect for _ in range(200) for effect in session(Ping()) if isinstance(effect, Pace)]
    assert paced
    assert paced[-1].until > session.now
