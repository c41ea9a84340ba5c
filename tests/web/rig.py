"""What a test of the page does and looks at, in few words; and a watch over what no test may see."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from playwright.async_api import Browser, ConsoleMessage, Locator, Page, Playwright, expect

CHROMIUM = "/usr/bin/chromium"
PLAIN = ("--no-sandbox", "--disable-gpu")
FAKE_MICROPHONE = ("--use-fake-device-for-media-stream", "--use-fake-ui-for-media-stream")
PATIENCE_MS = 20_000


@asynccontextmanager
async def launch(playwright: Playwright, *flags: str) -> AsyncIterator[Browser]:
    """Debian's Chromium, headless."""
    browser = await playwright.chromium.launch(executable_path=CHROMIUM, args=[*PLAIN, *flags])
    try:
        yield browser
    finally:
        await browser.close()


@dataclass
class Opened:
    """The page in a browser."""

    page: Page
    expected_errors: list[str] = field(default_factory=list)
    """Parts of console errors that the test provokes."""
    errors: list[str] = field(default_factory=list)
    requested: list[str] = field(default_factory=list)

    def __getitem__(self, selector: str) -> Locator:
        return self.page.locator(selector)

    async def says(self, key: str, selector: str = "#message-text") -> None:
        """Waits for a text by its key."""
        await expect(self[selector]).to_be_visible(timeout=PATIENCE_MS)
        await expect(self[selector]).to_have_attribute("data-i18n", key, timeout=PATIENCE_MS)

    async def hears(self, finals: int) -> None:
        """Waits for so many finals."""
        await expect(self[".final"].nth(finals - 1)).to_be_visible(timeout=PATIENCE_MS)

    async def speak(self) -> None:
        await self["#microphone"].click()
        await expect(self["#microphone"]).to_have_attribute("aria-pressed", "true")

    async def stop(self) -> None:
        await self["#microphone"].click()
        await self.idle()

    async def idle(self) -> None:
        """Waits for the end of what runs."""
        await expect(self["body"]).to_have_attribute("data-busy", "", timeout=PATIENCE_MS)

    async def recognise(self, file: Path | dict[str, Any]) -> None:
        """Chooses a file and waits until it is recognised or refused."""
        await self["#file"].set_input_files(file)  # type: ignore[arg-type]
        await self.idle()

    async def finals(self) -> list[str]:
        return await self[".final > span"].all_inner_texts()

    def on_console(self, message: ConsoleMessage) -> None:
        if message.type in ("error", "warning"):
            self.errors.append(f"{message.text} {message.location.get('url', '')}")

    def check(self, url: str) -> None:
        """Nothing went wrong but what was expected, and nobody was asked but the page's own server."""
        errors = [text for text in self.errors if not any(part in text for part in self.expected_errors)]
        assert not errors, errors
        abroad = [asked for asked in self.requested if not asked.startswith((url, "blob:"))]
        assert not abroad, abroad


@asynccontextmanager
async def opened(browser: Browser, url: str, *, ready: bool = True, **context: Any) -> AsyncIterator[Opened]:
    """The page at `url`; at the end it has logged no error but the expected, and asked nobody but its own server."""
    own = await browser.new_context(**{"locale": "en-US", "viewport": {"width": 1280, "height": 900}, **context})
    try:
        page = await own.new_page()
        opened_ = Opened(page)
        page.on("console", opened_.on_console)
        page.on("pageerror", lambda error: opened_.errors.append(str(error)))
        page.on("request", lambda request: opened_.requested.append(request.url))
        page.on("websocket", lambda socket: opened_.requested.append(socket.url.replace("ws", "http", 1)))
        await page.goto(url)
        if ready:
            await opened_.says("ready", "#server")
        yield opened_
        opened_.check(url)
    finally:
        await own.close()
