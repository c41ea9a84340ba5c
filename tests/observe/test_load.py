"""The load control: what reports and sessions do to the door."""

from dataclasses import replace

from streamscribe.core.audio import AudioFormat
from streamscribe.core.errors import ModelUnavailable, Overloaded
from streamscribe.core.options import SessionOptions
from streamscribe.models.replica import StepReport
from streamscribe.observe.load import EVENT_LOOP, LoadControl
from streamscribe.settings import LimitSettings

LIVE = SessionOptions()
FILE = SessionOptions(live=False)
SLOW = StepReport("recognizer", 1, 0.0, step_s=30.0, audio_s=1.0, failed=0, live=1, live_asked=1, live_asked_s=1.0)
LATE = StepReport(
    "vad", 4, 0.0, step_s=0.01, audio_s=0.4, failed=0, live=4, live_asked=4, live_asked_s=0.4, lag_s=3.0, batch_limit=64
)


class Door:
    """A load control and the reasons that it told."""

    def __init__(self) -> None:
        self.now = 100.0
        self.reasons: list[str] = []
        self.load = LoadControl(LimitSettings(), self.reasons.append, clock=lambda: self.now)


def test_an_idle_server_lets_in_as_many_at_once_as_it_may_before_they_are_measured_and_twice_as_many_later() -> None:
    door = Door()
    at_once = LimitSettings().max_newcomers
    assert [door.load.admit(LIVE) for _ in range(at_once)] == [None] * at_once
    assert isinstance(door.load.admit(LIVE), Overloaded)
    assert door.load.admit(FILE) is None
    door.now += 3
    assert [door.load.admit(LIVE) for _ in range(at_once)] == [None] * at_once
    assert isinstance(door.load.admit(LIVE), Overloaded)
    assert door.reasons == ["rush", "rush"]


def test_late_chunks_refuse_live_sessions_with_a_time_to_come_back_and_no_files() -> None:
    door = Door()
    assert door.load.admit(LIVE) is None
    door.load.step_done(LATE)
    refused = door.load.admit(LIVE)
    assert isinstance(refused, Overloaded)
    assert refused.retry_after_s
    assert door.load.admit(FILE) is None
    door.load.release(FILE)
    assert door.reasons == ["lag"]
    assert 3.0 <= door.load.lag_p95_s("vad") <= 3.75
    door.load.release(LIVE)
    assert door.load.admit(LIVE) is None


def test_a_busy_model_refuses_live_sessions() -> None:
    door = Door()
    assert door.load.admit(replace(LIVE, audio=AudioFormat(channels=2))) is None
    for _ in range(5):
        door.now += 1.0
        door.load.step_done(SLOW)
    assert isinstance(door.load.admit(LIVE), Overloaded)
    assert door.reasons == ["utilisation"]


def test_a_late_event_loop_refuses_live_sessions() -> None:
    door = Door()
    assert door.load.admit(LIVE) is None
    door.load.loop_lagged(2.0)
    assert isinstance(door.load.admit(LIVE), Overloaded)
    assert door.load.lag_p95_s(EVENT_LOOP) >= 2.0


def test_in_an_outage_nobody_is_let_in_not_even_files() -> None:
    door = Door()
    door.load.outage = lambda: ModelUnavailable("the model vad does not answer", retry_after_s=5)
    assert isinstance(door.load.admit(LIVE), ModelUnavailable)
    assert isinstance(door.load.admit(FILE), ModelUnavailable)
    assert door.reasons == ["outage", "outage"]
    door.load.outage = lambda: None
    assert door.load.admit(LIVE) is None


def test_steps_without_audio_count_by_requests() -> None:
    door = Door()
    assert door.load.admit(LIVE) is None
    for _ in range(5):
        door.now += 1.0
        door.load.step_done(replace(SLOW, name="punctuation", audio_s=0.0, live_asked_s=0.0))
    assert door.load.utilisation("punctuation") == 30.0
    assert isinstance(door.load.admit(LIVE), Overloaded)
