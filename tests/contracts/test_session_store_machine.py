"""Whatever owners do, however late they are, and whoever lets go when: one owner at a time, and no stale write."""

import asyncio

import pytest
import redis.asyncio
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule, run_state_machine_as_test

from streamscribe.core.errors import LeaseLost
from streamscribe.ports import Kept
from streamscribe.store.memory_sessions import MemorySessions
from streamscribe.store.redis_sessions import RedisSessions
from tests.contracts.redis_server import redis_server
from tests.contracts.redis_time import pass_time
from tests.contracts.session_store import KEEP_S, LEASE_S, S1, S2, SEAT_S, checkpoint, opened, seat

TIMES = {"lease_ttl_s": LEASE_S, "seat_ttl_s": SEAT_S, "keep_s": KEEP_S}
OWNERS = st.sampled_from(["w1", "w2", "w3"])
GATEWAYS = st.sampled_from(["g1", "g2"])
SESSIONS = st.sampled_from([S1, S2])


class _Truth:
    """What must hold of one session: who owns it until when, what was written, and who has it at the edge."""

    def __init__(self):
        self.epoch = None
        self.owner = None
        self.lease_end = self.kept_until = self.seat_end = 0
        self.opened = False
        self.place = None
        self.gateway = None

    def forget_worker(self):
        self.epoch = self.owner = self.place = None
        self.opened = False
        self.lease_end = 0


