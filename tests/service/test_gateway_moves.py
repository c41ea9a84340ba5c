"""Gateways that are killed or told to go: their clients go on at another one, and hear what they would have heard."""

import asyncio
from collections.abc import Iterator

import httpx
import pytest
from msgspec import structs

from streamscribe.client import addresses
from streamscribe.client.errors import ServerError
from streamscribe.client.native import NativeClient
from streamscribe.wire.native_server import AckMessage, ClosedMessage, ResultMessage, ResumedMessage, ServerWire
from tests.service.cluster_kit import Cluster, Role, cluster
from tests.service.kit import cut, noise_speech, session

pytestmark = pytest.mark.timeout(150)

PACKET_BYTES = 6400
SPEECH = [noise_speech(8000 + number) for number in range(10)]

Told = list[tuple[int, int, str, int, int]]


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """All begin at the first address, however busy this machine is."""
    monkeypatch.setattr(addresses, "HASTY_TIMEOUT_S", 60.0)
    monkeypatch.setattr(addresses, "OPEN_TIMEOUT_S", 60.0)


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    more = {"kafka.result_partitions": "12", "store.timeout_s": "2"}
    with cluster(tmp_path_factory.mktemp("cluster"), **more) as made:
        made.worker()
        yield made


def outcome(messages: list[ServerWire]) -> tuple[Told, int]:
    """Finals and length of a session that has ended well, in which neither versions nor acks went back."""
    last = messages[-1]
    assert isinstance(last, ClosedMessage)
    versions = [message.version for message in messages if isinstance(message, ResultMessage)]
    assert versions == sorted(set(versions))
    acks = [message.sequence for message in messages if isinstance(message, AckMessage)]
    assert acks == sorted(acks)
    results = [message for message in messages if isinstance(message, ResultMessage) and message.is_final]
    told = sorted((r.segment_id, r.pass_, r.text, r.start_ms, r.end_ms) for r in results)
    return told, last.audio_ms


class Talk:
    """Clients of several addresses that say SPEECH at twice real time, and all of them a last word after they moved."""

    def __init__(self, gateways: list[Role]) -> None:
        self._heard = [asyncio.Event() for _ in SPEECH]
        self.told = asyncio.gather(
            *(self._speaking(gateways, pcm, heard) for pcm, heard in zip(SPEECH, self._heard, strict=True))
        )

    async def under_way(self) -> None:
        """Returns when each has been told something of what it said; none has ended."""
        for heard in self._heard:
            await heard.wait()

    async def _speaking(self, gateways: list[Role], pcm: bytes, heard: asyncio.Event) -> tuple[Told, int]:
        """What a client is told, and the audio that was heard of it."""
        said: list[ServerWire] = []
        moved = asyncio.Event()
        async with NativeClient([one.websocket for one in gateways]) as client, asyncio.TaskGroup() as tasks:

            async def speak() -> None:
                *most, last = cut(pcm, PACKET_BYTES)
                for packet in most:
                    await client.send(packet)
                    await asyncio.sleep(0.1)
                await moved.wait()
                await client.send(last)
                await client.end()

            tasks.create_task(speak())
            async for message in client:
                said.append(message)
                if isinstance(message, ResultMessage):
                    heard.set()
                if isinstance(message, ResumedMessage):
                    moved.set()
        return outcome(said)


async def alone(gateway: Role) -> list[tuple[Told, int]]:
    told = await asyncio.gather(*(session(gateway.websocket, cut(pcm, PACKET_BYTES)) for pcm in SPEECH))
    return [outcome(list(messages)) for messages in told]


async def test_sessions_of_a_gateway_that_is_killed_go_on_at_another_and_nothing_is_lost_doubled_or_changed(
    running: Cluster,
) -> None:
    gateways = [running.gateway(), running.gateway()]
    undisturbed = await alone(gateways[1])
    assert all(len(told) >= 3 for told, _ in undisturbed)
    talk = Talk(gateways)
    await talk.under_way()
    gateways[0].kill()
    assert await talk.told == undisturbed


async def test_a_gateway_that_is_told_to_stop_leaves_its_sessions_to_another_and_ends_well(running: Cluster) -> None:
    gateways = [running.gateway(), running.gateway()]
    undisturbed = await alone(gateways[1])
    talk = Talk(gateways)
    await talk.under_way()
    assert await gateways[0].stop() == 0
    assert await talk.told == undisturbed


async def test_law_9_who_cannot_prove_the_right_to_a_session_elsewhere_finds_none(running: Cluster) -> None:
    first, other = running.gateway(), running.gateway()
    async with NativeClient(first.websocket) as client:
        await client.send(SPEECH[0][:PACKET_BYTES])
        async for message in client:
            if isinstance(message, AckMessage):
                break
        token, name = client.connected.resume_token, client.connected.session_id
        claims = [(name, token[:-1] + "~"), ("another", token), (name, "0" * 32 + token[32:]), (name, "?")]
        refusals = {await refusal(other, *claim) for claim in claims}
        assert refusals == {"session_not_found"}
        await client.end()
        assert isinstance([message async for message in client][-1], ClosedMessage)


async def refusal(gateway: Role, session_id: str, token: str) -> str:
    client = NativeClient(gateway.websocket)
    async with client:
        client.connected = structs.replace(client.connected, session_id=session_id, resume_token=token)
        with pytest.raises(ServerError) as refused:
            await client._resumed()
    return refused.value.error.name


async def test_a_tenant_at_its_quota_moves_all_its_sessions_and_what_keeps_newcomers_out_does_not_hold_for_them(
    running: Cluster,
) -> None:
    tight = {"max_tenant_sessions": len(SPEECH), "max_newcomers": 1, "max_new_sessions_per_min": 1}
    gateways = [running.gateway(), running.gateway(*(f"--set=limits.{name}={at}" for name, at in tight.items()))]
    undisturbed = await alone(gateways[0])
    talk = Talk(gateways)
    await talk.under_way()
    gateways[0].kill()
    assert await talk.told == undisturbed


async def test_a_gateway_that_an_operator_drains_leaves_its_sessions_to_another_and_ends_well(running: Cluster) -> None:
    gateways = [running.gateway(), running.gateway()]
    undisturbed = await alone(gateways[1])
    talk = Talk(gateways)
    await talk.under_way()
    async with httpx.AsyncClient(timeout=None) as http:
        answer = await http.post(f"{gateways[0].url}/admin/drain")
    assert (answer.status_code, answer.json()["movable"]) == (202, len(SPEECH))
    assert await asyncio.to_thread(gateways[0].process.wait) == 0
    assert await talk.told == undisturbed
