"""Both themes, both languages, phone width and the login page, in a real Chromium."""

from __future__ import annotations

import pytest
from playwright.sync_api import Page, expect

from tests.dashboard.conftest import OpenPage
from tests.dashboard.people import sign_in
from tests.dashboard.scenes import hold, make_pool, number_of, overflow, row_of, waiting
from tests.relay_server import RelayServer

PHONE = {"width": 390, "height": 844}
GROUND = "getComputedStyle(document.documentElement).backgroundColor"


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_theme_follows_the_system_until_it_is_switched(
    relay: RelayServer, open_page: OpenPage, scheme: str
) -> None:
    page = open_page(color_scheme=scheme)
    page.goto(f"{relay.url}/login/")
    before = page.evaluate(GROUND)
    page.get_by_role("button", name="Theme").click()
    after = page.evaluate(GROUND)
    assert {before, after} == {"rgb(242, 244, 243)", "rgb(12, 16, 17)"}
    page.reload()
    assert page.evaluate(GROUND) == after


def test_both_languages(relay: RelayServer, open_page: OpenPage, pool_name: str) -> None:
    make_pool(relay, pool_name)
    page = sign_in(open_page(locale="zh-CN"), relay, path=f"/?q={pool_name}")
    expect(page.locator("html")).to_have_attribute("lang", "zh-hans")
    expect(page.locator("thead")).to_contain_text("平均等待")
    expect(page.locator("[data-freeze]")).to_contain_text("实时")
    row_of(page, pool_name).get_by_role("button").last.click()
    expect(page.locator(".toast")).to_contain_text("8 → 9")
    expect(page.locator(".toast button")).to_contain_text("撤销")
    page.get_by_role("button", name="English").first.click()
    expect(page.locator("thead")).to_contain_text("Avg. wait")


def test_chinese_leaves_nothing_in_english(relay: RelayServer, open_page: OpenPage, pool_name: str) -> None:
    make_pool(relay, pool_name, 1)
    hold(relay, pool_name, 1)
    page = sign_in(open_page(locale="zh-CN"), relay, path=f"/?q={pool_name}")
    with waiting(relay, pool_name):
        expect(row_of(page, pool_name).locator(".why")).to_contain_text("占用")
        row_of(page, pool_name).get_by_role("checkbox").check()
        page.keyboard.press("?")
        text = page.evaluate("document.body.innerText")
    for allowed in (
        pool_name,
        "Token Relay",
        "English",
        "QPS",
        "CSV",
        "API",
        "Enter",
        "Esc",
        "admin",
        "default",
        "memory",
    ):
        text = text.replace(allowed, "")
    words = [word for word in text.split() if len(word) > 2 and word.isascii() and word.isalpha()]
    assert words == []


@pytest.mark.parametrize("locale", ["en-US", "zh-CN"])
@pytest.mark.parametrize("width", [390, 768, 1440])
def test_pages_scroll_in_one_direction_only(
    relay: RelayServer, open_page: OpenPage, pool_name: str, locale: str, width: int
) -> None:
    name = f"{pool_name}-{'a-long-name' * 3}"
    make_pool(relay, name, 1)
    hold(relay, name, 1)
    page = open_page(viewport={"width": width, "height": 844}, locale=locale)
    page.goto(f"{relay.url}/login/")
    assert overflow(page) == 0
    sign_in(page, relay, path=f"/?q={pool_name}")
    with waiting(relay, name):
        expect(page.locator("[data-freeze]")).to_be_visible()
        expect(row_of(page, name).locator(".why")).to_be_visible()
        assert overflow(page) == 0
        assert table_fits(page)


def table_fits(page: Page) -> bool:
    return bool(
        page.evaluate(
            """() => {
                const table = document.querySelector("table.pools").getBoundingClientRect();
                return table.right <= document.querySelector("[data-list]").getBoundingClientRect().right + 1;
            }"""
        )
    )


def test_on_a_phone_a_starving_pool_is_resized_with_a_thumb(
    relay: RelayServer, open_page: OpenPage, pool_name: str
) -> None:
    make_pool(relay, pool_name, 1)
    hold(relay, pool_name, 1)
    with relay.http() as api:
        assert api.post(f"/api/v1/pools/{pool_name}/acquire", json={"timeout_s": 0.01}).status_code == 429
    page = sign_in(open_page(viewport=PHONE, has_touch=True, is_mobile=True), relay, path=f"/?q={pool_name}")
    row = row_of(page, pool_name)
    expect(row.locator(".badge")).to_have_text("Starving")
    more = row.get_by_role("button", name="One permit more")
    box = more.bounding_box()
    assert box is not None
    assert min(box["width"], box["height"]) >= 42
    more.tap()
    expect(number_of(row, "use")).to_contain_text("/ 2")
    expect(page.locator(".toast").get_by_role("button", name="Undo")).to_be_visible()


def test_the_login_page_says_where_it_leads(relay: RelayServer, open_page: OpenPage) -> None:
    page = open_page()
    page.goto(f"{relay.url}/login/?next=/pools/llm-70b/")
    expect(page.locator(".lede")).to_have_text("Then on to the pool llm-70b")
    page.fill("#p", "secret")
    page.get_by_role("button", name="Show the password").click()
    expect(page.locator("#p")).to_have_attribute("type", "text")
