"""A person at a running server: a session cookie for WebSocket tests."""

from __future__ import annotations

import httpx

from tests.relay_server import RelayServer


def session_cookie(relay: RelayServer, name: str = "admin") -> str:
    """Signs in and gives the Cookie header's value."""
    with httpx.Client(base_url=relay.url, trust_env=False) as browser:
        browser.get("/login/")
        token = browser.cookies["csrftoken"]
        answer = browser.post(
            "/login/", data={"username": name, "password": relay.password, "csrfmiddlewaretoken": token}
        )
        assert answer.status_code == 302, answer.text
        return f"sessionid={browser.cookies['sessionid']}"
