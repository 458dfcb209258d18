"""The pool page in a real Chromium: charts that draw and move, lists that renew in place, addresses that restore the view."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from tests.conftest import missing
from tests.dashboard.conftest import OpenPage
from tests.dashboard.people import sign_in
from tests.dashboard.scenes import hold, make_key, make_pool, overflow, traffic, waiting
from tests.relay_server import ROOT, RelayServer

LIBRARY = ROOT / "dashboard" / "static" / "vendor" / "uplot" / "uPlot.iife.min.js"
INK = """
name => {
  const canvas = document.querySelector(`[data-plot="${name}"] canvas`);
  const pixels = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height).data;
  let inked = 0;
  for (let index = 3; index < pixels.length; index += 4) if (pixels[index]) inked += 1;
  return inked;
}
"""


@pytest.fixture
def _library() -> None:
    if not LIBRARY.is_file():
        missing("the chart library (scripts/assets.py)")


def open_pool(page: Page, relay: RelayServer, pool: str, query: str = "") -> Page:
    sign_in(page, relay, path=f"/pools/{pool}/{query}")
    expect(page.locator("h1")).to_have_text(pool)
    return page


def live(page: Page) -> Page:
    expect(page.locator("[data-freeze] time")).to_have_text(re.compile(r"\d\d:\d\d:\d\d"))
    return page


@pytest.mark.usefixtures("_library")
def test_charts_draw_and_move_with_the_legend_as_readout(
    relay: RelayServer, open_page: OpenPage, pool_name: str
) -> None:
    make_pool(relay, pool_name)
    page = open_pool(open_page(), relay, pool_name, "?range=live")
    expect(page.locator(".plot .uplot")).to_have_count(3)
    with traffic(relay, pool_name):
        granted = page.locator('[data-leg="granted"]')
        expect(granted).to_have_text(re.compile(r"^[1-9]"))
        first = page.evaluate("document.querySelector('[data-plot=requests] canvas').toDataURL()")
        page.wait_for_function(
            "before => document.querySelector('[data-plot=requests] canvas').toDataURL() !== before", arg=first
        )
        expect(page.locator('[data-strip] [data-live="qps"]')).not_to_have_text("0")
    for name in ("requests", "wait", "permits"):
        assert page.evaluate(INK, name) > 100


@pytest.mark.usefixtures("_library")
def test_one_cursor_and_one_zoom_for_all_charts(relay: RelayServer, open_page: OpenPage, pool_name: str) -> None:
    make_pool(relay, pool_name)
    page = live(open_pool(open_page(), relay, pool_name, "?range=live"))
    over = page.locator('[data-plot="wait"] .u-over')
    expect(over).to_be_visible()
    box = over.bounding_box()
    assert box is not None
    page.mouse.move(box["x"] + box["width"] * 0.3, box["y"] + 20)
    expect(page.locator("[data-at]")).to_have_text(re.compile(r"\d\d:\d\d:\d\d"))
    for name in ("requests", "permits"):
        expect(page.locator(f'[data-plot="{name}"] .u-cursor-x')).not_to_have_class(re.compile("u-off"))
    whole = page.locator("[data-unzoom]")
    expect(whole).to_be_hidden()
    page.mouse.down()
    page.mouse.move(box["x"] + box["width"] * 0.7, box["y"] + 20, steps=4)
    page.mouse.up()
    expect(whole).to_be_visible()
    whole.click()
    expect(whole).to_be_hidden()


@pytest.mark.usefixtures("_library")
def test_a_change_is_a_mark_that_says_who_and_from_what_to_what(
    relay: RelayServer, open_page: OpenPage, pool_name: str
) -> None:
    make_pool(relay, pool_name)
    page = live(open_pool(open_page(), relay, pool_name, "?range=live"))
    with relay.http() as api:
        api.patch(f"/api/v1/pools/{pool_name}", json={"capacity": 5, "reason": "repair"})
    flag = page.locator('.flag[title*="capacity 8 → 5"]')
    expect(flag).to_have_count(1)
    expect(flag).to_have_attribute("title", re.compile("^key .*repair$"))


@pytest.mark.usefixtures("_library")
def test_the_colours_follow_the_theme(relay: RelayServer, open_page: OpenPage, pool_name: str) -> None:
    make_pool(relay, pool_name)
    page = live(open_pool(open_page(color_scheme="light"), relay, pool_name, "?range=live&tab=connect"))
    expect(page.locator(".plot .uplot")).to_have_count(3)
    page.keyboard.press(" ")  # frozen: only the theme may change the picture
    expect(page.locator("[data-freeze]")).to_have_attribute("aria-pressed", "true")
    picture = "document.querySelector('[data-plot=permits] canvas').toDataURL()"
    before = page.evaluate(picture)
    page.keyboard.press("t")
    expect(page.locator("html")).to_have_attribute("data-theme", "dark")
    page.wait_for_function(f"before => {picture} !== before", arg=before)


def test_range_tab_view_and_search_live_in_the_address(relay: RelayServer, open_page: OpenPage, pool_name: str) -> None:
    make_pool(relay, pool_name)
    hold(relay, pool_name, 2, make_key(relay, f"{pool_name}-eval"))
    hold(relay, pool_name, 1, make_key(relay, f"{pool_name}-web"))
    page = live(open_pool(open_page(), relay, pool_name))
    page.evaluate("window.stillHere = true")
    rows = page.locator("[data-rows] > tr")
    expect(rows).to_have_count(2)
    page.keyboard.press("/")
    page.keyboard.type("-web")
    expect(rows).to_have_count(1)
    expect(page).to_have_url(re.compile(r"q=-web"))
    page.get_by_role("link", name="5 m", exact=True).click()
    expect(page.locator("[data-charts]")).to_have_attribute("data-range", "300")
    page.get_by_role("tab", name="Tenants").click()
    expect(page.locator("[data-panel]")).to_have_attribute("data-panel", "tenants")
    expect(page).to_have_url(re.compile(r"\?range=5m&tab=tenants$"))
    page.go_back()
    page.go_back()
    expect(page.locator("[data-panel]")).to_have_attribute("data-panel", "holders")
    expect(page.locator("[data-charts]")).to_have_attribute("data-range", "900")
    expect(rows).to_have_count(1)
    assert page.evaluate("window.stillHere") is True
    page.goto(f"{relay.url}/pools/{pool_name}/?range=5m&view=table&tab=changes")
    expect(page.locator(".chart-table")).to_have_count(3)
    expect(page.get_by_role("tab", selected=True)).to_have_text("Changes")


def test_lists_renew_in_place_and_leave_the_hand_alone(relay: RelayServer, open_page: OpenPage, pool_name: str) -> None:
    make_pool(relay, pool_name)
    first = hold(relay, pool_name, 2)
    page = live(open_pool(open_page(), relay, pool_name))
    rows = page.locator("[data-rows] > tr")
    expect(rows).to_have_count(1)
    page.evaluate("document.querySelector('[data-rows] > tr').marked = true")
    hold(relay, pool_name, 1)
    expect(rows).to_have_count(2)
    assert page.evaluate("document.querySelector('[data-rows] > tr').marked") is True
    page.keyboard.press("j")
    expect(rows.first).to_be_focused()
    with relay.http() as api:
        api.post(f"/api/v1/leases/{first}/release", json={})
    expect(page.locator('[data-tab="holders"] .n')).to_have_text("1")
    expect(rows.first).to_be_focused()
    page.keyboard.press("Escape")
    expect(rows).to_have_count(1)


def test_the_first_renewal_moves_no_part_of_the_page(relay: RelayServer, open_page: OpenPage, pool_name: str) -> None:
    make_pool(relay, pool_name)
    page = open_pool(open_page(), relay, pool_name)
    with page.expect_response(lambda answer: "fragment=1" in answer.url):
        page.evaluate("""() => {
          window.moved = 0;
          const main = document.querySelector("[data-pool-page]");
          const parts = (nodes) => [...nodes].filter((node) => node.nodeType === 1).length;
          new MutationObserver((seen) => {
            for (const { addedNodes, removedNodes } of seen) window.moved += parts(addedNodes) + parts(removedNodes);
          }).observe(main, { childList: true });
          main.querySelector("[role=tab][aria-selected=true]").focus();
        }""")
    hold(relay, pool_name, 1)
    expect(page.locator("[data-rows] > tr")).to_have_count(1)
    assert page.evaluate("window.moved") == 0
    expect(page.get_by_role("tab", selected=True)).to_be_focused()


def test_waiters_stand_in_the_order_of_service(relay: RelayServer, open_page: OpenPage, pool_name: str) -> None:
    make_pool(relay, pool_name, 2)
    hold(relay, pool_name, 2)
    page = live(open_pool(open_page(), relay, pool_name, "?tab=waiters"))
    with waiting(relay, pool_name, "batch"), waiting(relay, pool_name, "critical"):
        rows = page.locator("[data-rows] > tr")
        expect(rows).to_have_count(2)
        expect(rows.first).to_contain_text("critical")
        expect(rows.first.locator("td").first).to_have_text("1")
        expect(page.locator("[data-verdict]")).to_contain_text("2 of 2 permits")
        expect(page.locator("[data-badge]")).to_have_text("Queuing")


def test_times_are_the_browsers_with_utc_in_the_title(relay: RelayServer, open_page: OpenPage, pool_name: str) -> None:
    make_pool(relay, pool_name)
    page = live(open_pool(open_page(), relay, pool_name, "?tab=changes"))
    time = page.locator("[data-panel] time").first
    expect(time).to_have_text(re.compile(r"^\d\d:\d\d:\d\d$"))
    expect(time).to_have_attribute("title", re.compile("UTC$"))
    hours = int(time.inner_text()[:2]) - int((time.get_attribute("title") or "")[11:13])
    assert hours % 24 == 8
    expect(page.locator("[data-zone]")).to_have_text("Times in Asia/Shanghai")


def test_the_snippets_work_as_they_stand(
    relay: RelayServer, open_page: OpenPage, pool_name: str, tmp_path: Path
) -> None:
    make_pool(relay, pool_name)
    page = open_pool(open_page(), relay, pool_name, "?tab=connect")
    (tmp_path / "use.py").write_text(page.locator("#snip-python").inner_text(), encoding="utf-8")
    env = {"RELAY_API_KEY": relay.api_key, "PATH": "/usr/local/bin:/usr/bin:/bin", "no_proxy": "127.0.0.1"}
    done = subprocess.run([sys.executable, tmp_path / "use.py"], env=env, capture_output=True, text=True, timeout=30)
    assert done.returncode == 0, done.stderr
    assert "working with" in done.stdout
    acquire = page.locator("#snip-curl").inner_text().split("\n\n")[0]
    curl = subprocess.run(["sh", "-c", acquire], env=env, capture_output=True, text=True, timeout=30)
    assert '"lease_id"' in curl.stdout, curl.stderr


def test_a_phone_scrolls_in_one_direction_only(relay: RelayServer, open_page: OpenPage, pool_name: str) -> None:
    name = f"{pool_name}-{'a-long-name' * 3}"
    make_pool(relay, name)
    hold(relay, name, 2)
    page = open_pool(open_page(viewport={"width": 390, "height": 844}, locale="zh-CN"), relay, name)
    expect(page.locator("[data-freeze]")).to_be_visible()
    for tab in ("holders", "waiters", "tenants", "sizing", "changes", "connect"):
        page.locator(f'[data-tab="{tab}"]').click()
        expect(page.locator("[data-panel]")).to_have_attribute("data-panel", tab)
        assert overflow(page) == 0, tab


def test_a_pool_that_is_gone_says_so(relay: RelayServer, open_page: OpenPage, pool_name: str) -> None:
    make_pool(relay, pool_name)
    page = live(open_pool(open_page(), relay, pool_name))
    with relay.http() as api:
        api.delete(f"/api/v1/pools/{pool_name}")
    expect(page.locator("h1")).to_have_text("There is no such pool")
