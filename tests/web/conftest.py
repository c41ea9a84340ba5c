"""Debian's Chromium with a fake microphone, and servers on the fake models."""

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
import pytest_asyncio
from playwright.async_api import Browser, Playwright, async_playwright, expect

from streamscribe.client.local_server import LocalServer
from streamscribe.control.keys import new_key
from tests.service.conftest import EVERYBODY
from tests.web.rig import FAKE_MICROPHONE, PATIENCE_MS, Opened, launch, opened
from tests.web.speech import make_speech

MAX_UPLOAD_BYTES = 400_000

expect.set_options(timeout=PATIENCE_MS)


@pytest.fixture(scope="session")
def speech(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A recording of three hums."""
    return make_speech(tmp_path_factory.mktemp("speech") / "talk.wav")


@pytest.fixture(scope="session")
def url() -> Iterator[str]:
    """A server that anybody on this machine may use."""
    with LocalServer(["--profile", "fake", *EVERYBODY]) as server:
        yield server.address.http


@pytest.fixture(scope="session")
def strict(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, str]]:
    """A server that wants a key, takes small files and one session at a time, and keeps transcripts; and the key."""
    tenants = tmp_path_factory.mktemp("keys") / "tenants.yaml"
    key = new_key(tenants, "acme", max_sessions=1)
    limit = f"limits.max_upload_bytes={MAX_UPLOAD_BYTES}"
    settings = ["--set", limit, "--set", "cache.transcripts=true"]
    with LocalServer(["--profile", "fake", "--tenants", str(tenants), *settings, *EVERYBODY]) as server:
        yield server.address.http, key


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def playwright() -> AsyncIterator[Playwright]:
    async with async_playwright() as running:
        yield running


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def browser(playwright: Playwright, speech: Path) -> AsyncIterator[Browser]:
    """A browser whose microphone says the recording again and again, and whose person allows it."""
    async with launch(playwright, *FAKE_MICROPHONE, f"--use-file-for-fake-audio-capture={speech}") as running:
        yield running


@pytest_asyncio.fixture(loop_scope="module")
async def page(browser: Browser, url: str) -> AsyncIterator[Opened]:
    """The page, ready."""
    async with opened(browser, url) as page:
        yield page
