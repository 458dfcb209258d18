"""What an operator does in the table, in a real Chromium: resize, undo, pause, many at once; and when two do it."""

from __future__ import annotations

import uuid

from playwright.sync_api import Page, expect

from tests.dashboard.conftest import OpenPage
from tests.dashboard.people import sign_in
from tests.dashboard.scenes import make_pool, newest_change, number_of, pool_of, row_of
from tests.relay_server import RelayServer


def test_the_stepper_resizes_at_once_and_undo_takes_all_its_steps_back(
    relay: RelayServer, open_page: OpenPage, pool_name: str
) -> None:
    make_pool(relay, pool_name)
    page = sign_in(open_page(), relay)
    row = row_of(page, pool_name)
    more = row.get_by_role("button", name="One permit more")
    more.click()
    more.click()
    size = row.get_by_role("textbox")
    expect(size).to_have_value("10")
    expect(number_of(row, "use")).to_contain_text("/ 10")
    expect(page.locator(".toast")).to_contain_text(f"{pool_name} capacity 8 → 10")
    assert pool_of(relay, pool_name)["capacity"] == 10
    page.locator(".toast").get_by_role("button", name="Undo").click()
    expect(page.locator(".toast")).to_have_text("Undone")
    expect(size).to_have_value("8")
    change = newest_change(relay, pool_name)
    assert (change["actor"], change["before"]["capacity"], change["after"]["capacity"]) == ("admin", 10, 8)
    assert change["reason"] == "Undo"


def test_a_typed_size_works_and_a_wrong_one_is_explained(
    relay: RelayServer, open_page: OpenPage, pool_name: str
) -> None:
    make_pool(relay, pool_name)
    page = sign_in(open_page(), relay)
    size = row_of(page, pool_name).get_by_role("textbox")
    size.fill("30")
    size.press("Enter")
    expect(number_of(row_of(page, pool_name), "use")).to_contain_text("/ 30")
    size.fill("0")
    size.press("Enter")
    expect(page.locator(".toast")).to_contain_text("capacity")
    expect(size).to_have_value("30")
    assert pool_of(relay, pool_name)["capacity"] == 30


def test_undo_is_offered_for_ten_seconds(relay: RelayServer, open_page: OpenPage, pool_name: str) -> None:
    make_pool(relay, pool_name)
    page = open_page()
    page.clock.install()
    sign_in(page, relay)
    row_of(page, pool_name).get_by_role("button", name="One permit more").click()
    undo = page.locator(".toast").get_by_role("button", name="Undo")
    expect(undo).to_be_visible()
    page.clock.run_for(8_000)
    expect(undo).to_be_visible()
    page.clock.run_for(3_000)
    expect(undo).to_have_count(0)


def test_who_is_second_sees_what_the_first_did_and_is_asked_again(
    relay: RelayServer, open_page: OpenPage, pool_name: str
) -> None:
    make_pool(relay, pool_name)
    page = sign_in(open_page(), relay)
    row = row_of(page, pool_name)
    size = row.get_by_role("textbox")
    size.fill("12")
    with relay.http() as api:
        api.patch(f"/api/v1/pools/{pool_name}", json={"capacity": 20}).raise_for_status()
    expect(number_of(row, "use")).to_contain_text("/ 20")
    expect(size).to_have_value("12")
    size.press("Enter")
    notice = page.locator(".notice")
    expect(notice).to_contain_text("made it 20 while you typed 12.")
    expect(size).to_have_value("20")
    assert pool_of(relay, pool_name)["capacity"] == 20
    notice.get_by_role("button", name="Set it to 12").click()
    expect(number_of(row, "use")).to_contain_text("/ 12")
    expect(notice).to_have_count(0)


def test_undo_does_not_run_over_a_colleague(relay: RelayServer, open_page: OpenPage, pool_name: str) -> None:
    make_pool(relay, pool_name)
    page = sign_in(open_page(), relay)
    row = row_of(page, pool_name)
    row.get_by_role("button", name="One permit more").click()
    expect(page.locator(".toast")).to_contain_text("8 → 9")
    with relay.http() as api:
        api.patch(f"/api/v1/pools/{pool_name}", json={"capacity": 20}).raise_for_status()
    page.keyboard.press("u")
    expect(page.locator(".notice")).to_contain_text("made it 20")
    page.get_by_role("button", name="Keep 20").click()
    expect(page.locator(".notice")).to_have_count(0)
    assert pool_of(relay, pool_name)["capacity"] == 20


