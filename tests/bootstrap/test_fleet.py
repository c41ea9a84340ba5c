"""Whose door a session enters, and what several workers say as one."""

import asyncio
import re
from pathlib import Path

import msgspec
import pytest
from pydantic import SecretStr
from structlog.testing import capture_logs

from streamscribe.bootstrap.desk import merged
from streamscribe.bootstrap.fleet import settings as shares
from streamscribe.bootstrap.fleet.door import FleetDoor
from streamscribe.bootstrap.fleet.platform import fleet_platform
from streamscribe.bootstrap.threads import step_threads
from streamscribe.core.audio import AudioFormat
from streamscribe.core.errors import BadRequest, CacheUnavailable, ModelUnavailable, Overloaded
from streamscribe.core.ids import SessionId, TenantId, TraceId
from streamscribe.core.options import SessionOptions
from streamscribe.core.records import SessionOpened
from streamscribe.settings import LimitSettings, Settings, SettingsError, load
from streamscribe.wire import worker_control as control
from streamscribe.wire.rest_cache import Level, Tier

LIVE = SessionOptions()
LATE = control.Step("vad", 4, 64, step_s=0.01, audio_s=0.4, live=4, live_asked=4, live_asked_s=0.4, lag_s=3.0)


class Doors:
    """The door of a fleet, its clock, and the reasons that it told."""

    def __init__(self, *members: int) -> None:
        self.now = 100.0
        self.reasons: list[str] = []
        self.door = FleetDoor(LimitSettings(), self.reasons.append, lambda: self.now)
        for member in members:
            self.door.join(member)

    def admit(self, name: str, options: SessionOptions = LIVE) -> object:
        return self.door.admit(options, SessionId(name), TenantId("t"))

    def place(self, name: str, options: SessionOptions = LIVE) -> int | None:
        return self.door.place(SessionOpened(SessionId(name), 0, TenantId("t"), TraceId("x"), options))


def test_sessions_are_spread_over_the_workers_by_voices() -> None:
    doors = Doors(0, 1)
    stereo = SessionOptions(audio=AudioFormat(channels=2))
    assert [doors.admit("a", stereo), doors.admit("b"), doors.admit("c"), doors.admit("d")] == [None] * 4
    assert [doors.place("a"), doors.place("b"), doors.place("c"), doors.place("d")] == [0, 1, 1, 0]
    doors.door.check_integrity()


def test_who_is_refused_by_one_worker_is_let_in_by_another() -> None:
    doors = Doors(0, 1)
    assert doors.admit("a") is None
    doors.door.heard(0, control.Status((), 0, steps=(LATE,)))
    assert doors.admit("b") is None
    assert doors.admit("c") is None
    assert [doors.place("b"), doors.place("c")] == [1, 1]
    assert doors.reasons == []


def test_only_where_all_refuse_a_session_is_refused_with_the_reason_of_the_least_loaded() -> None:
    doors = Doors(0, 1)
    assert [doors.admit("a"), doors.admit("b")] == [None, None]
    for member in (0, 1):
        doors.door.heard(member, control.Status((), 0, steps=(LATE,)))
    assert isinstance(doors.admit("c"), Overloaded)
    assert doors.reasons == ["lag"]
    assert doors.place("c") is None


def test_without_a_worker_nobody_is_let_in_and_the_time_to_come_back_is_told() -> None:
    doors = Doors()
    refused = doors.admit("a")
    assert isinstance(refused, ModelUnavailable)
    assert refused.retry_after_s
    assert doors.reasons == ["outage"]


def test_a_worker_whose_models_serve_nobody_is_given_nobody() -> None:
    doors = Doors(0, 1)
    doors.door.heard(0, control.Status((), 0, outage=True))
    assert doors.admit("a") is None
    assert doors.place("a") == 1
    doors.door.heard(0, control.Status((), 0))
    assert doors.admit("b") is None
    assert doors.place("b") == 0


def test_the_sessions_of_a_worker_that_left_are_counted_at_those_that_take_them_over() -> None:
    doors = Doors(0, 1)
    for name in "abcd":
        assert doors.admit(name) is None
    doors.door.leave(0)
    assert {doors.place(name) for name in "abcd"} == {1}
    doors.door.join(0)
    assert doors.admit("e") is None
    assert doors.place("e") == 0
    for name in "abcde":
        doors.door.release(LIVE, SessionId(name))
    doors.door.check_integrity()


def test_a_session_that_waits_for_a_worker_gets_the_next() -> None:
    doors = Doors(0)
    assert doors.admit("a") is None
    doors.door.leave(0)
    assert doors.place("a") is None
    doors.door.join(0)
    assert doors.place("a") == 0


def test_a_late_event_loop_of_the_gateway_closes_all_doors() -> None:
    doors = Doors(0, 1)
    assert doors.admit("a") is None
    assert doors.admit("b") is None
    doors.door.loop_lagged(5.0)
    assert isinstance(doors.admit("c"), Overloaded)


