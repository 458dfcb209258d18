"""People at a running server: their sessions, and more of them than the first one."""

from __future__ import annotations

import httpx
from playwright.sync_api import Cookie, Page

from tests.relay_server import RelayServer

OWN_PASSWORD = "a password of my own"

_cookies: dict[tuple[str, str], list[Cookie]] = {}  # by server and name


def session_cookie(relay: RelayServer, name: str = "admin", password: str = "") -> str:
    """Signs in and gives the Cookie header's value."""
    with httpx.Client(base_url=relay.url, trust_env=False) as browser:
        browser.get("/login/")
        form = {"username": name, "password": password or relay.password}
        answer = browser.post("/login/", data=form | {"csrfmiddlewaretoken": browser.cookies["csrftoken"]})
        assert answer.status_code == 302, answer.text
        return f"sessionid={browser.cookies['sessionid']}"


def add_person(relay: RelayServer, name: str, role: str) -> None:
    """Makes a person with this role; the password is OWN_PASSWORD."""
    code = (
        "from django.contrib.auth.models import Group, User;"
        f"user = User.objects.create_user({name!r}, '', {OWN_PASSWORD!r});"
        f"user.groups.add(Group.objects.get(name={role!r}))"
    )
    relay.command("shell", "--no-imports", "-c", code)


def sign_in(page: Page, relay: RelayServer, name: str = "admin", password: str = "", path: str = "/") -> Page:
    """Signs in with the browser, choosing a password where the server asks for it, and opens the path.

    A person signs in once per server: hashing a password takes the server most of a second.
    """
    known = _cookies.get((str(relay.data_dir), name))
    if known is None:
        _type_in(page, relay, name, password, path)
        _cookies[(str(relay.data_dir), name)] = page.context.cookies()
    else:
        page.context.add_cookies(known)  # type: ignore[arg-type]
        page.goto(relay.url + path)
    page.wait_for_selector("main.page")
    return page


def _type_in(page: Page, relay: RelayServer, name: str, password: str, path: str) -> None:
    page.goto(relay.url + path)
    page.fill("#u", name)
    page.fill("#p", password or relay.password)
    page.click(".door-form .btn-main")
    page.wait_for_url(lambda url: "/login/" not in url)
    if "/password/" in page.url:
        page.fill("#p", OWN_PASSWORD)
        page.fill("#again", OWN_PASSWORD)
        page.click(".door-form .btn-main")
        relay.password = OWN_PASSWORD
        page.wait_for_url(lambda url: "/password/" not in url)