def test_a_pool_is_paused_and_resumed_with_one_key(relay: RelayServer, open_page: OpenPage, pool_name: str) -> None:
    make_pool(relay, pool_name)
    page = sign_in(open_page(), relay, path=f"/?q={pool_name}")
    row = row_of(page, pool_name)
    page.keyboard.press("j")
    expect(row).to_be_focused()
    page.keyboard.press("p")
    expect(row.locator(".badge")).to_have_text("Paused")
    expect(row.locator(".why")).to_contain_text("by admin at")
    expect(row).to_be_focused()
    page.keyboard.press("p")
    expect(row.locator(".badge")).to_have_text("Idle")
    expect(row.locator(".why")).to_be_hidden()
    page.keyboard.press("p")
    expect(row.locator(".badge")).to_have_text("Paused")
    page.keyboard.press("u")
    expect(row.locator(".badge")).to_have_text("Idle")
    assert pool_of(relay, pool_name)["state"] == "active"


def three_pools(relay: RelayServer) -> list[str]:
    mark = uuid.uuid4().hex[:8]
    names = [f"{mark}-{part}" for part in "abc"]
    for name, capacity in zip(names, (4, 10, 100), strict=True):
        make_pool(relay, name, capacity)
    return names


def picked(page: Page, names: list[str]) -> None:
    for name in names:
        row_of(page, name).get_by_role("checkbox").check()


def test_many_rows_are_resized_by_a_percentage_and_taken_back_together(relay: RelayServer, open_page: OpenPage) -> None:
    names = three_pools(relay)
    page = sign_in(open_page(), relay, path=f"/?q={names[0][:8]}")
    expect(page.locator(".bulk")).to_be_hidden()
    page.locator("[data-pick-all]").check()
    expect(page.locator(".bulk")).to_contain_text("Picked 3")
    page.fill("#percent", "+15")
    page.locator(".bulk").get_by_role("button", name="Resize").click()
    expect(page.locator(".toast")).to_contain_text("3 pools resized")
    assert [pool_of(relay, name)["capacity"] for name in names] == [5, 12, 115]
    expect(page.locator(".bulk")).to_be_hidden()
    page.locator(".toast").get_by_role("button", name="Undo").click()
    expect(page.locator(".toast")).to_have_text("Undone")
    assert [pool_of(relay, name)["capacity"] for name in names] == [4, 10, 100]


def test_many_rows_are_paused_and_resumed(relay: RelayServer, open_page: OpenPage) -> None:
    names = three_pools(relay)
    page = sign_in(open_page(), relay, path=f"/?q={names[0][:8]}")
    picked(page, names[:2])
    page.locator(".bulk").get_by_role("button", name="Pause").click()
    expect(page.locator(".toast")).to_contain_text("2 pools paused")
    assert [pool_of(relay, name)["state"] for name in names] == ["paused", "paused", "active"]
    picked(page, names)
    page.locator(".bulk").get_by_role("button", name="Resume").click()
    expect(page.locator(".toast")).to_contain_text("2 pools resumed")
    assert {pool_of(relay, name)["state"] for name in names} == {"active"}


def test_everything_works_without_javascript(relay: RelayServer, open_page: OpenPage, pool_name: str) -> None:
    page = sign_in(open_page(java_script_enabled=False), relay, path=f"/?q={pool_name[:8]}")
    if page.locator(".new-pool > summary").count():
        page.click(".new-pool > summary")
    page.fill("#np-n", pool_name)
    page.fill("#np-c", "5")
    page.click("[data-new-pool] .btn-main")
    page.goto(f"{relay.url}/?q={pool_name}")
    row = row_of(page, pool_name)
    size = row.get_by_role("textbox")
    size.fill("30")
    size.press("Enter")
    expect(size).to_have_value("30")
    assert page.url.endswith(f"/?q={pool_name}")
    row.get_by_role("checkbox").check()
    page.locator(".bulk").get_by_role("button", name="Pause").click()
    expect(row.locator(".badge")).to_have_text("Paused")
    size.fill("31")
    with relay.http() as api:
        api.patch(f"/api/v1/pools/{pool_name}", json={"capacity": 40}).raise_for_status()
    size.press("Enter")
    expect(page.locator(".notice")).to_contain_text("made it 40 while you typed 31.")
    expect(size).to_have_value("40")
    page.get_by_role("button", name="Theme").first.click()
    expect(page.locator("html")).to_have_attribute("data-theme", "dark")