class SessionStoreMachine(RuleBasedStateMachine):
    """`believed` are the leases that owners think to have: one that was frozen goes on with an old one."""

    def __init__(self):
        super().__init__()
        self.loop = asyncio.Runner()
        self.now = 0
        self.truths = {S1: _Truth(), S2: _Truth()}
        self.believed = {}
        self.epochs = set()
        self.fenced = 0
        self.store = self.run(self.open())

    async def open(self):
        raise NotImplementedError

    async def move(self, seconds):
        raise NotImplementedError

    async def shut(self):
        await self.store.close()

    def run(self, work):
        return self.loop.run(work)

    def teardown(self):
        self.run(self.shut())
        self.loop.close()

    def touch(self, truth):
        truth.kept_until = self.now + KEEP_S

    @rule(hundreds=st.integers(1, 7))
    def time_passes(self, hundreds):
        self.pass_time(100 * hundreds)

    @rule()
    def nobody_speaks_for_long(self):
        self.pass_time(int(KEEP_S))

    def pass_time(self, seconds):
        self.now += seconds
        self.run(self.move(seconds))
        for truth in self.truths.values():
            if self.now >= truth.kept_until:
                truth.forget_worker()
                truth.gateway = None

    @rule(session=SESSIONS, owners=st.lists(OWNERS, min_size=1, max_size=3, unique=True))
    def law_2_owners_claim_at_once_and_one_at_most_gets_it(self, session, owners):
        truth = self.truths[session]
        in_force = self.now < truth.lease_end
        done = self.run(_together(self.store.claim(session, owner) for owner in owners))
        got = [lease for lease in done if not isinstance(lease, LeaseLost)]
        assert len(got) == (truth.owner in owners if in_force else 1)
        for lease in got:
            self.believed[lease.owner, session] = lease
            if in_force:
                assert lease.epoch == truth.epoch
            else:
                assert (session, lease.epoch) not in self.epochs
                assert truth.epoch is None or lease.epoch == truth.epoch + 1
            self.epochs.add((session, lease.epoch))
            truth.epoch, truth.owner, truth.lease_end = lease.epoch, lease.owner, self.now + LEASE_S
            self.touch(truth)

    @rule(owner=OWNERS)
    def law_2_only_leases_in_force_are_renewed(self, owner):
        leases = [lease for (name, _), lease in self.believed.items() if name == owner]
        for lease, renewed in zip(leases, self.run(self.store.renew(leases)), strict=True):
            truth = self.truths[lease.session_id]
            assert (renewed is not None) == (truth.epoch == lease.epoch and self.now < truth.lease_end)
            if renewed:
                self.believed[owner, lease.session_id] = renewed
                truth.lease_end = self.now + LEASE_S
                self.touch(truth)

    @rule(owner=OWNERS, session=SESSIONS)
    def a_release_frees_ones_own_only(self, owner, session):
        if lease := self.believed.get((owner, session)):
            self.run(self.store.release(lease))
            truth = self.truths[session]
            if truth.epoch == lease.epoch:
                truth.lease_end = min(truth.lease_end, self.now)

    @rule(owner=OWNERS, session=SESSIONS, index=st.integers(0, 3), skip=st.integers(0, 1), opens=st.booleans())
    def law_2_a_former_owner_writes_nothing(self, owner, session, index, skip, opens):
        lease, truth = self.believed.get((owner, session)), self.truths[session]
        if lease and self.may_write(
            lease, self.store.save(lease, opened=opened(session) if opens else None, checkpoint=checkpoint(index, skip))
        ):
            truth.opened |= opens
            truth.place = max(truth.place or (0, 0), (index, skip))
            self.touch(truth)

    @rule(owner=OWNERS, session=SESSIONS)
    def law_2_a_former_owner_ends_nothing(self, owner, session):
        lease = self.believed.get((owner, session))
        if lease and self.may_write(lease, self.store.forget(lease)):
            self.truths[session].forget_worker()

    def may_write(self, lease, write):
        (error,) = self.run(_together([write]))
        assert (error is None) == (self.truths[lease.session_id].epoch == lease.epoch)
        self.fenced += error is not None
        return error is None

    @rule(session=SESSIONS, gateway=GATEWAYS)
    def the_gateway_that_enters_first_has_the_session(self, session, gateway):
        self.run(self.store.enter(seat(session, gateway), max_sessions=9))
        if self.truths[session].gateway in (None, gateway):
            self.sit(self.truths[session], gateway)

    @rule(session=SESSIONS, gateway=GATEWAYS)
    def only_the_gateway_that_has_it_keeps_a_session(self, session, gateway):
        truth = self.truths[session]
        (still,) = self.run(self.store.keep([seat(session, gateway)]))
        assert (still is not Kept.LOST) == (truth.gateway in (None, gateway))
        if still:
            self.sit(truth, gateway)

    @rule(session=SESSIONS, gateway=GATEWAYS)
    def only_the_gateway_that_has_it_lets_a_session_go(self, session, gateway):
        truth = self.truths[session]
        self.run(self.store.leave(seat(session, gateway)))
        if truth.gateway in (None, gateway):
            truth.gateway, truth.seat_end = None, 0

    def sit(self, truth, gateway):
        truth.gateway, truth.seat_end = gateway, self.now + SEAT_S
        self.touch(truth)

    @invariant()
    def the_store_knows_what_happened_and_nothing_else(self):
        self.run(self.compare())

    async def compare(self):
        for session, truth in self.truths.items():
            view, loaded = await self.store.session(session), await self.store.load(session)
            known = truth.epoch is not None or truth.gateway is not None
            assert (view is not None) == known
            if view is not None:
                held = self.now < truth.lease_end
                assert (view.epoch, view.owner) == (truth.epoch, truth.owner if held else None)
                assert view.gateway == truth.gateway
            assert (loaded is not None) == truth.opened
            if loaded is not None:
                point = loaded.checkpoint
                assert (point and (point.index, point.skip_bytes)) == truth.place
        known = [truth for truth in self.truths.values() if truth.epoch is not None or truth.gateway is not None]
        assert (await self.store.sessions(10)).total == len(known)
        seated = [truth for truth in self.truths.values() if self.now < truth.seat_end]
        assert (await self.store.sessions(10, seat().tenant_id)).total == len(seated)
        assert self.store.counts().fenced == self.fenced


async def _together(calls):
    return await asyncio.gather(*calls, return_exceptions=True)


class MemoryMachine(SessionStoreMachine):
    async def open(self):
        return MemorySessions(**TIMES, clock=lambda: float(self.now))

    async def move(self, seconds):
        pass

    async def shut(self):
        self.store.check_integrity()
        await super().shut()


@pytest.mark.timeout(180)
def test_memory_sessions():
    run_state_machine_as_test(MemoryMachine)


@pytest.fixture(scope="module")
def redis_url(tmp_path_factory):
    with redis_server(tmp_path_factory.mktemp("redis")) as url:
        yield url


@pytest.mark.timeout(180)
def test_redis_sessions(redis_url):
    class RedisMachine(SessionStoreMachine):
        async def open(self):
            self.client = redis.asyncio.Redis.from_url(redis_url)
            await self.client.flushall()
            return RedisSessions(redis_url, **TIMES, timeout_s=50)

        async def move(self, seconds):
            await pass_time(self.client, seconds)

        async def shut(self):
            await super().shut()
            await self.client.aclose()

    slow_is_right = settings(
        max_examples=15, stateful_step_count=30, deadline=None, suppress_health_check=[HealthCheck.too_slow]
    )
    run_state_machine_as_test(RedisMachine, settings=slow_is_right)
