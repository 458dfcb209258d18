"""The Sizing tab in a real Chromium: see what a rule would have done, switch it on, take it back; a person's hand wins."""

from __future__ import annotations

import re
from typing import Any

import httpx
from playwright.sync_api import Page, expect

from tests.dashboard.conftest import OpenPage
from tests.dashboard.people import OWN_PASSWORD, add_person, session_cookie, sign_in
from tests.dashboard.scenes import hold, make_pool, newest_change, pool_of, row_of
from tests.dashboard.test_pool_page import live, open_pool
from tests.http.wire import until
from tests.relay_server import RelayServer

BY_LOAD = {"policy": {"kind": "load"}, "minimum": 2, "maximum": 40}


def sizing_of(relay: RelayServer, pool: str) -> dict[str, Any] | None:
    with relay.http() as api:
        found: dict[str, Any] | None = api.get(f"/api/v1/pools/{pool}/sizing").json()["sizing"]
        return found


def set_sizing(relay: RelayServer, pool: str, **given: Any) -> None:
    with relay.http() as api:
        answer = api.put(f"/api/v1/pools/{pool}/sizing", json=BY_LOAD | given)
        assert answer.status_code == 200, answer.text


def samples(relay: RelayServer, pool: str, count: int) -> None:
    """Waits until the pool has so many seconds of history."""
    with relay.http() as api:
        until(lambda: len(api.get(f"/api/v1/pools/{pool}/history").json()["rows"]) >= count)


def test_a_rule_is_drawn_before_it_is_switched_on_and_can_be_taken_back(
    relay: RelayServer, open_page: OpenPage, pool_name: str
) -> None:
    make_pool(relay, pool_name, 10)
    hold(relay, pool_name, 10)
    samples(relay, pool_name, 8)
    page = live(open_pool(open_page(), relay, pool_name, "?tab=sizing"))
    page.get_by_role("link", name="By load").click()
    picture = page.locator(".sizing-dry .plot")
    expect(picture).to_be_visible()
    expect(page.locator(".sizing-said b")).to_have_text("It would have decided nothing: the size stays 10.")
    page.get_by_label("Minimum").fill("3")
    page.get_by_label("Window in seconds").fill("2")
    page.get_by_label("Window in seconds").press("Enter")  # draws, and switches nothing on
    expect(page.locator(".sizing-said b")).to_contain_text("11 at the end, where it was 10.")
    expect(page).to_have_url(re.compile(r"tab=sizing&rule=load&minimum=3&maximum=20&.*window_s=2"))
    page.get_by_text("Its decisions as a table").click()
    expect(page.locator(".sizing-table tbody tr")).to_contain_text("over 0.80 for 2 s")
    assert sizing_of(relay, pool_name) is None
    page.reload()
    expect(page.get_by_label("Minimum")).to_have_value("3")
    page.locator("#size-why").fill("busy mornings")
    page.get_by_role("button", name="Switch on").click()
    expect(page.locator(".toast")).to_contain_text("sized by load")
    expect(page.locator(".sizing-bar b")).to_have_text("By load, from 3 to 20.")
    made = page.locator(".sizing-made [data-rows] > tr")
    expect(made.first).to_contain_text("10 → 11")
    expect(page.locator('.flag[title^="sizing: capacity 10 → 11 · load"]')).to_have_count(1)
    page.keyboard.press("u")
    expect(page.locator(".sizing-bar b")).to_have_text("Fixed at 10.")
    assert sizing_of(relay, pool_name) is None
    assert pool_of(relay, pool_name)["capacity"] == 10


def test_a_wrong_field_is_marked_and_what_was_typed_stays(
    relay: RelayServer, open_page: OpenPage, pool_name: str
) -> None:
    make_pool(relay, pool_name, 10)
    for script in (True, False):
        page = open_pool(open_page(java_script_enabled=script), relay, pool_name, "?tab=sizing&rule=schedule")
        page.get_by_label("Sizes of the week").fill("mun 08:00 4")
        page.get_by_role("button", name="Draw the last 15 minutes").click()
        expect(page.locator("#size-wrong")).to_contain_text("Sizes of the week: line 1, “mun 08:00 4”")
        expect(page.get_by_label("Sizes of the week")).to_have_value("mun 08:00 4")
        page.get_by_role("button", name="Switch on").click()
        expect(page.locator(".toast" if script else "[data-said]")).to_contain_text("line 1")
        expect(page.get_by_label("Sizes of the week")).to_have_value("mun 08:00 4")
    assert sizing_of(relay, pool_name) is None


def test_undo_of_a_resize_gives_the_size_back_to_the_rule(
    relay: RelayServer, open_page: OpenPage, pool_name: str
) -> None:
    make_pool(relay, pool_name, 10)
    set_sizing(relay, pool_name, cooldown_s=3600)
    page = live(open_pool(open_page(), relay, pool_name, "?tab=sizing"))
    for before, pin in (("10", None), ("10", 12)):
        with relay.http() as api:
            api.patch(f"/api/v1/pools/{pool_name}/sizing", json={"pin": pin})
            until(lambda pin=pin: pool_of(relay, pool_name)["capacity"] == (pin or 10))
        expect(page.locator('[data-resize] [data-live="capacity"]')).to_have_text(str(pin or before))
        page.reload()
        live(page)
        page.fill("#new-capacity", "17")
        page.click("[data-apply]")
        expect(page.locator(".sizing-bar p")).to_contain_text("Pinned at 17 by hand")
        page.locator(".toast").get_by_role("button").click()
        expect(page.locator("#new-capacity")).to_have_value(str(pin or before))
        sizing = sizing_of(relay, pool_name)
        assert sizing is not None
        assert sizing["pin"] == pin
        assert pool_of(relay, pool_name)["capacity"] == (pin or 10)
    page.get_by_role("button", name="Take the pin at 12 away").click()
    expect(page.locator(".sizing-bar p")).to_contain_text("The size is 12 now.")


