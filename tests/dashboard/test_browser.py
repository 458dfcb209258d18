"""The pages in a real Chromium, against a real server."""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, expect, sync_playwright

from dashboard import format as figures
from tests.conftest import NewRelay
from tests.relay_server import RelayServer

ARGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
# A refused form and a server that a test has killed are logged by the browser itself.
EXPECTED = ("status of 400", "status of 503", "ERR_CONNECTION", "ERR_EMPTY_RESPONSE", "WebSocket connection")
PHONE = {"width": 390, "height": 844}

OpenPage = Callable[..., Page]


@pytest.fixture(scope="module")
def browser(chromium: str) -> Iterator[Browser]:
    with sync_playwright() as playwright:
        found = playwright.chromium.launch(executable_path=chromium, args=list(ARGS))
        yield found
        found.close()


@pytest.fixture
def open_page(browser: Browser) -> Iterator[OpenPage]:
    """Opens a page in a context of its own; at the end no page may have complained in its console."""
    contexts: list[BrowserContext] = []
    complaints: list[str] = []

    def make(**options: Any) -> Page:
        context = browser.new_context(**{"locale": "en-US", "timezone_id": "Asia/Shanghai", **options})
        contexts.append(context)
        page = context.new_page()
        page.on("console", lambda message: complaints.append(message.text) if message.type == "error" else None)
        page.on("pageerror", lambda error: complaints.append(str(error)))
        return page

    yield make
    for context in contexts:
        context.close()
    unexpected = [text for text in complaints if not any(expected in text for expected in EXPECTED)]
    assert unexpected == []


def sign_in(page: Page, relay: RelayServer) -> Page:
    page.goto(relay.url)
    page.fill("#u", "admin")
    page.fill("#p", relay.password)
    page.click(".door-form .btn-main")
    page.wait_for_selector("[data-overview]")
    return page


def make_pool(relay: RelayServer, name: str, capacity: int = 8) -> None:
    with relay.http() as api:
        assert api.post("/api/v1/pools", json={"name": name, "capacity": capacity}).status_code == 201


@contextmanager
def traffic(relay: RelayServer, pool: str) -> Iterator[None]:
    """Acquires and releases until the block ends."""
    ended = threading.Event()

    def run() -> None:
        with relay.http() as api:
            while not ended.is_set():
                lease = api.post(f"/api/v1/pools/{pool}/acquire", json={}).json()
                time.sleep(0.02)
                api.post(f"/api/v1/leases/{lease['lease_id']}/release", json={})

    thread = threading.Thread(target=run)
    thread.start()
    yield
    ended.set()
    thread.join()


