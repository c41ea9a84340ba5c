"""`streamscribe sessions` and what `doctor` says of the session store, with a real Redis."""

import asyncio
import json
import re

import pytest

from streamscribe.cli import output, sessions
from streamscribe.core.ids import SessionId, TenantId
from streamscribe.core.session_table import Stage
from streamscribe.core.session_view import SessionView
from streamscribe.store.redis_sessions import RedisSessions
from tests.contracts.redis_server import redis_server
from tests.contracts.session_store import MODELS, checkpoint, opened, seat

FAKE = ["--set", "model.profile=fake"]
AWAY = "Redis cannot be reached (127.0.0.1:9); is it started? type: redis-server, or give another by REDIS_URL"


@pytest.fixture(scope="module")
def redis_url(tmp_path_factory):
    """Of a Redis in which one session has an owner, one lags more, and one waits for a worker."""
    with redis_server(tmp_path_factory.mktemp("redis")) as url:
        asyncio.run(_fill(url))
        yield url


async def _fill(url):
    store = RedisSessions(url, lease_ttl_s=36_000, seat_ttl_s=36_000, keep_s=36_000, timeout_s=20)
    bob = TenantId("bob")
    for one in seat("waits"), seat("runs"), seat("lags", tenant_id=bob):
        await store.enter(one, max_sessions=5)
    for name in "runs", "lags":
        lease = await store.claim(SessionId(name), "worker-7")
        await store.save(lease, opened=opened(lease.session_id), checkpoint=checkpoint(2))
    told = {"stage": Stage.STREAMING, "received_ms": 200_000}
    await store.keep([seat("runs", processed_ms=199_800, **told)])
    await store.keep([seat("lags", tenant_id=bob, processed_ms=190_000, **told)])
    await store.close()


class TestList:
    def test_those_without_a_worker_come_first_then_those_that_lag(self, run, redis_url):
        done = run("sessions", "list", REDIS_URL=redis_url)
        assert (done.code, done.err) == (0, "")
        lines = [line.split() for line in done.out.splitlines() if "─" not in line]
        assert lines[:2] == [
            ["session", "gateway", "stage", "lag", "age"],
            ["tenant", "worker", "owners", "received", "told"],
        ]
        first, second = lines[2::2], [line[:-3] for line in lines[3::2]]  # without the times, which go on
        assert [line[:5] for line in first] == [
            ["waits", "g1", "created", "0.0", "s"],
            ["lags", "g1", "streaming", "10.0", "s"],
            ["runs", "g1", "streaming", "0.2", "s"],
        ]
        assert second == [
            ["acme", "none", "0", "0.0", "s"],
            ["bob", "worker-7", "1", "3", "min"],
            ["acme", "worker-7", "1", "3", "min"],
        ]

    def test_of_one_tenant_as_json(self, run, redis_url):
        told = json.loads(run("sessions", "list", "--tenant", "bob", "--json", REDIS_URL=redis_url).out)
        assert told["total"] == 1
        (session,) = told["sessions"]
        assert session["age_s"] > 0
        assert {name: session[name] for name in ("session_id", "called", "stage", "gateway", "owner", "lag_ms")} == {
            "session_id": "lags",
            "called": "call-lags",
            "stage": "streaming",
            "gateway": "g1",
            "owner": "worker-7",
            "lag_ms": 10_000,
        }

    def test_what_is_left_out_is_told(self, run, redis_url):
        done = run("sessions", "list", "--limit", "2", REDIS_URL=redis_url)
        assert done.code == 0
        assert "2 of 3 sessions: those that were not spoken of for longest; --limit 3 shows more" in done.err

    def test_no_sessions_are_told_as_such(self, run, redis_url):
        done = run("sessions", "list", "--tenant", "nobody", REDIS_URL=redis_url)
        assert (done.code, done.out, done.err) == (0, "", "no session is open\n")


@pytest.mark.parametrize("columns", [40, 100, 140])
def test_a_list_takes_a_hundred_columns_where_the_screen_has_no_more_and_cuts_nothing(columns, monkeypatch, capsys):
    monkeypatch.setattr(output.out, "_width", columns)
    session, gateway, worker = 32 * "1", "host-1-" + 40 * "G", "host-2-" + 40 * "W"
    views = [SessionView(SessionId(session), 7000.0, TenantId(40 * "T"), None, gateway, Stage.STREAMING, owner=worker)]
    output.print_folded(sessions.table_of(views))
    shown = capsys.readouterr().out
    assert max(map(len, shown.splitlines())) <= max(columns, 100)
    assert session in shown
    assert [shown.count(letter) for letter in "GWT…"] == [40, 40, 40, 0]


