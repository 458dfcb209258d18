"""Viewer, operator, admin: what a role may not do is neither offered nor accepted."""

from __future__ import annotations

import re

import pytest
from django.contrib.auth.models import AnonymousUser, Group, User
from django.test import Client
from playwright.sync_api import expect

from dashboard.roles import Role, may, role_of
from relay.permits.models import Pool
from tests.conftest import NewRelay
from tests.dashboard.conftest import OpenPage
from tests.dashboard.people import OWN_PASSWORD, add_person, sign_in
from tests.dashboard.scenes import make_pool, number_of, row_of
from tests.relay_server import RelayServer

FETCH = {"X-Requested-With": "fetch"}


def client_of(*groups: str, superuser: bool = False) -> Client:
    """A signed-in client of a new person."""
    user = User.objects.create_user(f"p{User.objects.count()}", "", "x", is_superuser=superuser)
    user.groups.set(Group.objects.filter(name__in=groups))
    client = Client()
    client.force_login(user)
    return client


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("groups", "superuser", "role"),
    [
        ([], False, "viewer"),
        (["viewer"], False, "viewer"),
        (["operator"], False, "operator"),
        (["viewer", "admin"], False, "admin"),
        ([], True, "admin"),
    ],
)
def test_a_role_is_the_highest_group(groups: list[str], superuser: bool, role: Role) -> None:
    user = User.objects.create_user("somebody", "", "x", is_superuser=superuser)
    user.groups.set(Group.objects.filter(name__in=groups))
    assert role_of(user) == role
    assert [may(user, other) for other in ("viewer", "operator", "admin")] == [
        True,
        role != "viewer",
        role == "admin",
    ]


def test_strangers_have_the_lowest_role() -> None:
    assert role_of(AnonymousUser()) == "viewer"


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("path", "form"),
    [
        ("/pools/", {"name": "new", "capacity": "8"}),
        ("/pools/-/", {"size:gpu:1:8": "9"}),
        ("/pools/-/", {"act": "pause", "pool": "gpu"}),
    ],
)
def test_a_viewer_is_refused_and_an_operator_is_not(path: str, form: dict[str, str]) -> None:
    client_of("admin").post("/pools/", {"name": "gpu", "capacity": "8"})
    before = list(Pool.objects.values())
    viewer = client_of("viewer")
    refused = viewer.post(path, form, headers=FETCH)
    assert (refused.status_code, refused.json()["code"]) == (403, "forbidden")
    assert viewer.post(path, form).status_code == 403
    assert list(Pool.objects.values()) == before
    assert client_of("operator").post(path, form, headers=FETCH).status_code in (200, 204)
    assert list(Pool.objects.values()) != before


@pytest.mark.django_db
def test_whose_session_has_ended_is_told_so_by_page_and_by_script() -> None:
    assert Client().post("/pools/-/", {}).headers["Location"] == "/login/?next=/"
    answer = Client().post("/pools/-/", {}, headers=FETCH)
    assert (answer.status_code, answer.json()["code"]) == (401, "unauthenticated")


def test_a_viewer_sees_everything_and_is_offered_nothing(
    relay: RelayServer, open_page: OpenPage, pool_name: str
) -> None:
    make_pool(relay, pool_name)
    add_person(relay, pool_name, "viewer")
    page = sign_in(open_page(), relay, pool_name, OWN_PASSWORD, f"/?q={pool_name}")
    row = row_of(page, pool_name)
    expect(number_of(row, "capacity")).to_have_text("8")
    with relay.http() as api:
        api.patch(f"/api/v1/pools/{pool_name}", json={"capacity": 11}).raise_for_status()
    expect(number_of(row, "capacity")).to_have_text("11")
    for control in (".stepper", ".new-pool", ".bulk", "[type=checkbox]:not([data-keys-switch])"):
        expect(page.locator(control)).to_have_count(0)
    page.keyboard.press("j")
    page.keyboard.press("p")
    page.keyboard.press("?")
    expect(page.locator("#keys")).not_to_contain_text("resize")


def test_the_generated_password_must_be_changed_and_stays_so_over_a_restart(
    new_relay: NewRelay, open_page: OpenPage
) -> None:
    relay = new_relay()
    page = open_page()
    page.goto(f"{relay.url}/")
    page.fill("#u", "admin")
    page.fill("#p", relay.password)
    page.click(".door-form .btn-main")
    expect(page.locator("h1")).to_have_text("Choose your password")
    page.goto(f"{relay.url}/")
    expect(page).to_have_url(re.compile("/password/$"))
    page.goto(f"{relay.url}/admin/")
    expect(page).to_have_url(re.compile("/password/$"))
    relay.restart()
    page.goto(f"{relay.url}/")
    for new, again, wrong in (
        ("another one", "another two", "The two are not the same"),
        ("12345678", "12345678", "numeric"),
        (relay.password, relay.password, "must differ"),
    ):
        page.fill("#p", new)
        page.fill("#again", again)
        page.click(".door-form .btn-main")
        expect(page.locator("#p-wrong")).to_contain_text(wrong)
    page.fill("#p", OWN_PASSWORD)
    page.fill("#again", OWN_PASSWORD)
    page.click(".door-form .btn-main")
    expect(page.locator("h1")).to_have_text("No pool yet")
    page.get_by_role("button", name="Sign out").first.click()
    page.fill("#u", "admin")
    page.fill("#p", OWN_PASSWORD)
    page.click(".door-form .btn-main")
    expect(page.locator("h1")).to_have_text("No pool yet")
