"""What a worker tells gateways of many sessions at once."""

import asyncio
from types import SimpleNamespace
from typing import Any, cast

from streamscribe.bus.kafka.envelope import Settled, decode_settled
from streamscribe.bus.kafka.teller import SETTLE_INTERVAL_S, Teller
from streamscribe.core.ids import LeaseEpoch, SessionId


class Processed:
    """A session of which there is news."""

    reply_to, over = 0, False

    def __init__(self, news: Settled) -> None:
        self._news = news

    def settled(self) -> Settled:
        return self._news


async def test_news_of_however_many_sessions_go_in_records_that_any_log_takes() -> None:
    sent: list[bytes] = []
    sender: Any = SimpleNamespace(send=lambda topic, value, *_, **__: sent.append(value))
    teller = Teller(sender, "results", *cast("Any", [lambda *_: None] * 3))
    news = [Settled(SessionId(f"{number:032x}"), LeaseEpoch(2**40), 2**40, 2**20) for number in range(3000)]
    for one in news:
        teller.tell_settled(cast("Any", Processed(one)))
    async with asyncio.timeout(10):
        while not sent:
            await asyncio.sleep(SETTLE_INTERVAL_S)
    told = [settled for value in sent for settled in decode_settled(value)]
    assert sorted(told, key=lambda one: one.session_id) == news
    assert max(map(len, sent)) < 2**15