def test_what_workers_keep_is_summed_but_for_what_they_share() -> None:
    def level(hits: int, entries: int) -> Level:
        tiers = (Tier("memory", True, entries, 10 * entries, 1), Tier("redis", True, 7, 70, 0))
        return Level("transcripts", tiers, 60.0, hits, 2)

    told = merged([(level(3, 1),), (level(4, 2),)], figures=True)
    tiers = (Tier("memory", True, 3, 30, 2), Tier("redis", True, 7, 70, 0))
    assert told == (Level("transcripts", tiers, 60.0, 7, 4),)
    rests = msgspec.structs.replace(level(3, 1), resting=True)
    assert merged([(rests,), (level(4, 2),)], figures=True)[0].resting is True
    names = merged([(rests,)], figures=False)
    assert names == (Level("transcripts", (Tier("memory"), Tier("redis")), 60.0),)


def test_settings_reach_a_worker_whole_with_secrets_and_its_share_of_the_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.cpu_count", lambda: 8)
    settings = load(None, {"worker.processes": 4, "cache.transcripts": True, "cache.redis_url": "redis://:word@host/0"})
    told = msgspec.json.decode(control.encode(control.Begin(2, shares.for_worker(settings))))
    again = Settings(**told["settings"])
    assert again.cache.redis_url == SecretStr("redis://:word@host/0")
    assert again.model.threads == 2
    assert again.limits == settings.limits
    assert "word" not in repr(again)


@pytest.mark.parametrize(("chosen", "threads"), [({"profile": "tiny"}, 1), ({"profile": "tiny", "threads": 3}, 3)])
def test_a_worker_has_as_many_threads_for_the_small_models_as_one_process_would(
    chosen: dict[str, object], threads: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("os.cpu_count", lambda: 8)
    settings = load(None, {"worker.processes": 1} | {f"model.{name}": value for name, value in chosen.items()})
    assert shares.for_worker(settings)["model"]["threads"] == step_threads(settings.model) == threads


@pytest.mark.parametrize("name", ["feature_cache_dir", "transcript_dir"])
def test_a_folder_is_not_shared_by_processes_and_the_error_names_what_is(name: str, tmp_path: Path) -> None:
    settings = load(None, {f"cache.{name}": str(tmp_path), "worker.processes": 2})
    with pytest.raises(SettingsError, match=rf"cache\.{name}.*redis_url"):
        shares.check(settings)


@pytest.mark.parametrize("data", [b"", b"{}", b'{"type":"begin"}', b'{"type":"status","waiting_for":3}', b"\xff"])
def test_what_is_no_control_message_raises_a_bad_request_only(data: bytes) -> None:
    with pytest.raises(BadRequest):
        control.for_worker(data)
    with pytest.raises(BadRequest):
        control.for_gateway(data)


def test_a_problem_comes_back_as_the_error_that_it_was() -> None:
    error = control.Problem.of(CacheUnavailable()).error()
    assert isinstance(error, CacheUnavailable)


async def test_a_defect_of_who_keeps_the_workers_ends_the_server_instead_of_being_seen_by_nobody() -> None:
    async def defect() -> None:
        raise ZeroDivisionError

    async def serve() -> None:
        async with fleet_platform(load(None, {"worker.processes": 1, "model.profile": "fake"})) as running:
            running.supervisor._keep = lambda number: defect()  # type: ignore[method-assign,assignment]
            await asyncio.Event().wait()

    with pytest.raises(ExceptionGroup) as ended:
        await serve()
    assert ended.group_contains(ZeroDivisionError)


async def test_what_keeps_a_worker_from_replacing_its_models_is_in_the_log() -> None:
    settings = load(None, {"worker.processes": 1, "model.profile": "fake"})
    async with fleet_platform(settings) as running:
        await running.wait_ready()
        ((_, worker),) = running.supervisor.workers
        worker.link.close()
        with capture_logs() as lines:
            await running.reloads.to(settings.model)
    (told,) = [line for line in lines if line["event"] == "models are not replaced"]
    assert (told["component"], told["code"]) == ("worker-0", "model_unavailable")
    assert told["detail"] == "a worker process gave no answer"


async def test_a_worker_that_starts_while_models_are_replaced_has_the_new_ones_too() -> None:
    """It was told the former settings, or has read former files, and is no member yet."""
    settings = load(None, {"worker.processes": 1, "model.profile": "fake"})
    async with fleet_platform(settings) as running:
        while not running.supervisor.running:
            await asyncio.sleep(0.01)
        assert running.waiting_for() == ["workers"]
        await running.reloads.to(settings.model.model_copy(update={"fake_cost_ms": 1}))
        await running.wait_ready()
        text, _ = await running.exposition.exposition()
    assert re.search(rb'streamscribe_model_swaps_total\{.*result="done".*\} 1\.0', text)
