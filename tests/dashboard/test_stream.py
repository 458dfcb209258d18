"""The live stream in a real Chromium: cut and healed, frozen, resting in a hidden tab, ended with the session."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import Page, WebSocket, expect
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import ClientConnection, connect

from tests.conftest import NewRelay
from tests.dashboard.conftest import OpenPage
from tests.dashboard.people import OWN_PASSWORD, add_person, session_cookie, sign_in
from tests.dashboard.scenes import make_pool, number_of, row_of, traffic
from tests.relay_server import RelayServer


def test_a_lost_stream_is_said_and_found_again(new_relay: NewRelay, open_page: OpenPage) -> None:
    relay = new_relay()
    make_pool(relay, "gpu")
    page = sign_in(open_page(), relay)
    expect(page.locator("[data-freeze]")).to_contain_text("Live")
    relay.kill9()
    banner = page.locator("[data-banner]")
    expect(banner).to_be_visible()
    expect(banner).to_contain_text(re.compile(r"Live data stopped at \d\d:\d\d:\d\d"))
    expect(banner).to_contain_text(re.compile(r"Next try in \d+ s"))
    expect(page.locator("[data-freeze]")).to_contain_text("Lost")
    expect(page.locator("html")).to_have_class("is-stale")
    relay.start()
    page.click("[data-retry]")
    expect(banner).to_be_hidden()
    expect(page.locator("html")).not_to_have_class("is-stale")
    expect(page.locator("[data-freeze]")).to_contain_text("Live")


def test_frozen_numbers_stand_still_until_they_are_thawed(
    relay: RelayServer, open_page: OpenPage, pool_name: str
) -> None:
    make_pool(relay, pool_name)
    page = sign_in(open_page(), relay, path=f"/?q={pool_name}")
    mark = page.locator("[data-freeze]")
    expect(mark).to_be_visible()
    page.keyboard.press(" ")
    expect(mark).to_have_attribute("aria-pressed", "true")
    expect(mark).to_contain_text("Frozen")
    ticks = count_ticks(page)
    with traffic(relay, pool_name):
        ticks.wait_for_more(2)
        expect(number_of(row_of(page, pool_name), "qps")).to_have_text("0")
        mark.click()
        expect(number_of(row_of(page, pool_name), "qps")).not_to_have_text("0")
    expect(mark).to_contain_text("Live")


class Ticks:
    """The frames that a page's newest socket has received."""

    def __init__(self, page: Page) -> None:
        self._page = page
        self.count = 0

    def received(self, frame: object) -> None:
        self.count += 1

    def wait_for_more(self, more: int) -> None:
        wanted = self.count + more
        while self.count < wanted:
            self._page.wait_for_timeout(50)


def count_ticks(page: Page) -> Ticks:
    """Counts on a fresh socket, for one that is open already can't be listened to."""
    ticks = Ticks(page)
    page.on("websocket", lambda socket: socket.on("framereceived", ticks.received))
    frozen = page.locator("[data-freeze]").get_attribute("aria-pressed") == "true"
    hide(page, True)
    hide(page, False)
    ticks.wait_for_more(1)
    assert page.locator("[data-freeze]").get_attribute("aria-pressed") == str(frozen).lower()
    return ticks


def hide(page: Page, hidden: bool) -> None:
    """As the browser does with a tab that is not looked at; a headless one shows every tab."""
    page.evaluate(
        """(hidden) => {
            Object.defineProperty(document, "hidden", { configurable: true, get: () => hidden });
            document.dispatchEvent(new Event("visibilitychange"));
        }""",
        hidden,
    )


def test_a_hidden_tab_stops_and_takes_up_again_with_what_it_missed(
    relay: RelayServer, open_page: OpenPage, pool_name: str
) -> None:
    page = open_page()
    sockets: list[WebSocket] = []
    page.on("websocket", lambda socket: sockets.append(socket))
    sign_in(page, relay)
    expect(page.locator("[data-freeze]")).to_be_visible()
    requests: list[str] = []
    page.on("request", lambda request: requests.append(request.url))
    hide(page, True)
    while not sockets[-1].is_closed():
        page.wait_for_timeout(20)
    make_pool(relay, pool_name)
    page.wait_for_timeout(1500)  # nothing to wait for: it must stay still
    assert (len(sockets), requests) == (1, [])
    expect(row_of(page, pool_name)).to_have_count(0)
    expect(page.locator("[data-banner]")).to_be_hidden()
    hide(page, False)
    expect(row_of(page, pool_name)).to_have_count(1)
    assert len(sockets) == 2


def close_code(socket: ClientConnection) -> int:
    """The code with which the server ends the stream; its checks are 5 s apart."""
    with pytest.raises(ConnectionClosed) as closed:
        any(not socket.recv(timeout=5) for _ in range(20))
    assert closed.value.rcvd is not None
    return closed.value.rcvd.code


def live(relay: RelayServer, cookie: str) -> ClientConnection:
    """A stream with this session."""
    return connect(f"ws://127.0.0.1:{relay.port}/ws/live/", additional_headers={"Cookie": cookie}, proxy=None)


def test_the_stream_ends_with_its_session_and_with_its_person(relay: RelayServer, pool_name: str) -> None:
    add_person(relay, pool_name, "viewer")
    signed_out, shut_out, standing = (
        session_cookie(relay),
        session_cookie(relay, pool_name, OWN_PASSWORD),
        session_cookie(relay),
    )
    with live(relay, signed_out) as first, live(relay, shut_out) as second, live(relay, standing) as third:
        for socket in (first, second, third):
            assert socket.recv(timeout=5)
        sign_out(relay, signed_out)
        shut = f"from django.contrib.auth.models import User; User.objects.filter(username={pool_name!r}).update(is_active=False)"
        relay.command("shell", "--no-imports", "-c", shut)
        assert close_code(first) == 4401
        assert close_code(second) == 4401
        assert third.recv(timeout=5)


def sign_out(relay: RelayServer, cookie: str) -> None:
    """Ends a session, as its person would elsewhere."""
    with relay.http("") as browser:
        page = browser.get("/", headers={"Cookie": cookie})
        token = re.search(r'name="csrfmiddlewaretoken" value="([^"]+)"', page.text)
        assert token is not None
        csrf = browser.cookies["csrftoken"]
        browser.cookies.clear()
        headers = {"Cookie": f"{cookie}; csrftoken={csrf}"}
        answer = browser.post("/logout/", data={"csrfmiddlewaretoken": token.group(1)}, headers=headers)
        assert answer.status_code == 302