def test_undo_on_the_overview_gives_the_size_back_to_the_rule_too(
    relay: RelayServer, open_page: OpenPage, pool_name: str
) -> None:
    make_pool(relay, pool_name, 10)
    set_sizing(relay, pool_name, cooldown_s=3600)
    page = live_overview(sign_in(open_page(), relay, path=f"/?q={pool_name}"))
    for _ in range(2):  # two steps are taken back together
        row_of(page, pool_name).locator(".stepper button").last.click()
    until(lambda: pool_of(relay, pool_name)["capacity"] == 12)
    expect(page.locator(".toast")).to_contain_text("10 → 12")
    page.locator(".toast").get_by_role("button").click()
    until(lambda: pool_of(relay, pool_name)["capacity"] == 10)
    sizing = sizing_of(relay, pool_name)
    assert sizing is not None
    assert sizing["pin"] is None


def live_overview(page: Page) -> Page:
    expect(page.locator("[data-freeze] time")).to_have_text(re.compile(r"\d\d:\d\d:\d\d"))
    return page


def test_the_whole_tab_works_without_javascript(relay: RelayServer, open_page: OpenPage, pool_name: str) -> None:
    make_pool(relay, pool_name, 10)
    samples(relay, pool_name, 2)
    page = open_pool(open_page(java_script_enabled=False), relay, pool_name, "?tab=sizing")
    page.get_by_role("link", name="Adaptive").click()
    page.get_by_label("Algorithm").select_option("vegas")
    page.get_by_role("button", name="Draw the last 15 minutes").click()
    expect(page.locator(".sizing-dry")).to_contain_text("Not to be drawn from the past")
    page.get_by_label("Algorithm").select_option("aimd")
    page.get_by_label("Pinned at").fill("7")
    page.get_by_role("button", name="Dry run from now on").click()
    expect(page.locator(".sizing-bar p")).to_contain_text("A dry run")
    sizing = sizing_of(relay, pool_name)
    assert sizing is not None
    assert (sizing["dry_run"], sizing["pin"], pool_of(relay, pool_name)["capacity"]) == (True, 7, 10)
    page.get_by_label("Pinned at").fill("")
    page.get_by_role("button", name="Switch on").click()
    page.locator("[data-said]").get_by_role("button", name="Undo").click()
    page.get_by_role("tab", name="Sizing").click()
    expect(page.get_by_label("Pinned at")).to_have_value("7")
    page.get_by_role("link", name="Fixed").click()
    page.get_by_role("button", name="Fix it at 10").click()
    expect(page.locator("[data-said]")).to_contain_text("fixed at 10")
    assert sizing_of(relay, pool_name) is None
    page.get_by_role("tab", name="Changes").click()
    expect(page.locator("[data-rows] > tr").first).to_contain_text("sized Adaptive → Fixed")


def test_a_viewer_sees_the_rule_and_its_picture_and_no_form(
    relay: RelayServer, open_page: OpenPage, pool_name: str
) -> None:
    make_pool(relay, pool_name, 10)
    set_sizing(relay, pool_name)
    samples(relay, pool_name, 2)
    add_person(relay, f"vic-{pool_name}", "viewer")
    page = sign_in(
        open_page(locale="zh-CN"), relay, f"vic-{pool_name}", OWN_PASSWORD, f"/pools/{pool_name}/?tab=sizing"
    )
    expect(page.locator(".sizing-bar b")).to_have_text("按占用率，2 到 40。")
    expect(page.locator(".sizing-dry .plot")).to_be_visible()
    assert page.locator("main form:not([data-find])").count() == 0
    answer = page.request.post(
        f"{relay.url}/pools/{pool_name}/sizing/",
        form={
            "act": "fix",
            "csrfmiddlewaretoken": page.locator("[name=csrfmiddlewaretoken]").first.input_value(),
        },
        headers={"Referer": relay.url},
    )
    assert answer.status == 403
    assert sizing_of(relay, pool_name) is not None


def test_a_forged_undo_breaks_nothing(relay: RelayServer, pool_name: str) -> None:
    make_pool(relay, pool_name, 10)
    set_sizing(relay, pool_name)
    with relay.http() as api:
        version = api.get(f"/api/v1/pools/{pool_name}").json()["version"]
    cookie, token = session_cookie(relay), "a" * 32
    with httpx.Client(base_url=relay.url, trust_env=False) as browser:
        headers = {"Cookie": f"{cookie}; csrftoken={token}", "X-Requested-With": "fetch", "Referer": relay.url}
        for path, form in (
            ("resize/", {"capacity": "11", "pin": "0"}),
            ("resize/", {"capacity": "11", "pin": "many"}),
            ("sizing/", {"act": "restore", "was": "{"}),
            ("sizing/", {"act": "restore", "was": "[1]"}),
            ("sizing/", {"act": "restore", "was": '{"policy": 3}'}),
            ("sizing/", {"act": "set", "rule": "fixed"}),
            ("sizing/", {"act": "drop"}),
        ):
            answer = browser.post(
                f"/pools/{pool_name}/{path}", data=form | {"csrfmiddlewaretoken": token}, headers=headers
            )
            assert answer.status_code == 400, (form, answer.text)
            assert answer.json()["detail"]
    found = pool_of(relay, pool_name)
    assert (found["version"], found["capacity"]) == (version, 10)
    assert newest_change(relay, pool_name)["action"] == "sizing"
