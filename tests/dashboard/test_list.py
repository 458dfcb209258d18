"""Filter, state and sort live in the address; keys reach every row."""

from __future__ import annotations

import random
import re
import uuid
from collections.abc import Iterator

import pytest
from playwright.sync_api import Page, expect

from tests.dashboard.conftest import OpenPage
from tests.dashboard.people import sign_in
from tests.dashboard.scenes import hold, make_pool, row_of
from tests.relay_server import RelayServer


@pytest.fixture
def mark(relay: RelayServer) -> Iterator[str]:
    """Three pools of one name's beginning: -a full, -b flowing, -c idle; gone after the test."""
    begin = f"list{uuid.uuid4().hex[:6]}"
    for part, capacity, held in (("a", 2, 2), ("b", 4, 1), ("c", 8, 0)):
        make_pool(relay, f"{begin}-{part}", capacity)
        if held:
            hold(relay, f"{begin}-{part}", held)
    yield begin
    with relay.http() as api:
        for part in "abc":
            api.delete(f"/api/v1/pools/{begin}-{part}", params={"force": "true"})


def shown(page: Page) -> list[str]:
    rows = page.locator("[data-pools] > tr:not([hidden])")
    return [name[-1] for name in rows.evaluate_all("rows => rows.map(row => row.querySelector('th a').textContent)")]


def expect_shown(page: Page, names: str) -> None:
    page.wait_for_function(
        """(names) => [...document.querySelectorAll("[data-pools] > tr:not([hidden])")]
            .map(row => row.querySelector("th a").textContent.at(-1)).join("") === names""",
        arg=names,
    )


def test_the_filter_goes_into_the_address_and_back_and_forward_work(
    relay: RelayServer, open_page: OpenPage, mark: str
) -> None:
    page = sign_in(open_page(), relay)
    page.keyboard.press("/")
    page.keyboard.type(f"{mark}-")
    expect_shown(page, "abc")
    page.keyboard.type("b")
    expect_shown(page, "b")
    assert page.url == f"{relay.url}/?q={mark}-b"
    page.locator('[data-state="full"]').click()
    expect(page.locator("[data-empty]")).to_contain_text("No pool matches")
    page.go_back()
    expect_shown(page, "b")
    expect(page.locator('[name="q"]')).to_have_value(f"{mark}-b")
    page.go_back()
    expect(page.locator('[name="q"]')).to_have_value("")
    page.go_forward()
    expect_shown(page, "b")


def test_states_count_their_pools_and_choose_them(relay: RelayServer, open_page: OpenPage, mark: str) -> None:
    page = sign_in(open_page(), relay, path=f"/?q={mark}")
    page.get_by_role("link", name="Full").click()
    expect_shown(page, "a")
    page.get_by_role("link", name="At rest").click()
    expect_shown(page, "c")
    expect(page.get_by_role("link", name="At rest")).to_have_attribute("aria-current", "true")
    assert re.search(r"\?q=\w+&state=rest$", page.url)
    hold(relay, f"{mark}-c", 1)
    expect(page.locator("[data-empty]")).to_contain_text("No pool matches")
    page.get_by_role("link", name="Show all pools").click()
    expect(row_of(page, f"{mark}-a")).to_be_visible()
    assert page.url == f"{relay.url}/"


def test_rows_come_into_order_as_far_as_they_are_in_sight(relay: RelayServer, open_page: OpenPage) -> None:
    page = open_page()
    page.goto(f"{relay.url}/login/")
    rounds = [(random.sample(range(40), 40), random.sample(range(40), 40), depth) for depth in (0, 1, 7, 25, 39, 40)]
    found = page.evaluate(
        """async (rounds) => {
            const { arrange } = await import("/static/dashboard/arrange.js");
            return rounds.map(([present, wanted, depth]) => {
                const list = document.createElement("ol"), items = new Map();
                for (const name of present) items.set(name, list.appendChild(document.createElement("li"))).get(name).value = name;
                arrange(list, wanted.map((name) => items.get(name)), depth);
                return [...list.children].map((item) => item.value);
            });
        }""",
        rounds,
    )
    for (_, wanted, depth), order in zip(rounds, found, strict=True):
        assert order[:depth] == wanted[:depth]
        assert sorted(order) == list(range(40))


