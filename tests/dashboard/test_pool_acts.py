"""What a person does on the pool page, in a real Chromium: each is one change, and can be taken back where it can."""

from __future__ import annotations

import re

from playwright.sync_api import Page, expect

from tests.dashboard.conftest import OpenPage
from tests.dashboard.people import OWN_PASSWORD, add_person, sign_in
from tests.dashboard.scenes import hold, make_key, make_pool, newest_change, pool_of, waiting
from tests.dashboard.test_pool_page import live, open_pool
from tests.relay_server import RelayServer


def resize_to(page: Page, capacity: int) -> None:
    page.fill("#new-capacity", str(capacity))
    page.click("[data-apply]")


def test_resize_says_what_it_will_do_does_it_and_can_be_undone(
    relay: RelayServer, open_page: OpenPage, pool_name: str
) -> None:
    make_pool(relay, pool_name, 2)
    hold(relay, pool_name, 2)
    with waiting(relay, pool_name), waiting(relay, pool_name):
        page = live(open_pool(open_page(), relay, pool_name))
        expect(page.locator('[data-live="waiting"]')).to_have_text("2")
        expect(page.locator("[data-apply]")).to_be_disabled()
        page.fill("#new-capacity", "3")
        expect(page.locator("[data-once]")).to_have_text("One waiter is served at once")
        page.locator("[data-slide]").press("ArrowRight")
        expect(page.locator("#new-capacity")).to_have_value("4")
        expect(page.locator("[data-once]")).to_have_text("2 waiters are served at once")
        page.fill("#new-capacity", "1")
        expect(page.locator("[data-once]")).to_have_text("One over the new size; nobody is evicted")
        page.fill("#why", "searches wait")
        resize_to(page, 3)
        expect(page.locator(".toast")).to_contain_text(f"{pool_name} capacity 2 → 3")
        expect(page.locator('[data-live="in-use"]')).to_have_text("3")
        change = newest_change(relay, pool_name)
        assert (change["actor_kind"], change["actor"], change["reason"]) == ("person", "admin", "searches wait")
        page.locator(".toast").get_by_role("button").click()
        expect(page.locator('[data-resize] [data-live="capacity"]')).to_have_text("2")
        expect(page.locator("#new-capacity")).to_have_value("2")
        assert pool_of(relay, pool_name)["capacity"] == 2
        expect(page.locator("[data-badge]")).to_have_text("Shrinking")


def test_who_comes_second_sees_what_the_first_did_and_is_asked_again(
    relay: RelayServer, open_page: OpenPage, pool_name: str
) -> None:
    make_pool(relay, pool_name, 24)
    page = live(open_pool(open_page(), relay, pool_name))
    page.fill("#new-capacity", "32")
    with relay.http() as api:
        api.patch(f"/api/v1/pools/{pool_name}", json={"capacity": 28})
    expect(page.locator('[data-resize] [data-live="capacity"]')).to_have_text("28")
    expect(page.locator("#new-capacity")).to_have_value("32")
    page.click("[data-apply]")
    notice = page.locator("[data-conflict]")
    expect(notice).to_contain_text("capacity 24 → 28. Yours was not applied.")
    assert pool_of(relay, pool_name)["capacity"] == 28
    notice.get_by_role("button", name="Set 32 all the same").click()
    expect(notice).to_be_hidden()
    expect(page.locator(".toast")).to_contain_text("capacity 28 → 32")
    assert pool_of(relay, pool_name)["capacity"] == 32


def test_undo_does_not_undo_what_somebody_else_did_since(
    relay: RelayServer, open_page: OpenPage, pool_name: str
) -> None:
    make_pool(relay, pool_name, 8)
    page = live(open_pool(open_page(), relay, pool_name))
    resize_to(page, 9)
    expect(page.locator(".toast")).to_contain_text("8 → 9")
    with relay.http() as api:
        api.patch(f"/api/v1/pools/{pool_name}", json={"capacity": 20})
    page.locator(".toast").get_by_role("button").click()
    expect(page.locator(".toast")).to_contain_text("was first")
    assert pool_of(relay, pool_name)["capacity"] == 20


