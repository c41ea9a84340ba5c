"""Files, and what can be done with a transcript."""

import base64
from pathlib import Path

import pytest
from playwright.async_api import Browser, expect

from tests.web.proxy import Proxy
from tests.web.rig import Opened, opened
from tests.web.speech import make_speech

pytestmark = [pytest.mark.browser, pytest.mark.timeout(120), pytest.mark.asyncio(loop_scope="module")]

WATCH_PROGRESS = """() => {
    window.seen = [];
    new MutationObserver(() => seen.push(document.getElementById('progress').innerText)).observe(
        document.getElementById('progress'), { subtree: true, childList: true, characterData: true, attributes: true });
}"""
DROP = """([name, data]) => {
    const transfer = new DataTransfer();
    transfer.items.add(new File([Uint8Array.from(atob(data), (c) => c.charCodeAt(0))], name, { type: 'audio/wav' }));
    return transfer;
}"""
SLOW = {"offline": False, "latency": 0, "downloadThroughput": -1, "uploadThroughput": 100_000}


async def drop(page: Opened, target: str, name: str, data: bytes) -> None:
    transfer = await page.page.evaluate_handle(DROP, [name, base64.b64encode(data).decode()])
    for event in ("dragover", "drop"):
        await page[target].dispatch_event(event, {"dataTransfer": transfer})


async def slow_network(page: Opened) -> None:
    devtools = await page.page.context.new_cdp_session(page.page)
    await devtools.send("Network.enable")
    await devtools.send("Network.emulateNetworkConditions", SLOW)


async def test_a_chosen_file_shows_its_progress_and_then_its_text(page: Opened, speech: Path) -> None:
    await page.page.evaluate(WATCH_PROGRESS)
    await page.recognise(speech)
    await page.hears(3)
    assert await page["time"].all_inner_texts() == ["0:00", "0:02", "0:06"]
    await expect(page["#progress"]).to_be_hidden()
    await expect(page["#message"]).to_be_hidden()
    await expect(page["#history li"]).to_have_count(1)
    seen = " ".join(await page.page.evaluate("seen"))
    assert "Uploading" in seen
    assert "Recognising" in seen
    assert any(f"{percent} %" in seen for percent in range(1, 100))


async def test_an_upload_can_be_cancelled_and_nothing_else_begins_meanwhile(page: Opened, speech: Path) -> None:
    await slow_network(page)
    await page["#file"].set_input_files(speech)
    await expect(page["#progress-label"]).to_have_text("Uploading")
    await expect(page["#microphone"]).to_be_disabled()
    await expect(page["#file"]).to_be_disabled()
    await expect(page["#cancel"]).to_be_focused()
    await drop(page, "body", "other.wav", speech.read_bytes())
    await page["#cancel"].click()
    await page.idle()
    await expect(page["#progress"]).to_be_hidden()
    await expect(page["#message"]).to_be_hidden()
    await expect(page["#file"]).to_be_focused()
    await expect(page["#history li"]).to_have_count(0)


@pytest.mark.parametrize("target", ["#drop", "body"])
async def test_a_dropped_file_is_recognised_wherever_it_falls(target: str, page: Opened, speech: Path) -> None:
    await drop(page, target, "talk.wav", speech.read_bytes())
    await page.hears(3)
    await page.idle()
    await expect(page["#drop"]).not_to_have_class("drop over")


async def test_what_is_no_audio_is_refused_with_the_reason(page: Opened) -> None:
    page.expected_errors.append("415")
    await page.recognise({"name": "notes.txt", "mimeType": "text/plain", "buffer": b"no sound at all" * 100})
    await page.says("unsupported_format")
    await expect(page["#message-detail"]).to_contain_text("accepted formats")
    await expect(page["#history li"]).to_have_count(0)


async def test_a_file_over_the_limit_is_refused_with_the_reason(
    browser: Browser, strict: tuple[str, str], speech: Path
) -> None:
    url, key = strict
    async with opened(browser, url, ready=False) as page:
        page.expected_errors += ["401", "413"]
        await page.says("keyNeeded")
        await page["#key"].fill(key)
        await page["#key"].press("Enter")
        await page.says("ready", "#server")
        await page.recognise(speech)
        await page.says("too_large")


