"""A real Chromium for all tests of pages, and what every page must keep to: no complaint, no other host."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, Playwright, expect, sync_playwright

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
# Refusals that a test asks for and servers that it has killed are logged by the browser itself.
EXPECTED = (
    "status of 400",
    "status of 403",
    "status of 409",
    "status of 412",
    "status of 503",
    "ERR_CONNECTION",
    "ERR_EMPTY_RESPONSE",
    "ERR_SOCKET_NOT_CONNECTED",
    "WebSocket connection",
)

expect.set_options(timeout=10_000)

OpenPage = Callable[..., Page]


@pytest.fixture(scope="module")  # its event loop runs in this thread: tests of other modules have loops of their own
def _playwright() -> Iterator[Playwright]:
    with sync_playwright() as playwright:
        yield playwright


@pytest.fixture(scope="module")
def browser(chromium: str, _playwright: Playwright) -> Iterator[Browser]:
    """One Chromium; each page gets a context of its own."""
    found = _playwright.chromium.launch(executable_path=chromium, args=list(ARGS))
    yield found
    found.close()


@pytest.fixture
def open_page(browser: Browser) -> Iterator[OpenPage]:
    """Opens a page in a context of its own. At the end no page may have complained, broken the policy or left the host."""
    contexts: list[BrowserContext] = []
    faults: list[str] = []

    def watch(page: Page) -> None:
        page.on("console", lambda message: faults.append(message.text) if message.type == "error" else None)
        page.on("pageerror", lambda error: faults.append(str(error)))
        page.on("request", lambda request: _look(request.url, faults))
        page.on("websocket", lambda socket: _look(socket.url, faults))

    def make(**options: Any) -> Page:
        context = browser.new_context(**{"locale": "en-US", "timezone_id": "Asia/Shanghai", **options})
        context.set_default_timeout(10_000)
        context.on("page", watch)
        contexts.append(context)
        return context.new_page()

    yield make
    for context in contexts:
        context.close()
    assert [fault for fault in faults if not any(expected in fault for expected in EXPECTED)] == []


def _look(url: str, faults: list[str]) -> None:
    if urlsplit(url).hostname not in ("127.0.0.1", None):
        faults.append(f"a request left the host: {url}")
