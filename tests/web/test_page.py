"""The page itself: languages, keyboard, phone, keys, and what a strict browser says of it."""

import re
from pathlib import Path

import pytest
from playwright.async_api import Browser, expect

from tests.web.rig import PATIENCE_MS, Opened, opened

pytestmark = [pytest.mark.browser, pytest.mark.timeout(120), pytest.mark.asyncio(loop_scope="module")]

WEB = Path(__file__).parents[2] / "src/streamscribe/web"
PHONE = {"viewport": {"width": 390, "height": 844}, "is_mobile": True, "has_touch": True}
SMALL_PHONE = {"viewport": {"width": 320, "height": 568}, "is_mobile": True, "has_touch": True}
HAN = re.compile(r"[\u4e00-\u9fff]")


async def test_every_text_has_words_in_both_languages(page: Opened) -> None:
    words = await page.page.evaluate("async () => (await import('/assets/js/i18n.js')).words")
    html = (WEB / "index.html").read_text()
    used = set(re.findall(r'data-i18n(?:-label)?="(\w+)"', html))
    for script in (WEB / "js").glob("*.js"):
        used |= set(re.findall(r"(?:say\([^,]+, |show(?:Message|Server|Progress)\()'(\w+)'", script.read_text()))
    assert set(words["en"]) == set(words["zh"])
    assert used <= set(words["en"])
    assert len(used) > 30
    assert all(HAN.search(text) for text in words["zh"].values())
    assert not any(HAN.search(text) for text in words["en"].values())


async def test_the_first_paint_is_the_english_of_the_words(page: Opened) -> None:
    words = await page.page.evaluate("async () => (await import('/assets/js/i18n.js')).words.en")
    html = (WEB / "index.html").read_text()
    for key, text in re.findall(r'data-i18n="(\w+)"[^>]*>([^<]+)<', html):
        assert words[key] == text
    for key, text in re.findall(r'data-i18n-label="(\w+)" aria-label="([^"]+)"', html):
        assert words[key] == text


async def test_the_language_switch_changes_every_text_and_is_remembered(page: Opened, speech: Path) -> None:
    page.expected_errors.append("415")
    await page.recognise(speech)
    await page.recognise({"name": "a.txt", "mimeType": "text/plain", "buffer": b"no sound at all" * 100})
    await page["#locale"].click()
    await expect(page["html"]).to_have_attribute("lang", "zh-CN")
    await expect(page["#locale"]).to_have_text("English")
    for element in await page["[data-i18n]"].all():
        assert HAN.search(await element.text_content() or ""), await element.get_attribute("data-i18n")
    for element in await page["[data-i18n-label]"].all():
        assert HAN.search(await element.get_attribute("aria-label") or "")
    await expect(page["#history small"]).to_contain_text("年")
    await page.page.reload()
    await expect(page["#microphone-label"]).to_have_text("开始说话")
    await page["#locale"].click()
    await expect(page["html"]).to_have_attribute("lang", "en")
    await expect(page["#microphone-label"]).to_have_text("Speak")


async def test_a_chinese_browser_gets_chinese(browser: Browser, url: str) -> None:
    async with opened(browser, url, locale="zh-CN") as page:
        await expect(page["#microphone-label"]).to_have_text("开始说话")


async def test_a_browser_that_forbids_storage_gets_the_page(browser: Browser, url: str) -> None:
    async with opened(browser, "about:blank", ready=False) as page:
        await page.page.add_init_script(
            "Object.defineProperty(window, 'localStorage', { get() { throw new DOMException('', 'SecurityError'); } })"
        )
        await page.page.goto(url)
        await page.says("ready", "#server")
        await page["#hotwords"].fill("FunASR")
        await page["#locale"].click()
        await expect(page["#microphone-label"]).to_have_text("开始说话")
        page.requested.clear()


async def focused(page: Opened) -> str:
    return str(await page.page.evaluate("document.activeElement.id || document.activeElement.className"))