async def test_a_file_does_not_reach_a_server_that_is_down(browser: Browser, url: str, speech: Path) -> None:
    async with Proxy(url) as network, opened(browser, network.url) as page:
        page.expected_errors.append("ERR_")
        network.cut()
        await page.recognise(speech)
        await page.says("unreachable")
        await page.says("down", "#server")


async def test_silence_is_said_to_be_silence(page: Opened, tmp_path: Path) -> None:
    await page.recognise(make_speech(tmp_path / "nothing.wav", rounds=1, loudness=0.0))
    await page.says("nothing")


async def test_subtitles_hold_the_finals_with_their_times(page: Opened, speech: Path) -> None:
    await page.recognise(speech)
    texts = await page.finals()
    for kind in ("srt", "vtt"):
        async with page.page.expect_download() as downloading:
            await page[f"#{kind}"].click()
        download = await downloading.value
        assert download.suggested_filename == f"talk.{kind}"
        content = Path(await download.path()).read_text()
        assert all(text in content for text in texts)
        if kind == "srt":
            assert content.startswith("1\n00:00:00,000 --> 00:00:01,")
            assert "\n\n3\n00:00:06," in content
        else:
            assert content.startswith("WEBVTT\n\n00:00:00.000 --> 00:00:01.")


async def test_the_text_is_copied(browser: Browser, url: str, speech: Path) -> None:
    async with opened(browser, url, permissions=["clipboard-read", "clipboard-write"]) as page:
        await page.recognise(speech)
        await page["#copy"].click()
        await expect(page["#copy"]).to_have_text("Copied")
        assert await page.page.evaluate("navigator.clipboard.readText()") == " ".join(await page.finals())
        await expect(page["#copy"]).to_have_text("Copy")


async def test_the_text_is_copied_where_a_page_has_no_clipboard(browser: Browser, url: str, speech: Path) -> None:
    async with opened(browser, url) as page:
        await page.page.evaluate("delete Navigator.prototype.clipboard")
        await page.recognise(speech)
        await page["#copy"].click()
        await expect(page["#copy"]).to_have_text("Copied")
        await expect(page["#copy"]).to_be_focused()
        await page["#hotwords"].focus()
        await page.page.keyboard.press("Control+V")
        assert await page["#hotwords"].input_value() == " ".join(await page.finals())


async def test_results_outlive_the_page_and_can_be_opened_and_forgotten(page: Opened, speech: Path) -> None:
    await page.recognise(speech)
    texts = await page.finals()
    await page["#clear"].click()
    await expect(page["#empty"]).to_be_visible()
    await page.page.reload()
    await expect(page["#history li"]).to_have_count(1)
    await expect(page["#history li"]).to_contain_text("talk.wav")
    await page["#history button"].click()
    assert await page.finals() == texts
    await expect(page["#transcript"]).to_be_focused()
    await page["#forget"].click()
    await expect(page["#history li"]).to_have_count(0)
    await expect(page["#history-empty"]).to_be_visible()
    await page.page.reload()
    await expect(page["#history li"]).to_have_count(0)


async def test_the_history_is_bounded(page: Opened) -> None:
    kept = await page.page.evaluate(
        """async () => {
            const history = await import('/assets/js/history.js');
            const large = [{ id: 1, text: 'x'.repeat(100_000) }];
            for (let i = 0; i < 40; i++) history.remember(String(i), []);
            const many = history.entries().length;
            for (let i = 0; i < 10; i++) history.remember(String(i), large);
            return [many, history.entries().length, history.entries()[0].name];
        }"""
    )
    assert kept == [30, 4, "9"]


async def test_html_in_names_and_texts_is_text(page: Opened, speech: Path) -> None:
    html = "<img src=x onerror=alert(1)>"
    await page.recognise({"name": f"{html}.wav", "mimeType": "audio/wav", "buffer": speech.read_bytes()})
    await expect(page["#history li"]).to_contain_text(html)
    await page.page.evaluate(
        """html => localStorage.setItem('history', JSON.stringify([{ name: html, at: 0, segments: [
            { id: 1, version: 1, text: html, startMs: 0, endMs: 1000, final: true }] }]))""",
        html,
    )
    await page.page.reload()
    await page["#history button"].click()
    assert await page.finals() == [html]
    await expect(page["main img"]).to_have_count(0)
    async with page.page.expect_download() as downloading:
        await page["#vtt"].click()
    assert "&lt;img" in Path(await (await downloading.value).path()).read_text()
