"""What a tenant lists reaches its own sessions and no others: hot words, rules, redaction."""

import asyncio
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml
from websockets.asyncio.client import connect
from websockets.exceptions import InvalidStatus

from streamscribe.client.local_server import LocalServer, RunningServer
from streamscribe.control.keys import new_key
from tests.service.conftest import EVERYBODY
from tests.service.kit import END, cut, ending, figure, noise_speech, told

pytestmark = pytest.mark.timeout(60)

SPEECH = noise_speech(7100, bursts=2)


@dataclass(frozen=True)
class Lists:
    """A server of two tenants, whose file may be changed."""

    server: RunningServer
    file: Path
    acme: str
    other: str

    async def set(self, tenant: str, **lists: object) -> None:
        """Gives the tenant these lists alone; returns when new sessions have them: a key made after them is let in."""
        content = yaml.safe_load(self.file.read_text())
        content["tenants"][tenant] = {"keys": content["tenants"][tenant]["keys"], **lists}
        self.file.write_text(yaml.safe_dump(content))
        fresh = new_key(self.file, "witness")
        async with asyncio.timeout(15):
            while not await self._lets_in(fresh):
                await asyncio.sleep(0.1)

    async def _lets_in(self, key: str) -> bool:
        try:
            async with connect(f"{self.server.address.websocket}?token={key}", compression=None):
                return True
        except InvalidStatus:
            return False

    async def hear(self, key: str, start: dict[str, Any] | None = None) -> list[dict[str, Any]]:
        """All that a session says to SPEECH."""
        async with connect(f"{self.server.address.websocket}?token={key}", compression=None) as socket:
            await socket.send(json.dumps({"type": "start", "words": True, **(start or {})}))
            for packet in cut(SPEECH, 6400):
                await socket.send(packet)
            await socket.send(END)
            said, code, _ = await ending(socket)
            assert code == 1000
            return said


@pytest.fixture(scope="module")
def lists(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lists]:
    file = tmp_path_factory.mktemp("lists") / "tenants.yaml"
    acme, other = new_key(file, "acme"), new_key(file, "other")
    with LocalServer(["--profile", "fake", "--tenants", str(file), *EVERYBODY]) as running:
        yield Lists(running, file, acme, other)


def finals(said: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The last word on each segment."""
    last = {message["segment_id"]: message for message in said if message.get("is_final")}
    return [last[segment] for segment in sorted(last)]


def of_type(said: list[dict[str, Any]], kind: str) -> list[dict[str, Any]]:
    return [message for message in said if message["type"] == kind]


async def test_rules_of_a_tenant_are_told_before_their_final_and_to_nobody_else(lists: Lists) -> None:
    before = await lists.hear(lists.other)
    word = finals(before)[1]["words"][1]
    rule = {"name": "promises", "kind": "promised", "phrases": [word["text"].strip(".,").upper()]}
    await lists.set("acme", rules=[rule])
    said = await lists.hear(lists.acme)
    (hit,) = of_type(said, "rule_hit")
    assert (hit["segment_id"], hit["channel"]) == (1, 0)
    assert hit["hits"] == [
        {
            "rule": "promises",
            "kind": "promised",
            "phrase": rule["phrases"][0],
            "start_ms": word["start_ms"],
            "end_ms": word["end_ms"],
        }
    ]
    after = said[said.index(hit) + 1]
    assert (after["type"], after["segment_id"], after["is_final"]) == ("result", 1, True)
    assert of_type(await lists.hear(lists.other), "rule_hit") == []


async def test_redaction_of_a_tenant_reaches_partials_and_words_and_not_the_other_tenant(lists: Lists) -> None:
    before = await lists.hear(lists.other)
    words = {word["text"].strip(".,").lower() for final in finals(before) for word in final["words"]}
    await lists.set("acme", redact=sorted(words), redact_digits=True)
    said = await lists.hear(lists.acme)
    results = of_type(said, "result")
    for result in results:
        told_words = "".join(word["text"] for word in result["words"])
        assert not [word for word in words if word in (result["text"] + told_words).lower()]
        assert not any(char.isdigit() for char in result["text"] + told_words)
    assert [len(final["text"]) for final in finals(said)] == [len(final["text"]) for final in finals(before)]
    assert [final["text"] for final in finals(await lists.hear(lists.other))] == [f["text"] for f in finals(before)]


async def test_a_client_is_told_which_hot_words_hold_and_the_tenants_join_them(lists: Lists) -> None:
    await lists.set("acme", hotwords=["通义千问"])
    url = f"{lists.server.address.websocket}?token={lists.acme}&hotwords=FunASR,file:///etc/passwd"
    async with connect(url, compression=None) as socket:
        assert await told(socket, "hotwords") == {
            "type": "hotwords",
            "accepted": ["FunASR", "file:///etc/passwd"],
            "ignored": [],
        }
        await socket.send(json.dumps({"type": "start", "hotwords": ["a", "x" * 65]}))
        answer = await told(socket, "hotwords")
        assert answer["accepted"] == ["a"]
        assert [one["phrase"] for one in answer["ignored"]] == ["x" * 64]
        await socket.send(SPEECH[:3200])
        await socket.send(json.dumps({"type": "update", "hotwords": "b,c"}))
        assert (await told(socket, "hotwords"))["accepted"] == ["b", "c"]
        await socket.send(END)
        await ending(socket)


async def test_finals_of_sessions_with_hot_words_are_counted_by_tenant_without_the_words(lists: Lists) -> None:
    before = await lists.hear(lists.other)
    word = finals(before)[0]["words"][0]["text"].strip(".,")
    said = await lists.hear(lists.other, {"hotwords": [word, "notthere"]})
    assert of_type(said, "hotwords")[0]["accepted"] == [word, "notthere"]
    ratio = await figure(lists.server, 'funasr_hotword_hit_ratio{tenant="other"}', key=lists.other)
    assert ratio == 0.5
