"""The overview's numbers in a real Chromium: they move in place, and nothing under somebody's hand does."""

from __future__ import annotations

import re

from playwright.sync_api import expect

from dashboard import format as figures
from tests.conftest import NewRelay
from tests.dashboard.conftest import OpenPage
from tests.dashboard.people import sign_in
from tests.dashboard.scenes import hold, make_key, make_pool, number_of, row_of, traffic, waiting
from tests.relay_server import RelayServer


def test_a_number_moves_without_the_page_being_loaded_again(
    relay: RelayServer, open_page: OpenPage, pool_name: str
) -> None:
    make_pool(relay, pool_name)
    page = sign_in(open_page(), relay)
    page.evaluate("window.stillHere = true")
    row = row_of(page, pool_name)
    qps = number_of(row, "qps")
    expect(qps).to_have_text("0")
    with traffic(relay, pool_name):
        expect(qps).not_to_have_text("0")
        first = qps.inner_text()
        expect(qps).not_to_have_text(first)
        expect(row.locator("td:nth-child(5) path").first).to_have_attribute("d", re.compile(r"^M\d"), timeout=15_000)
    expect(row.locator(".badge")).to_have_text("Flowing")
    assert page.evaluate("window.stillHere") is True


def test_a_pool_made_elsewhere_appears_and_a_deleted_one_goes(
    relay: RelayServer, open_page: OpenPage, pool_name: str
) -> None:
    page = sign_in(open_page(), relay)
    expect(page.locator("[data-freeze]")).to_be_visible()
    make_pool(relay, pool_name)
    expect(row_of(page, pool_name)).to_have_count(1)
    with relay.http() as api:
        api.delete(f"/api/v1/pools/{pool_name}")
    expect(row_of(page, pool_name)).to_have_count(0)


def test_who_waits_is_shown_by_class_and_who_holds_too_much_by_name(new_relay: NewRelay, open_page: OpenPage) -> None:
    relay = new_relay()
    make_pool(relay, "gpu", 6)
    make_pool(relay, "calm")
    greedy = make_key(relay, "eval")
    hold(relay, "gpu", 6, greedy)
    page = sign_in(open_page(), relay)
    row = row_of(page, "gpu")
    with waiting(relay, "gpu", "critical"), waiting(relay, "gpu", "batch"):
        expect(number_of(row, "waiting")).to_have_text("2")
        expect(number_of(row, "classes")).to_have_text(["1", "", "1", ""])
        expect(row.locator(".why")).to_have_text("eval holds 6 of 6, its share is 3")
        expect(page.locator("h1")).to_have_text("gpu has a queue")
        expect(page).to_have_title("1 to watch · Token Relay")
        expect(page.locator('[data-note="waiting"]')).to_have_text("2 of them in gpu")
        expect(page.locator("[data-pools] > tr").first).to_have_attribute("data-pool", "gpu")
        page.reload()
        expect(row.locator(".why")).to_have_text("eval holds 6 of 6, its share is 3")
        expect(number_of(row, "classes")).to_have_text(["1", "", "1", ""])
    expect(page.locator("h1")).to_have_text("Everything flows")
    expect(page).to_have_title("Overview · Token Relay")


def test_focus_typed_text_and_selection_survive_the_ticks(
    relay: RelayServer, open_page: OpenPage, pool_name: str
) -> None:
    make_pool(relay, pool_name)
    page = sign_in(open_page(), relay)
    row = row_of(page, pool_name)
    row.get_by_role("textbox").fill("17")
    with traffic(relay, pool_name):
        expect(number_of(row, "qps")).not_to_have_text("0")
        expect(row.get_by_role("textbox")).to_have_value("17")
        expect(row.get_by_role("textbox")).to_be_focused()
        row.get_by_role("textbox").press("Escape")
        expect(row.get_by_role("textbox")).to_have_value("8")
        page.evaluate("getSelection().selectAllChildren(document.querySelector('[data-live=\"in-use\"]'))")
        row.locator("th a").evaluate("node => getSelection().selectAllChildren(node)")
        clock = page.locator("[data-freeze] time")
        shown = clock.inner_text()
        expect(clock).not_to_have_text(shown)
        assert page.evaluate("getSelection().toString()") == pool_name


def test_first_use_says_what_to_do_and_the_first_pool_takes_its_place(new_relay: NewRelay, open_page: OpenPage) -> None:
    relay = new_relay()
    page = sign_in(open_page(), relay)
    expect(page.locator("h1")).to_have_text("No pool yet")
    expect(page.locator("#snip-first")).to_contain_text(f"curl -X POST {relay.url}/api/v1/pools")
    page.fill("#np-n", "first")
    page.click("[data-new-pool] .btn-main")
    expect(row_of(page, "first")).to_have_count(1)
    expect(page.locator("[data-first]")).to_have_count(0)
    page.click(".new-pool > summary")
    expect(page.locator("#np-n")).to_be_focused()
    page.fill("#np-n", "first")
    page.click("[data-new-pool] .btn-main")
    expect(page.locator("[data-wrong]")).to_contain_text("There is a pool first already")


def test_browser_and_server_write_numbers_alike(relay: RelayServer, open_page: OpenPage) -> None:
    values = [0, 0.00004, 0.0004, 0.0096, 0.34, 0.99951, 1.26, 15.04, 99.94, 99.96, 412.3]
    values += [5_999, 9_120, 12_400, 999_949, 3.14e6]
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
