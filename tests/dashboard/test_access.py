"""axe-core finds nothing that keeps people out: both themes, wide and on a phone."""

from __future__ import annotations

from typing import Any

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Page, expect

from tests.dashboard.conftest import OpenPage
from tests.dashboard.people import sign_in
from tests.dashboard.scenes import hold, make_pool, row_of, waiting
from tests.relay_server import RelayServer

RULES = {"runOnly": ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]}
WIDE, PHONE = {"width": 1440, "height": 900}, {"width": 390, "height": 844}


def found_by_axe(page: Page) -> list[Any]:
    violations = Axe().run(page, options=RULES).response["violations"]
    return [(each["id"], [node["html"][:160] for node in each["nodes"]][:3]) for each in violations]


@pytest.mark.parametrize(("scheme", "viewport"), [("light", WIDE), ("dark", WIDE), ("light", PHONE), ("dark", PHONE)])
def test_the_overview_with_a_pool_in_need(
    relay: RelayServer, open_page: OpenPage, pool_name: str, scheme: str, viewport: dict[str, int]
) -> None:
    make_pool(relay, pool_name, 2)
    make_pool(relay, f"{pool_name}-off")
    hold(relay, pool_name, 2)
    with relay.http() as api:
        api.post(f"/api/v1/pools/{pool_name}-off/pause")
        assert api.post(f"/api/v1/pools/{pool_name}/acquire", json={"timeout_s": 0.01}).status_code == 429
    page = sign_in(open_page(color_scheme=scheme, viewport=viewport), relay, path=f"/?q={pool_name}")
    with waiting(relay, pool_name):
        expect(row_of(page, pool_name).locator(".badge")).to_have_text("Starving")
        expect(page.locator("[data-freeze]")).to_be_visible()
        if viewport is WIDE:
            row_of(page, pool_name).get_by_role("checkbox").check()
        assert found_by_axe(page) == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_dialogs_notices_and_the_door(relay: RelayServer, open_page: OpenPage, pool_name: str, scheme: str) -> None:
    make_pool(relay, pool_name)
    page = open_page(color_scheme=scheme)
    page.goto(f"{relay.url}/login/")
    assert found_by_axe(page) == []
    sign_in(page, relay, path=f"/?q={pool_name}")
    size = row_of(page, pool_name).get_by_role("textbox")
    size.fill("12")
    with relay.http() as api:
        api.patch(f"/api/v1/pools/{pool_name}", json={"capacity": 20}).raise_for_status()
    size.press("Enter")
    expect(page.locator(".notice")).to_be_visible()
    row_of(page, pool_name).get_by_role("button").last.click()
    expect(page.locator(".toast")).to_be_visible()
    page.click(".new-pool > summary")
    assert found_by_axe(page) == []
    page.get_by_role("button", name="Shortcuts").click()
    assert found_by_axe(page) == []
    page.goto(f"{relay.url}/password/")
    assert found_by_axe(page) == []
