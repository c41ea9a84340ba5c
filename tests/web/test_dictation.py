"""The microphone: what is said, what is shown meanwhile, and what happens when it or the network is not there."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from playwright.async_api import Browser, Playwright, WebSocketRoute, expect

from tests.web.proxy import Proxy
from tests.web.rig import FAKE_MICROPHONE, PATIENCE_MS, Opened, launch, opened

pytestmark = [pytest.mark.browser, pytest.mark.timeout(120), pytest.mark.asyncio(loop_scope="module")]

FRAME_HEADER_BYTES = 8
SAMPLE_BYTES = 2


async def test_speech_is_grey_while_it_may_change_and_then_final(page: Opened) -> None:
    await page.speak()
    await expect(page["#microphone-label"]).to_have_text("Stop")
    await expect(page["#empty"]).to_be_visible()
    await expect(page["#meter"]).not_to_have_attribute("aria-valuenow", "0", timeout=PATIENCE_MS)
    await expect(page[".partial"]).to_be_visible(timeout=PATIENCE_MS)
    await expect(page["#empty"]).to_be_hidden()
    grey = await page[".partial > span"].evaluate("text => getComputedStyle(text).color")
    await page.hears(2)
    black = await page[".final > span"].first.evaluate("text => getComputedStyle(text).color")
    assert grey != black
    assert await page["#said"].inner_text() in await page.finals()
    await page.stop()
    await expect(page[".partial"]).to_have_count(0)
    await expect(page["#meter"]).to_have_attribute("aria-valuenow", "0")
    await expect(page["#microphone-label"]).to_have_text("Speak")
    await expect(page["#message"]).to_be_hidden()
    assert len(await page.finals()) >= 2


async def test_language_and_hot_words_reach_the_server(page: Opened) -> None:
    await page["#language"].select_option("zh")
    await page["#hotwords"].fill("FunASR，阿里巴巴, <img src=x>")
    sent: asyncio.Queue[Any] = asyncio.Queue()
    page.page.once("websocket", lambda socket: socket.on("framesent", sent.put_nowait))
    await page.speak()
    while '"start"' not in str(frame := await sent.get()):
        pass
    start = json.loads(frame)
    assert start["language"] == "zh"
    assert [hotword["phrase"] for hotword in start["hotwords"]] == ["FunASR", "阿里巴巴", "<img src=x>"]
    await page.stop()
    await page.page.reload()
    assert await page["#hotwords"].input_value() == "FunASR，阿里巴巴, <img src=x>"


async def test_a_lost_connection_is_resumed_and_no_audio_is_lost(browser: Browser, url: str) -> None:
    sent: dict[int, int] = {}
    starts: list[dict[str, Any]] = []
    heard: list[dict[str, Any]] = []

    def keep_sent(frame: Any) -> None:
        if isinstance(frame, bytes):
            sent[int.from_bytes(frame[:4], "big")] = len(frame) - FRAME_HEADER_BYTES
        elif '"start"' in frame:
            starts.append(json.loads(frame))

    async with Proxy(url) as network, opened(browser, network.url) as page:
        page.expected_errors.append("WebSocket connection")
        page.page.on(
            "websocket",
            lambda socket: (
                socket.on("framesent", keep_sent),
                socket.on("framereceived", lambda frame: heard.append(json.loads(frame))),
            ),
        )
        await page.speak()
        await page.hears(1)
        before = await page.finals()
        network.cut()
        await page.says("reconnecting", "#server")
        network.mend()
        await page.says("ready", "#server")
        await page.hears(len(before) + 2)
        await page.stop()
        assert (await page.finals())[: len(before)] == before
        await expect(page["#message"]).to_be_hidden()
    connected = next(message for message in heard if message["type"] == "connected")
    resumed = [message for message in heard if message["type"] == "resumed"]
    assert [message["session_id"] for message in resumed] == [connected["session_id"]]
    assert len(starts) == 1
    assert sorted(sent) == list(range(len(sent)))
    assert heard[-1]["type"] == "closed"
    spoken_ms = 1000 * sum(sent.values()) / SAMPLE_BYTES / starts[0]["audio"]["sample_rate"]
    assert heard[-1]["audio_ms"] == pytest.approx(spoken_ms, abs=2)


async def test_a_connection_that_breaks_before_any_audio_arrived_begins_anew(page: Opened) -> None:
    connections = 0

    async def break_the_first(socket: WebSocketRoute) -> None:
        nonlocal connections
        connections += 1
        server = socket.connect_to_server()
        if connections > 1:
            return

        async def to_server(message: str | bytes) -> None:
            if isinstance(message, str):
                server.send(message)
            else:
                await server.close(code=3000)

        socket.on_message(to_server)
        server.on_close(lambda code, reason: socket.close(code=1012))

    await page.page.route_web_socket("**/ws/asr*", break_the_first)
    await page.speak()
    await page.hears(1)
    await page.stop()
    assert connections == 3
    await expect(page["#message"]).to_be_hidden()


async def test_a_connection_that_is_dead_though_nobody_closed_it_is_replaced(page: Opened) -> None:
    connections = 0

    async def swallow_the_first(socket: WebSocketRoute) -> None:
        nonlocal connections
        connections += 1
        server = socket.connect_to_server()
        if connections == 1:
            socket.on_message(lambda message: server.send(message) if isinstance(message, str) else None)

    await page.page.clock.install()
    await page.page.route_web_socket("**/ws/asr*", swallow_the_first)
    await page.speak()
    await expect(page["#clock"]).to_have_text("0:01", timeout=PATIENCE_MS)
    await page.page.clock.fast_forward(20_000)
    await page.hears(1)
    await page.stop()
    assert connections > 1
    await expect(page["#message"]).to_be_hidden()


async def test_what_was_heard_is_kept_when_the_server_does_not_come_back(browser: Browser, url: str) -> None:
    async with Proxy(url) as network, opened(browser, network.url) as page:
        page.expected_errors += ["WebSocket connection", "ERR_"]
        await page.page.clock.install()
        await page.speak()
        await page.hears(1)
        network.cut()
        while not await page["#message"].is_visible():
            await page.page.clock.fast_forward(1000)
        await page.says("lost")
        await page.says("down", "#server")
        await expect(page["#history li"]).to_have_count(1)
        network.mend()
        await page.says("ready", "#server")


async def test_a_server_that_is_down_is_said_to_be_down(browser: Browser, url: str) -> None:
    async with Proxy(url) as network, opened(browser, network.url) as page:
        page.expected_errors += ["WebSocket connection", "ERR_"]
        network.cut()
        await page["#microphone"].click()
        await page.says("unreachable")
        await page.says("down", "#server")
        await expect(page["#microphone"]).to_be_enabled()


async def test_an_error_of_the_server_is_shown_in_our_words_and_its_own(
    browser: Browser, strict: tuple[str, str]
) -> None:
    url, key = strict
    async with opened(browser, url, ready=False) as first, opened(browser, url, ready=False) as second:
        for page in (first, second):
            page.expected_errors.append("401")
            await page.says("keyNeeded")
            await page["#key"].fill(key)
            await page["#key"].press("Enter")
            await page.says("ready", "#server")
        await first.speak()
        await first.hears(1)
        await second["#microphone"].click()
        await second.says("quota_exceeded")
        await expect(second["#message-detail"]).not_to_be_empty()
        await first.stop()


async def test_a_refused_microphone_is_explained(playwright: Playwright, url: str) -> None:
    refusing = launch(playwright, FAKE_MICROPHONE[0], "--deny-permission-prompts")
    async with refusing as browser, opened(browser, url) as page:
        await page["#microphone"].click()
        await page.says("micDenied")
        await expect(page["#message"]).to_have_role("alert")
        await expect(page["#microphone-label"]).to_have_text("Speak")
        await expect(page["#options"]).to_be_enabled()


@pytest.mark.parametrize(
    ("error", "key"),
    [("NotFoundError", "micMissing"), ("NotReadableError", "micBusy"), ("NotAllowedError", "micDenied")],
)
async def test_each_reason_for_no_microphone_has_its_message(error: str, key: str, page: Opened) -> None:
    await page.page.evaluate(
        "name => { navigator.mediaDevices.getUserMedia = async () => { throw new DOMException('', name); }; }", error
    )
    await page["#microphone"].click()
    await page.says(key)


async def test_an_insecure_page_says_where_the_microphone_works(browser: Browser, url: str) -> None:
    async with opened(browser, url) as page:
        await page.page.evaluate("delete Navigator.prototype.mediaDevices")
        await page["#microphone"].click()
        await page.says("micInsecure")


async def test_a_microphone_that_is_pulled_out_ends_the_session_with_what_was_heard(page: Opened) -> None:
    await page.page.evaluate(
        """() => {
            const open = navigator.mediaDevices.getUserMedia.bind(navigator.mediaDevices);
            navigator.mediaDevices.getUserMedia = async (wanted) => (window.stream = await open(wanted));
        }"""
    )
    await page.speak()
    await page.hears(1)
    await page.page.evaluate("stream.getTracks()[0].dispatchEvent(new Event('ended'))")
    await page.idle()
    await expect(page["#history li"]).to_have_count(1)


async def test_stop_while_the_browser_still_asks_sends_nothing(page: Opened) -> None:
    await page.page.evaluate(
        """() => {
            const open = navigator.mediaDevices.getUserMedia.bind(navigator.mediaDevices);
            navigator.mediaDevices.getUserMedia = (wanted) => new Promise((resolve) => {
                window.allow = () => resolve(open(wanted));
            });
        }"""
    )
    await page.speak()
    await page["#microphone"].click()
    await page.page.evaluate("allow()")
    await page.idle()
    await page.says("nothing")


async def test_the_last_words_before_stop_are_kept(page: Opened, speech: Path) -> None:
    await page.speak()
    await expect(page[".partial"]).to_be_visible(timeout=PATIENCE_MS)
    partial = await page[".partial > span"].inner_text()
    await page.stop()
    finals = [final.lower() for final in await page.finals()]  # a final begins with a capital
    assert any(final.startswith(partial.lower()) for final in finals), "another sentence may have begun meanwhile"