async def test_the_keyboard_is_enough(page: Opened, speech: Path) -> None:
    press = page.page.keyboard.press
    order = []
    async with page.page.expect_file_chooser() as choosing:
        for _ in range(6):
            await press("Tab")
            order.append(await focused(page))
        outline = await page["#drop"].evaluate("drop => getComputedStyle(drop).outlineStyle")
        await press("Enter")
    assert order == ["skip", "locale", "microphone", "language", "hotwords", "file"]
    assert outline == "solid"
    await (await choosing.value).set_files(speech)
    await page.hears(3)
    await page.idle()
    await page["#microphone"].focus()
    await press("Enter")
    await expect(page["#microphone-label"]).to_have_text("Stop")
    await page.hears(1)
    await press("Enter")
    await page.idle()
    assert await focused(page) == "microphone"
    await page["#clear"].focus()
    await press("Space")
    assert await focused(page) == "microphone"
    await page["#history button"].first.focus()
    await press("Enter")
    await page.hears(1)


@pytest.mark.parametrize("phone", [PHONE, SMALL_PHONE], ids=["phone", "small phone"])
@pytest.mark.parametrize("locale", ["en-US", "zh-CN"])
async def test_a_phone_never_scrolls_sideways(
    phone: dict[str, object], locale: str, browser: Browser, url: str, speech: Path
) -> None:
    async def fits() -> bool:
        return bool(await page.page.evaluate("document.documentElement.scrollWidth <= window.innerWidth"))

    async with opened(browser, url, locale=locale, **phone) as page:
        page.expected_errors.append("415")
        assert await fits()
        await page["#microphone"].tap()
        await page.hears(1)
        assert await fits()
        assert await page["#transcript"].evaluate("list => list.getBoundingClientRect().top < window.innerHeight / 1.2")
        await page["#microphone"].tap()
        await page.idle()
        name = f"{'a_very_long_name_' * 12}.wav"
        await page.recognise({"name": name, "mimeType": "audio/wav", "buffer": speech.read_bytes()})
        await page.recognise({"name": name, "mimeType": "audio/wav", "buffer": b"no sound" * 100})
        assert await fits()
        small = await page["button:visible"].evaluate_all("all => all.filter((one) => one.offsetHeight < 36).length")
        assert small == 0


async def test_a_key_is_asked_for_and_used_everywhere(
    browser: Browser, strict: tuple[str, str], tmp_path: Path, speech: Path
) -> None:
    url, key = strict
    async with opened(browser, url, ready=False) as page:
        page.expected_errors += ["401", "403"]
        await page.says("keyNeeded")
        await expect(page["#key"]).to_be_focused()
        for wrong in ("not the key", "sk-wrong"):
            await page["#key"].fill(wrong)
            async with page.page.expect_response("**/v1/models") as answer:
                await page["#key"].press("Enter")
            assert (await answer.value).status == 401
            await page.says("keyNeeded")
        await page["#key"].fill(key)
        await page["#key"].press("Enter")
        await expect(page["#message"]).to_be_hidden()
        await page.speak()
        await page.hears(1)
        await page.stop()
        data = speech.read_bytes()[:200_000]
        await page.recognise({"name": "a.wav", "mimeType": "audio/wav", "buffer": data})
        await page.hears(1)
        assert key not in await page.page.evaluate("JSON.stringify(localStorage) + location.href")
        assert key not in " ".join(page.requested)


async def test_what_the_server_keeps_of_a_person_is_deleted_on_demand(
    browser: Browser, strict: tuple[str, str], speech: Path
) -> None:
    url, key = strict
    async with opened(browser, url, ready=False) as page:
        page.expected_errors += ["401"]
        await page.says("keyNeeded")
        await page["#purge"].click()
        await page.says("keyNeeded")
        await page["#key"].fill(key)
        await page["#key"].press("Enter")
        await expect(page["#message"]).to_be_hidden()
        await page.recognise({"name": "a.wav", "mimeType": "audio/wav", "buffer": speech.read_bytes()[:200_000]})
        await page.hears(1)
        await page["#purge"].click()
        await page.says("purged")
        await page["#purge"].click()
        await page.says("nothingKept")
        await expect(page["#history li"]).to_have_count(1)