def test_a_wrong_number_changes_nothing_and_says_why(relay: RelayServer, open_page: OpenPage, pool_name: str) -> None:
    make_pool(relay, pool_name, 8)
    page = live(open_pool(open_page(), relay, pool_name))
    resize_to(page, 0)
    expect(page.locator(".toast")).to_contain_text("capacity")
    assert pool_of(relay, pool_name)["capacity"] == 8


def test_pause_resume_and_drain_each_with_undo(relay: RelayServer, open_page: OpenPage, pool_name: str) -> None:
    make_pool(relay, pool_name)
    page = live(open_pool(open_page(), relay, pool_name))
    badge = page.locator("[data-badge]")
    page.get_by_role("button", name="Pause").click()
    expect(badge).to_have_text("Paused")
    expect(page.locator("[data-verdict]")).to_contain_text("Paused")
    page.get_by_role("button", name="Resume").click()
    expect(badge).to_have_text("Idle")
    page.get_by_role("button", name="Drain").click()
    expect(badge).to_have_text("Draining")
    page.keyboard.press("u")
    expect(badge).to_have_text("Idle")
    assert pool_of(relay, pool_name)["state"] == "active"


def test_revoke_asks_with_a_reason_and_stands_in_the_log(
    relay: RelayServer, open_page: OpenPage, pool_name: str
) -> None:
    make_pool(relay, pool_name)
    lease = hold(relay, pool_name, 4)
    page = live(open_pool(open_page(), relay, pool_name))
    ask = page.get_by_role("link", name="Revoke…")
    ask.click()
    dialog = page.locator("dialog#ask")
    expect(dialog).to_contain_text("default loses 4 permits now.")
    dialog.get_by_role("link", name="Keep it").click()
    expect(dialog).to_have_count(0)
    ask.click()
    page.fill("#ask-why", "hung job")
    dialog.get_by_role("button", name="Revoke the lease").click()
    expect(page.locator("[data-rows] > tr")).to_have_count(0)
    assert pool_of(relay, pool_name)["in_use"] == 0
    change = newest_change(relay, pool_name)
    assert (change["action"], change["before"]["lease_id"], change["reason"]) == ("revoke", lease, "hung job")
    page.get_by_role("tab", name="Changes").click()
    expect(page.locator("[data-rows] > tr").first).to_contain_text("lease of default revoked")


def test_a_wait_can_be_cancelled(relay: RelayServer, open_page: OpenPage, pool_name: str) -> None:
    make_pool(relay, pool_name, 1)
    hold(relay, pool_name, 1)
    with waiting(relay, pool_name):
        page = live(open_pool(open_page(), relay, pool_name, "?tab=waiters"))
        page.get_by_role("link", name="Cancel…").click()
        page.fill("#ask-why", "wrong pool")
        page.get_by_role("button", name="Cancel the wait").click()
        expect(page.locator("[data-rows] > tr")).to_have_count(0)
        assert pool_of(relay, pool_name)["waiting"] == 0


def test_a_tenants_share_is_edited_in_place_and_can_be_undone(
    relay: RelayServer, open_page: OpenPage, pool_name: str
) -> None:
    tenant = f"{pool_name}-eval"
    make_pool(relay, pool_name, 8)
    hold(relay, pool_name, 6, make_key(relay, tenant))
    with waiting(relay, pool_name, permits=4):
        page = live(open_pool(open_page(), relay, pool_name))
        page.get_by_role("link", name=re.compile("^Limit it to")).click()
        limit = page.get_by_label("Limit", exact=True)
        expect(limit).to_have_value("4")
        page.get_by_label("Weight").fill("0.5")
        page.get_by_role("button", name="Save").click()
        row = page.locator(f'[data-rows] > [data-key="{tenant}"]')
        expect(row.locator("td").nth(1)).to_have_text("0.5")
        expect(row.locator("td").nth(2)).to_have_text("4")
        page.locator(".toast").get_by_role("button").click()
        expect(row.locator("td").nth(2)).to_have_text("–")
        with relay.http() as api:
            assert api.get(f"/api/v1/pools/{pool_name}/tenants").json()["items"] == []


