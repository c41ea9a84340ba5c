"""What waits for a slow reader: facts all and in order, guesses merged, bytes bounded."""

from hypothesis import given
from hypothesis import strategies as st

from streamscribe.core.ids import SessionId, TraceId
from streamscribe.core.messages import Ack, FlushDone, Heartbeat, Pong, ResultSent, ServerMessage, SlowDown
from streamscribe.gateway.outbox import Outbox
from tests.gateway.rig import result


def sent(segment: int, version: int, *, final: bool, text: str = "text") -> ResultSent:
    return ResultSent(SessionId("s"), TraceId("t"), result(segment, version, text, final=final))


def drained(outbox: Outbox) -> list[ServerMessage]:
    messages = []
    while (message := outbox.pop()) is not None:
        messages.append(message)
        outbox.check_integrity()
    return messages


def test_the_latest_ack_heartbeat_and_slow_down_replace_earlier_ones() -> None:
    outbox = Outbox(2**16)
    for n in range(5):
        outbox.put(Ack(n))
        outbox.put(Heartbeat(n, n))
        outbox.put(SlowDown(n))
    assert drained(outbox) == [Ack(4), Heartbeat(4, 4), SlowDown(4)]


def test_a_partial_replaces_the_one_before_and_a_final_replaces_its_partial() -> None:
    outbox = Outbox(2**16)
    outbox.put(sent(1, 1, final=False))
    outbox.put(sent(2, 2, final=False))
    outbox.put(sent(1, 3, final=False))
    outbox.put(sent(2, 4, final=True))
    outbox.put(sent(2, 5, final=True))
    assert [message.result.version for message in drained(outbox) if isinstance(message, ResultSent)] == [3, 4, 5]


def test_facts_beyond_the_bound_make_it_full_and_guesses_do_not() -> None:
    outbox = Outbox(4096)
    for version in range(1000):
        outbox.put(sent(1, version, final=False))
        outbox.put(Ack(version))
    assert not outbox.full
    while not outbox.full:
        outbox.put(sent(1, 2000, final=True))
    held = len(drained(outbox))
    assert held < 20


messages = st.one_of(
    st.builds(Ack, st.integers(0, 100)),
    st.builds(Heartbeat, st.integers(0, 100), st.integers(0, 100)),
    st.just(Pong()),
    st.builds(FlushDone, st.text(max_size=3)),
    st.tuples(st.integers(0, 3), st.booleans()),
)


@given(st.lists(st.one_of(messages, st.none()), max_size=60))
def test_law_3_versions_leave_in_growing_order_and_no_fact_is_dropped(script: list[object]) -> None:
    """None pops. The last version put is always the last version out."""
    outbox = Outbox(2**20)
    put: list[object] = []
    out: list[object] = []
    for version, step in enumerate(script, start=1):
        if step is None:
            out.append(outbox.pop())
        else:
            message = sent(step[0], version, final=step[1]) if isinstance(step, tuple) else step
            put.append(message)
            outbox.put(message)  # type: ignore[arg-type]
        outbox.check_integrity()
    out = [message for message in out if message is not None] + drained(outbox)
    versions = [message.result.version for message in out if isinstance(message, ResultSent)]
    assert versions == sorted(versions)
    facts = (Pong, FlushDone)
    assert [m for m in out if isinstance(m, facts)] == [m for m in put if isinstance(m, facts)]
    finals_put = [m for m in put if isinstance(m, ResultSent) and m.result.is_final]
    assert [m for m in out if isinstance(m, ResultSent) and m.result.is_final] == finals_put
    for kind in (Ack, Heartbeat):
        last_put = [m for m in put if isinstance(m, kind)][-1:]
        assert [m for m in out if isinstance(m, kind)][-1:] == last_put