def overflow(page: Page) -> int:
    return int(page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth"))


def test_a_number_moves_without_the_page_being_loaded_again(
    relay: RelayServer, open_page: OpenPage, pool_name: str
) -> None:
    make_pool(relay, pool_name)
    page = sign_in(open_page(), relay)
    page.evaluate("window.stillHere = true")
    qps = page.locator(f'[data-pool="{pool_name}"] [data-live="qps"]')
    expect(qps).to_have_text("0")
    with traffic(relay, pool_name):
        expect(qps).not_to_have_text("0", timeout=5000)
        first = qps.inner_text()
        expect(qps).not_to_have_text(first, timeout=5000)
    expect(page.locator(f'[data-pool="{pool_name}"] .badge')).to_have_text("Flowing")
    assert page.evaluate("window.stillHere") is True


def test_a_pool_made_elsewhere_appears_and_a_deleted_one_goes(
    relay: RelayServer, open_page: OpenPage, pool_name: str
) -> None:
    page = sign_in(open_page(), relay)
    make_pool(relay, pool_name)
    row = page.locator(f'[data-pool="{pool_name}"]')
    expect(row).to_have_count(1, timeout=5000)
    with relay.http() as api:
        api.delete(f"/api/v1/pools/{pool_name}")
    expect(row).to_have_count(0, timeout=5000)


def test_the_stepper_resizes_at_once_and_stays_under_the_hand(
    relay: RelayServer, open_page: OpenPage, pool_name: str
) -> None:
    make_pool(relay, pool_name)
    page = sign_in(open_page(), relay)
    row = page.locator(f'[data-pool="{pool_name}"]')
    more = row.get_by_role("button", name="One permit more")
    more.click()
    more.click()
    expect(row.get_by_role("textbox")).to_have_value("10")
    expect(row.locator(".use")).to_contain_text("/ 10", timeout=5000)
    with relay.http() as api:
        assert api.get(f"/api/v1/pools/{pool_name}").json()["capacity"] == 10
    row.get_by_role("textbox").fill("0")
    row.get_by_role("textbox").press("Enter")
    expect(page.locator(".toast")).to_contain_text("capacity")
    expect(row.get_by_role("textbox")).to_have_value("10")


def test_everything_works_without_javascript(relay: RelayServer, open_page: OpenPage, pool_name: str) -> None:
    page = sign_in(open_page(java_script_enabled=False), relay)
    if page.locator(".new-pool > summary").count():
        page.click(".new-pool > summary")
    page.fill("#np-n", pool_name)
    page.fill("#np-c", "5")
    page.click(".new-pool-form .btn-main")
    row = page.locator(f'[data-pool="{pool_name}"]')
    row.get_by_role("button", name="One permit less").click()
    expect(row.get_by_role("textbox")).to_have_value("4")
    row.get_by_role("textbox").fill("30")
    row.get_by_role("textbox").press("Enter")
    expect(row.get_by_role("textbox")).to_have_value("30")
    page.get_by_role("button", name="Theme").first.click()
    expect(page.locator("html")).to_have_attribute("data-theme", "dark")


def test_a_lost_stream_is_said_and_found_again(new_relay: NewRelay, open_page: OpenPage) -> None:
    relay = new_relay()
    make_pool(relay, "gpu")
    page = sign_in(open_page(), relay)
    expect(page.locator("[data-stream]")).to_be_visible(timeout=8000)
    relay.kill9()
    banner = page.locator("[data-banner]")
    expect(banner).to_be_visible(timeout=8000)
    expect(banner).to_contain_text(re.compile(r"Live data stopped at \d\d:\d\d:\d\d"))
    expect(page.locator("html")).to_have_class("is-stale")
    relay.start()
    page.click("[data-retry]")
    expect(banner).to_be_hidden(timeout=10000)
    expect(page.locator("html")).not_to_have_class("is-stale")


def test_first_use_says_what_to_do_and_the_first_pool_takes_its_place(new_relay: NewRelay, open_page: OpenPage) -> None:
    relay = new_relay()
    page = sign_in(open_page(), relay)
    expect(page.locator("h1")).to_have_text("No pool yet")
    expect(page.locator("#snip-first")).to_contain_text(f"curl -X POST {relay.url}/api/v1/pools")
    page.fill("#np-n", "first")
    page.click(".new-pool-form .btn-main")
    expect(page.locator('[data-pool="first"]')).to_have_count(1, timeout=5000)
    expect(page.locator("[data-first]")).to_have_count(0)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_theme_follows_the_system_until_it_is_switched(
    relay: RelayServer, open_page: OpenPage, scheme: str
) -> None:
    page = open_page(color_scheme=scheme)
    page.goto(f"{relay.url}/login/")
    ground = "getComputedStyle(document.documentElement).backgroundColor"
    before = page.evaluate(ground)
    page.get_by_role("button", name="Theme").click()
    after = page.evaluate(ground)
    assert {before, after} == {"rgb(242, 244, 243)", "rgb(12, 16, 17)"}
    page.reload()
    assert page.evaluate(ground) == after


def test_both_languages(relay: RelayServer, open_page: OpenPage, pool_name: str) -> None:
    make_pool(relay, pool_name)
    page = sign_in(open_page(locale="zh-CN"), relay)
    expect(page.locator("html")).to_have_attribute("lang", "zh-hans")
    expect(page.locator("thead")).to_contain_text("平均等待")
    expect(page.locator("[data-stream]")).to_be_visible(timeout=5000)
    expect(page.locator("[data-stream]")).to_contain_text("实时")
    page.get_by_role("button", name="English").first.click()
    expect(page.locator("thead")).to_contain_text("Avg. wait")


@pytest.mark.parametrize("locale", ["en-US", "zh-CN"])
def test_a_phone_scrolls_in_one_direction_only(
    relay: RelayServer, open_page: OpenPage, pool_name: str, locale: str
) -> None:
    make_pool(relay, f"{pool_name}-{'a-long-name' * 3}")
    page = open_page(viewport=PHONE, locale=locale)
    page.goto(f"{relay.url}/login/")
    assert overflow(page) == 0
    sign_in(page, relay)
    expect(page.locator("[data-stream]")).to_be_visible(timeout=5000)
    assert overflow(page) == 0


def test_browser_and_server_write_numbers_alike(relay: RelayServer, open_page: OpenPage) -> None:
    values = [
        0,
        0.00004,
        0.0004,
        0.0096,
        0.34,
        0.99951,
        1.26,
        15.04,
        99.94,
        99.96,
        412.3,
        5_999,
        9_120,
        12_400,
        999_949,
        3.14e6,
    ]
    page = open_page()
    page.goto(f"{relay.url}/login/")
    found = page.evaluate(
        """async (values) => {
            const { duration, rate, whole } = await import("/static/dashboard/format.js");
            return values.map((value) => [rate(value), whole(value), ...duration(value)]);
        }""",
        values,
    )
    assert found == [[figures.rate(value), figures.whole(value), *figures.duration(value)] for value in values]
