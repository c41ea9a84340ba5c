"""Unread messages: guesses are merged, facts are kept in order, and there is a bound."""

import asyncio
from contextlib import suppress

import pytest

from streamscribe.client.errors import ConnectionLost
from streamscribe.client.inbox import Inbox
from streamscribe.wire.native_server import AckMessage, FlushedMessage, HeartbeatMessage, ResultMessage


def result(segment: int, version: int, *, final: bool = False) -> ResultMessage:
    return ResultMessage(
        session_id="s", sequence=0, result_type="final" if final else "partial", pass_=1, segment_id=segment,
        version=version, channel=0, text="", stable_chars=0, start_ms=0, end_ms=0, words=[], confidence=0.0,
        is_final=final, language=None, trace_id="t",
    )  # fmt: skip


async def drain(inbox: Inbox) -> list:
    await inbox.finish(None)
    messages = []
    with suppress(StopAsyncIteration):
        while True:
            messages.append(await inbox.get())
    return messages


async def test_a_newer_guess_takes_the_place_of_an_unread_one():
    inbox = Inbox()
    for message in (result(0, 1), result(1, 2), result(0, 3), AckMessage(1), HeartbeatMessage(1, 1, 0), AckMessage(2)):
        await inbox.put(message)
    assert await drain(inbox) == [result(1, 2), result(0, 3), HeartbeatMessage(1, 1, 0), AckMessage(2)]


async def test_a_final_takes_the_place_of_its_guesses_and_facts_stay():
    inbox = Inbox()
    facts = [FlushedMessage("m"), FlushedMessage("m"), result(0, 2, final=True), result(0, 3, final=True)]
    for message in (result(0, 1), *facts):
        await inbox.put(message)
    assert await drain(inbox) == facts


async def test_a_full_inbox_lets_the_writer_wait():
    inbox = Inbox(max_unread=1)
    await inbox.put(FlushedMessage("1"))
    second = asyncio.ensure_future(inbox.put(FlushedMessage("2")))
    await asyncio.sleep(0)
    assert not second.done()
    assert await inbox.get() == FlushedMessage("1")
    await second
    assert await inbox.get() == FlushedMessage("2")


async def test_the_reader_gets_what_came_before_the_failure():
    inbox = Inbox()
    await inbox.put(FlushedMessage("1"))
    await inbox.finish(ConnectionLost("gone"))
    assert await inbox.get() == FlushedMessage("1")
    with pytest.raises(ConnectionLost):
        await inbox.get()
