"""What tests of pages set up on a running server: pools, and callers that hold, wait and come and go."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from playwright.sync_api import Locator, Page

from tests.relay_server import RelayServer


def make_pool(relay: RelayServer, name: str, capacity: int = 8) -> None:
    """Makes a pool."""
    with relay.http() as api:
        assert api.post("/api/v1/pools", json={"name": name, "capacity": capacity}).status_code == 201


def make_key(relay: RelayServer, tenant: str) -> str:
    """A new tenant's key."""
    with relay.http() as api:
        assert api.post("/api/v1/tenants", json={"name": tenant}).status_code == 201
        answer = api.post(f"/api/v1/tenants/{tenant}/keys", json={"scopes": ["permits"]})
        assert answer.status_code == 201, answer.text
        return str(answer.json()["key"])


def pool_of(relay: RelayServer, name: str) -> dict[str, Any]:
    """A pool as the API shows it."""
    with relay.http() as api:
        found: dict[str, Any] = api.get(f"/api/v1/pools/{name}").json()
        return found


def newest_change(relay: RelayServer, pool: str) -> dict[str, Any]:
    """The pool's newest change."""
    with relay.http() as api:
        items = api.get("/api/v1/changes", params={"limit": 500}).json()["items"]
    found: dict[str, Any] = next(change for change in items if change["pool"] == pool)
    return found


def hold(relay: RelayServer, pool: str, permits: int, key: str | None = None) -> str:
    """Holds permits for the rest of the test; the lease's id."""
    with relay.http(key) as api:
        answer = api.post(f"/api/v1/pools/{pool}/acquire", json={"permits": permits, "ttl_s": 600})
        assert answer.status_code == 201, answer.text
        return str(answer.json()["lease_id"])


@contextmanager
def waiting(relay: RelayServer, pool: str, priority: str = "interactive", permits: int = 1) -> Iterator[None]:
    """Somebody waits for permits until the block ends."""
    body = {"permits": permits, "timeout_s": 60, "priority": priority}

    def run() -> None:
        with relay.http() as api:
            api.post(f"/api/v1/pools/{pool}/acquire", json=body, timeout=90)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    yield
    with relay.http() as api:
        for waiter in api.get(f"/api/v1/pools/{pool}/waiters").json()["items"]:
            api.post(f"/api/v1/waiters/{waiter['waiter_id']}/cancel")
    thread.join(10)


@contextmanager
def traffic(relay: RelayServer, pool: str) -> Iterator[None]:
    """Acquires and releases until the block ends."""
    ended = threading.Event()

    def run() -> None:
        with relay.http() as api:
            while not ended.is_set():
                lease = api.post(f"/api/v1/pools/{pool}/acquire", json={}).json()
                time.sleep(0.02)
                api.post(f"/api/v1/leases/{lease['lease_id']}/release", json={})

    thread = threading.Thread(target=run)
    thread.start()
    yield
    ended.set()
    thread.join()


def row_of(page: Page, pool: str) -> Locator:
    """The pool's row of the overview."""
    return page.locator("[data-pools] > tr", has=page.locator(f'a[href="/pools/{pool}/"]'))


def number_of(row: Locator, column: str) -> Locator:
    """A number of a row; its cells are known by their place only."""
    cells = {
        "use": "td:nth-child(4) > span",
        "qps": "td:nth-child(5) > span",
        "waiting": "td:nth-child(7)",
        "classes": "td:nth-child(n+8):nth-last-child(n+3)",
        "capacity": "td:last-child",
    }
    return row.locator(cells[column])


def overflow(page: Page) -> int:
    """By how many pixels the page is wider than its window."""
    return int(page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth"))
