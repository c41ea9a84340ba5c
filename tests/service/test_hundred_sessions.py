"""A hundred sessions at once over real sockets: each hears itself alone, and nothing of them stays."""

import asyncio
import random

import pytest

from streamscribe.client.local_server import RunningServer
from streamscribe.core.options import Mode
from streamscribe.wire.native_server import ClosedMessage, ErrorMessage, ResultMessage, ServerWire
from tests.service.kit import cut, cut_at_random, figure, finals_of, noise_speech, session, spoken, until_no_session

pytestmark = pytest.mark.timeout(120)

SESSIONS = 100
ALONE_BYTES = 32_000


def check_order(messages: list[ServerWire]) -> None:
    """Law 3: versions grow, a segment has one final, and nothing comes after it."""
    results = [message for message in messages if isinstance(message, ResultMessage)]
    versions = [result.version for result in results]
    assert versions == sorted(set(versions))
    finished: set[int] = set()
    for result in results:
        assert result.segment_id not in finished
        if result.is_final:
            finished.add(result.segment_id)
    assert finished == {result.segment_id for result in results}


async def test_a_hundred_sessions_hear_what_each_hears_alone(fake_server: RunningServer) -> None:
    url = fake_server.address.websocket
    failed_before = await figure(fake_server, "streamscribe_failed_sessions_total")
    speech = [noise_speech(number) for number in range(SESSIONS)]
    alone = [finals_of(await session(url, cut(pcm, ALONE_BYTES), mode=Mode.OFFLINE)) for pcm in speech]
    assert all(len(finals) == 3 for finals in alone)
    assert len({final.text for finals in alone for final in finals}) == 3 * SESSIONS

    together = await asyncio.gather(
        *(session(url, cut_at_random(pcm, number), pauses=random.Random(number)) for number, pcm in enumerate(speech))
    )
    for messages, expected in zip(together, alone, strict=True):
        assert finals_of(messages) == expected
        own_words = {word for final in expected for word in spoken(final.text)}
        for message in messages:
            assert not isinstance(message, ErrorMessage)
            if isinstance(message, ResultMessage):
                assert set(spoken(message.text)) <= own_words
        check_order(messages)
        assert isinstance(messages[-1], ClosedMessage)
    assert any(isinstance(m, ResultMessage) and not m.is_final for messages in together for m in messages)

    await until_no_session(fake_server)
    assert await figure(fake_server, "streamscribe_failed_sessions_total") == failed_before
