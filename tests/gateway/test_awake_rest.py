"""What a client over HTTP did in time, while its gateway stood still, counts when that wakes; in virtual time."""

import asyncio
from collections.abc import Container
from typing import Any, cast

import pytest
from starlette.requests import ClientDisconnect
from starlette.types import Message

from streamscribe.audio.decode import DecodeLimits, DecoderPool, Decoding
from streamscribe.core.ids import TenantId
from streamscribe.gateway.recognition import Finals
from streamscribe.gateway.rest import routes
from streamscribe.gateway.rest.answer import EventStream
from streamscribe.ports import Tenant
from tests.gateway.test_awake import stand_still
from tests.gateway.test_waiting_for_room import LIMITS, in_virtual_time, rig

FORM = [(b"content-type", b"multipart/form-data; boundary=x")]
EACH = range(10_000)


class Upload:
    """A form in so many pieces, one a second, that is cut off then; while some come its gateway stands still."""

    def __init__(self, pieces: int, still_at: Container[int]) -> None:
        self._pieces = pieces
        self._still_at = still_at
        self._came = 0
        self.status = 0

    async def receive(self) -> Message:
        self._came += 1
        if self._came in self._still_at:
            asyncio.get_running_loop().call_later(0.5, stand_still)
        await asyncio.sleep(1.0)
        body = b"a" if self._came > 1 else b"--x\r\n"
        return {"type": "http.request", "body": body, "more_body": self._came < self._pieces}

    async def send(self, message: Message) -> None:
        self.status = message.get("status", self.status)


@pytest.mark.parametrize(
    ("pieces", "still_at", "status"),
    [
        (3, [], 400),
        (3, [2], 400),
        (505, [500], 400),  # which was too long in all then
        (int(LIMITS.upload_timeout_s) + 1, [], 408),
        (int(LIMITS.upload_timeout_s) + 1, EACH, 408),
    ],
)
def test_an_upload_that_comes_while_its_gateway_stands_still_has_not_stalled(
    pieces: int, still_at: Container[int], status: int
) -> None:
    async def main() -> None:
        upload = Upload(pieces, still_at)
        async with rig() as made:
            decoders = DecoderPool(DecodeLimits.from_settings(LIMITS))
            (route, *_) = routes(made.hub, decoders, limits=LIMITS, model="any")
            scope: dict[str, Any] = {"type": "http", "method": "POST", "path": "/v1/audio/transcriptions"}
            scope |= {"headers": FORM, "query_string": b"", "state": {"tenant": Tenant(TenantId("default"), 9)}}
            await route.handle(scope, upload.receive, upload.send)
        assert upload.status == status

    in_virtual_time(main)


class Whole:
    """A file that is decoded."""

    decoded_s = duration_s = 1.0


@pytest.mark.parametrize("stopped", [False, True])
def test_a_client_that_reads_its_answer_while_its_gateway_stands_still_is_not_given_up(stopped: bool) -> None:
    async def main() -> None:
        readable = asyncio.Event()
        finals = Finals(100)
        finals.close(None)

        async def send(message: Message) -> None:
            if message.get("more_body"):
                await readable.wait()

        stream = EventStream(send, progress=False, slow_reader_timeout_s=LIMITS.slow_reader_timeout_s)
        writing = asyncio.ensure_future(stream.write(finals, cast(Decoding, Whole())))
        await asyncio.sleep(1.0)
        if stopped:
            stand_still()
            asyncio.get_running_loop().call_later(0.001, readable.set)
        await asyncio.wait([writing])
        assert isinstance(writing.exception(), ClientDisconnect) != stopped

    in_virtual_time(main)
