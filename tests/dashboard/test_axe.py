"""axe-core finds nothing on any page: WCAG 2 A and AA, in both themes, wide and on a phone."""

from __future__ import annotations

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Page, expect

from tests.dashboard.conftest import OpenPage
from tests.dashboard.people import sign_in
from tests.dashboard.scenes import hold, make_pool
from tests.relay_server import RelayServer

RULES = {"runOnly": ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa"], "resultTypes": ["violations"]}
WIDE = {"width": 1440, "height": 1000}
PHONE = {"width": 390, "height": 844}
TABS = ("holders", "waiters", "tenants", "sizing", "sizing&rule=load", "sizing&rule=schedule", "changes", "connect")


def violations(page: Page) -> list[str]:
    found = Axe().run(page, options=RULES).response["violations"]
    return [f"{each['id']}: {node['target']}" for each in found for node in each["nodes"]]


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("size", [WIDE, PHONE], ids=["wide", "phone"])
def test_axe_finds_nothing_on_login_overview_and_shortcuts(
    relay: RelayServer, open_page: OpenPage, pool_name: str, theme: str, size: dict[str, int]
) -> None:
    make_pool(relay, pool_name)
    page = open_page(color_scheme=theme, viewport=size)
    page.goto(f"{relay.url}/login/")
    assert violations(page) == []
    sign_in(page, relay)
    assert violations(page) == []
    page.keyboard.press("?")
    expect(page.locator("dialog[open]")).to_be_visible()
    assert violations(page) == []


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("size", [WIDE, PHONE], ids=["wide", "phone"])
def test_axe_finds_nothing_on_any_tab_of_a_pool(
    relay: RelayServer, open_page: OpenPage, pool_name: str, theme: str, size: dict[str, int]
) -> None:
    make_pool(relay, pool_name)
    hold(relay, pool_name, 2)
    page = open_page(color_scheme=theme, viewport=size)
    sign_in(page, relay, path=f"/pools/{pool_name}/")
    for tab in TABS:
        page.goto(f"{relay.url}/pools/{pool_name}/?tab={tab}")
        assert violations(page) == [], tab