def test_deleting_a_busy_pool_needs_the_tick(relay: RelayServer, open_page: OpenPage, pool_name: str) -> None:
    make_pool(relay, pool_name)
    hold(relay, pool_name, 1)
    page = live(open_pool(open_page(), relay, pool_name))
    page.get_by_role("link", name="Delete this pool…").click()
    dialog = page.locator("dialog#ask")
    page.fill("#ask-why", "moved")
    dialog.get_by_role("button", name="Delete the pool").click()
    expect(dialog.get_by_role("alert")).to_contain_text("has leases or waiters")
    dialog.get_by_role("checkbox").check()
    dialog.get_by_role("button", name="Delete the pool").click()
    expect(page.locator("[data-overview]")).to_be_visible()
    with relay.http() as api:
        assert api.get(f"/api/v1/pools/{pool_name}").status_code == 404


def test_a_viewer_sees_no_control_and_is_refused(relay: RelayServer, open_page: OpenPage, pool_name: str) -> None:
    make_pool(relay, pool_name)
    lease = hold(relay, pool_name, 1)
    add_person(relay, f"vic-{pool_name}", "viewer")
    page = sign_in(open_page(), relay, f"vic-{pool_name}", OWN_PASSWORD, f"/pools/{pool_name}/")
    expect(page.locator("[data-rows] > tr")).to_have_count(1)
    assert page.locator("main form:not([data-find]), main [data-ask]").count() == 0
    page.get_by_role("tab", name="Tenants").click()
    expect(page.locator("[data-panel]")).to_have_attribute("data-panel", "tenants")
    assert page.locator("main form:not([data-find]), main [data-ask]").count() == 0
    for path, form in (
        ("resize/", {"capacity": "1"}),
        ("state/", {"state": "paused"}),
        ("tenants/default/", {"limit": "1"}),
        (f"leases/{lease}/revoke/", {"reason": "x"}),
        ("delete/", {"reason": "x", "force": "1"}),
    ):
        token = page.locator("[name=csrfmiddlewaretoken]").first.input_value()
        address = f"{relay.url}/pools/{pool_name}/{path}"
        answer = page.request.post(address, form={**form, "csrfmiddlewaretoken": token}, headers={"Referer": relay.url})
        assert answer.status == 403, path
    pool = pool_of(relay, pool_name)
    assert (pool["capacity"], pool["state"], pool["in_use"]) == (8, "active", 1)


def test_everything_works_without_javascript(relay: RelayServer, open_page: OpenPage, pool_name: str) -> None:
    make_pool(relay, pool_name)
    hold(relay, pool_name, 2)
    page = open_pool(open_page(java_script_enabled=False), relay, pool_name)
    expect(page.locator(".plot .p-lines path").first).to_be_attached()
    resize_to(page, 5)
    undo = page.locator("[data-said]").get_by_role("button", name="Undo")
    expect(page.locator("[data-said]")).to_contain_text("capacity 8 → 5")
    undo.click()
    expect(page.locator("#new-capacity")).to_have_value("8")
    with relay.http() as api:
        api.patch(f"/api/v1/pools/{pool_name}", json={"capacity": 7})
    resize_to(page, 9)
    expect(page.locator("[data-conflict]")).to_contain_text("Yours was not applied")
    page.get_by_role("button", name="Set 9 all the same").click()
    expect(page.locator("#new-capacity")).to_have_value("9")
    page.get_by_role("button", name="Pause").click()
    expect(page.locator("[data-badge]")).to_have_text("Paused")
    page.get_by_role("link", name="Revoke…").click()
    page.fill("#ask-why", "hung")
    page.get_by_role("button", name="Revoke the lease").click()
    expect(page.locator("[data-said]")).to_contain_text("lease of default revoked")
    page.get_by_role("tab", name="Tenants").click()
    page.get_by_role("link", name="Set a tenant’s share").click()
    page.get_by_label("Tenant", exact=True).fill("default")
    page.get_by_label("Limit", exact=True).fill("3")
    page.get_by_role("button", name="Save").click()
    expect(page.locator("[data-rows] > tr td").nth(2)).to_have_text("3")
    page.get_by_role("link", name="As a table").click()
    expect(page.locator(".chart-table")).to_have_count(3)