class TestShow:
    @pytest.mark.parametrize("name", ["lags", "call-lags"])
    def test_a_session_is_shown_by_its_id_or_by_its_clients(self, run, redis_url, name):
        done = run("sessions", "show", name, REDIS_URL=redis_url)
        assert done.code == 0
        worker = ("│ worker-7, for 10.0 h more", ", of owner number 1")
        for told in ("│ lags", "│ bob", "│ g1, which told of it", *worker):
            assert told in done.out
        for told in ("stage  .*streaming", r"received .*3 min", r"processed .*3 min", r"lag  .*10\.0 s"):
            assert re.search(told + r", \d+\.\d s ago", done.out), told
        assert "│ at 2.0 s, " in done.out
        assert all(f"│ {model} " in done.out for model in MODELS)

    def test_one_that_no_worker_has_saved_says_that_its_models_are_not_known_yet(self, run, redis_url):
        assert re.search(r"models  .*none yet: ", run("sessions", "show", "waits", REDIS_URL=redis_url).out)

    def test_as_json(self, run, redis_url):
        told = json.loads(run("sessions", "show", "waits", "--json", REDIS_URL=redis_url).out)
        assert (told["session_id"], told["tenant_id"], told["owner"], told["epoch"]) == ("waits", "acme", None, None)

    def test_one_that_is_not_there_exits_1_and_says_what_to_type(self, run, redis_url):
        done = run("sessions", "show", "nothing", REDIS_URL=redis_url)
        assert (done.code, done.out) == (1, "")
        assert done.err.startswith("error: no session nothing is open: ")
        assert done.err.endswith("see: streamscribe sessions list\n")

    def test_one_that_may_be_among_those_that_were_not_looked_at_is_not_told_as_ended(
        self, monkeypatch, capsys, redis_url
    ):
        monkeypatch.setattr(sessions, "MAX_LISTED", 2)
        monkeypatch.setenv("REDIS_URL", redis_url)
        with pytest.raises(SystemExit) as ended:
            sessions.show("call-nobody")
        told = capsys.readouterr().err
        assert ended.value.code == 1
        assert "nor do clients call any so of the 2 that were looked at" in told
        assert "1 more are open" in told
        assert "has ended" not in told

    def test_what_is_no_id_exits_2(self, run, redis_url):
        assert run("sessions", "show", "a b", REDIS_URL=redis_url).code == 2


def test_without_a_redis_it_exits_2_and_says_how_to_name_one(run):
    done = run("sessions", "list", REDIS_URL="")
    assert (done.code, done.out) == (2, "")
    assert done.err.startswith("error: setting store.redis_url: no Redis is named; set REDIS_URL, ")


def test_a_redis_that_is_away_exits_1_says_what_to_do_and_tells_no_password(run):
    done = run("sessions", "list", REDIS_URL="redis://:hunter2@127.0.0.1:9/0")
    assert (done.code, done.err) == (1, f"error: {AWAY}\n")


@pytest.mark.parametrize("role", [["gateway", "--port", "0", "--funasr-port", "-1"], ["worker", "--health-port", "0"]])
def test_a_role_of_a_cluster_whose_redis_and_kafka_are_away_names_both_and_says_what_to_do(run, role):
    done = run(*role, *FAKE, REDIS_URL="redis://:hunter2@127.0.0.1:9/0", KAFKA_BROKERS="127.0.0.1:9")
    assert (done.code, done.out) == (1, "")
    assert f"error: {AWAY}; and no broker answers at 127.0.0.1:9: " in done.err
    assert done.err.endswith("give another by KAFKA_BROKERS\n")
    assert "hunter2" not in done.err


@pytest.mark.parametrize("role", ["gateway", "worker", "finalizer"])
def test_a_role_without_a_cluster_says_so_before_it_asks_for_models(run, tmp_path, role):
    done = run(role, REDIS_URL="", KAFKA_BROKERS="", STREAMSCRIBE_MODEL__DIR=str(tmp_path))
    assert (done.code, done.out) == (2, "")
    assert "neither a Kafka nor a Redis is named" in done.err


class TestDoctor:
    def finding(self, run, url):
        done = run("doctor", "--json", *FAKE, "--set", "gateway.port=0", REDIS_URL=url)
        (found,) = [one for one in json.loads(done.out)["findings"] if one["name"] == "session store"]
        assert done.code == (0 if found["ok"] else 1)
        return found

    def test_a_redis_that_is_fit_is_told_with_its_version_and_its_room(self, run, redis_url):
        found = self.finding(run, redis_url)
        assert found["ok"]
        assert found["detail"].startswith("Redis ")
        assert found["detail"].endswith(" MB used without a bound")

    def test_a_redis_that_would_drop_leases_fails_it_with_what_to_type(self, run, tmp_path):
        with redis_server(tmp_path, "--maxmemory-policy", "volatile-lru") as url:
            found = self.finding(run, url)
        assert not found["ok"]
        assert found["detail"].startswith("maxmemory-policy is volatile-lru: ")
        assert found["type_this"].endswith("config set maxmemory-policy noeviction")

    def test_a_redis_that_is_away_fails_it_and_says_how_one_is_started(self, run):
        found = self.finding(run, "redis://127.0.0.1:9/0")
        assert (found["ok"], found["detail"]) == (False, "Redis cannot be reached (127.0.0.1:9)")
        assert found["type_this"] == "redis-server"

    def test_what_is_no_address_fails_it_and_shows_no_password(self, run):
        found = self.finding(run, "http://:hunter2@host")
        assert found["detail"] == "setting store.redis_url: not an address like redis://host:6379/0"