async def test_speaking_without_a_key_asks_for_it(browser: Browser, strict: tuple[str, str]) -> None:
    async with opened(browser, strict[0], ready=False) as page:
        page.expected_errors += ["401", "403", "WebSocket connection"]
        await page.says("keyNeeded")
        await page["#microphone"].click()
        await page.idle()
        await page.says("keyNeeded")


async def test_the_policy_forbids_what_the_page_does_not_need(page: Opened) -> None:
    page.expected_errors.append("Content Security Policy")
    ran = await page.page.evaluate(
        """() => new Promise((resolve) => {
            document.addEventListener('securitypolicyviolation', () => resolve(window.ran ?? false));
            const script = document.createElement('script');
            script.textContent = 'window.ran = true';
            document.body.append(script);
        })"""
    )
    assert ran is False
    html = (WEB / "index.html").read_text()
    assert not re.search(r"<style|\sstyle=|\son\w+=|<script(?![^>]*src=)|https?://", html)


@pytest.mark.parametrize("scheme", ["light", "dark"])
async def test_text_contrasts_enough(scheme: str, browser: Browser, url: str) -> None:
    """WCAG AA: 4.5 to 1 for text, 3 to 1 for the edges of fields."""
    pairs = [
        ("ink", "card", 4.5),
        ("soft", "card", 4.5),
        ("soft", "ground", 4.5),
        ("soft", "field", 4.5),
        ("soft", "danger-ground", 4.5),
        ("soft", "accent-ground", 4.5),
        ("partial", "card", 4.5),
        ("accent-ink", "accent", 4.5),
        ("accent-ink", "accent-deep", 4.5),
        ("danger-ink", "danger", 4.5),
        ("edge", "card", 3.0),
        ("edge", "field", 3.0),
        ("accent", "card", 3.0),
    ]
    async with opened(browser, url, color_scheme=scheme) as page:
        colours = await page.page.evaluate(
            """names => Object.fromEntries(names.map((name) => {
                const context = document.createElement('canvas').getContext('2d');
                context.fillStyle = getComputedStyle(document.documentElement).getPropertyValue(`--${name}`);
                return [name, context.fillStyle];
            }))""",
            sorted({name for pair in pairs for name in pair[:2]}),
        )
    for ink, ground, least in pairs:
        assert _contrast(colours[ink], colours[ground]) >= least, (ink, ground)


def _contrast(one: str, other: str) -> float:
    lighter, darker = sorted((_luminance(one), _luminance(other)), reverse=True)
    return (lighter + 0.05) / (darker + 0.05)


def _luminance(colour: str) -> float:
    parts = (int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5))
    red, green, blue = (part / 12.92 if part <= 0.03928 else ((part + 0.055) / 1.055) ** 2.4 for part in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


async def test_the_newest_text_stays_in_sight_of_who_has_not_scrolled_away(page: Opened) -> None:
    at_end = "list => list.scrollHeight - list.scrollTop - list.clientHeight < 2"
    await page.page.evaluate(
        """() => {
            const line = (_, id) => ({ id, version: id + 1, text: `line ${id}`, startMs: id * 1000, endMs: id * 1000 });
            const segments = Array.from({ length: 60 }, line);
            localStorage.setItem('history', JSON.stringify([{ name: '', at: 0, segments }]));
        }"""
    )
    await page.page.reload()
    await page["#history button"].click()
    await page.hears(60)
    assert await page["#transcript"].evaluate(at_end)
    await expect(page["#transcript"]).to_be_focused(timeout=PATIENCE_MS)