@pytest.mark.parametrize(("sort", "script"), [("name", True), ("load", False), ("worst", False)])
def test_a_link_restores_the_view(relay: RelayServer, open_page: OpenPage, mark: str, sort: str, script: bool) -> None:
    page = sign_in(open_page(java_script_enabled=script), relay, path=f"/?q={mark}&sort={sort}")
    assert shown(page) == ["a", "b", "c"]
    expect(page.locator("#sort")).to_have_value(sort)


def test_the_sort_moves_rows_at_once_and_is_in_the_address(relay: RelayServer, open_page: OpenPage, mark: str) -> None:
    hold(relay, f"{mark}-c", 7)
    page = sign_in(open_page(), relay, path=f"/?q={mark}&sort=name")
    expect(page.locator("[data-freeze]")).to_be_visible()
    expect_shown(page, "abc")
    page.select_option("#sort", "load")
    expect_shown(page, "acb")
    assert page.url.endswith("&sort=load")


def test_the_table_can_be_had_as_csv(relay: RelayServer, open_page: OpenPage, mark: str) -> None:
    page = sign_in(open_page(), relay, path=f"/?q={mark}&sort=name")
    with page.expect_download() as download:
        page.get_by_role("link", name="CSV").click()
    lines = download.value.path().read_text().splitlines()
    assert lines[0].startswith("name,state,health,capacity,in_use,over_limit,waiting,oldest_wait_s,qps,average_wait_s")
    assert [line.split(",")[:5] for line in lines[1:]] == [
        [f"{mark}-a", "active", "full", "2", "2"],
        [f"{mark}-b", "active", "flowing", "4", "1"],
        [f"{mark}-c", "active", "idle", "8", "0"],
    ]


def test_the_keyboard_reaches_everything(relay: RelayServer, open_page: OpenPage, mark: str) -> None:
    page = sign_in(open_page(), relay, path=f"/?q={mark}&sort=name")
    for key, part in (("j", "a"), ("j", "b"), ("j", "c"), ("j", "c"), ("k", "b")):
        page.keyboard.press(key)
        expect(row_of(page, f"{mark}-{part}")).to_be_focused()
    row = row_of(page, f"{mark}-b")
    page.keyboard.press("x")
    expect(row.get_by_role("checkbox")).to_be_checked()
    page.keyboard.press("e")
    expect(row.get_by_role("textbox")).to_be_focused()
    page.keyboard.press("Escape")
    expect(row).to_be_focused()
    page.keyboard.press("?")
    expect(page.locator("#keys")).to_be_visible()
    page.keyboard.press("Escape")
    expect(page.locator("#keys")).to_be_hidden()
    page.keyboard.press("t")
    expect(page.locator("html")).to_have_attribute("data-theme", "dark")
    page.keyboard.press("Enter")
    page.wait_for_url(f"**/pools/{mark}-b/")


def test_single_keys_can_be_switched_off(relay: RelayServer, open_page: OpenPage, mark: str) -> None:
    page = sign_in(open_page(), relay, path=f"/?q={mark}&sort=name")
    page.keyboard.press("?")
    page.get_by_role("checkbox", name="Single keys act").uncheck()
    page.keyboard.press("Escape")
    page.keyboard.press("j")
    page.reload()
    page.keyboard.press("j")
    expect(row_of(page, f"{mark}-a")).not_to_be_focused()
    page.get_by_role("button", name="Shortcuts").click()
    expect(page.get_by_role("checkbox", name="Single keys act")).not_to_be_checked()
