"""In which order clients hear that workers fall behind: stopped, told to slow down, newcomers refused."""

from streamscribe.core.ids import SessionId
from streamscribe.core.standstill import REFUSE_SHARE, Standstill, given_up

A, B = SessionId("a"), SessionId("b")


def test_a_client_is_stopped_first_told_after_a_second_and_each_second_and_only_then_newcomers_are_refused() -> None:
    still = Standstill()
    said = [(still.stop(A, 10 + tenth / 10), still.refusal(1, 10 + tenth / 10) is not None) for tenth in range(36)]
    assert [at for at, (told, _) in enumerate(said) if told] == [10, 20, 30]
    assert [at for at, (_, refused) in enumerate(said) if refused] == [30, 31, 32, 33, 34, 35]


def test_who_had_room_again_counts_no_more_and_begins_anew() -> None:
    still = Standstill()
    for now in (10, 11, 12, 13):
        still.stop(A, now)
    assert still.refusal(1, 13)
    assert still.count(13) == 1
    still.go_on(A)
    assert (still.refusal(1, 13), still.count(13)) == (None, 0)
    assert not still.stop(A, 14)


def test_who_says_nothing_any_more_is_stopped_by_nothing() -> None:
    still = Standstill()
    for now in (10, 11, 12, 13):
        still.stop(A, now)
    assert still.refusal(1, 15.5)
    assert still.refusal(1, 15.6) is None
    assert [still.count(now) for now in (15.5, 15.6)] == [1, 0]
    assert not still.stop(A, 16)
    assert still.refusal(1, 18.9) is None


def test_a_few_of_many_keep_nobody_out() -> None:
    still = Standstill()
    for now in (10, 11, 12, 13):
        still.stop(A, now)
    most = int(1 / REFUSE_SHARE)
    assert still.refusal(most, 13)
    assert still.refusal(most + 1, 13) is None
    for now in (11, 12, 13, 14):
        still.stop(B, now)
    refused = still.refusal(2 * most, 14)
    assert refused
    assert refused.retry_after_s


def test_a_session_is_given_up_when_its_record_has_waited_as_long_as_it_may() -> None:
    assert given_up(59.9, 60) is None
    ended = given_up(60, 60)
    assert ended
    assert (ended.message, ended.retry_after_s) == ("workers took nothing of the session for 60 s", 2)
