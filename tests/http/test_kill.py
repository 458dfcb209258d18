"""kill -9 in the middle of traffic: what callers were told holds after it, and nobody's permit is given out twice."""

from __future__ import annotations

import os
import signal
import threading
import time
from typing import Any

import httpx

from tests.conftest import NewRelay
from tests.http.wire import granted, items, make_pool, problem, state
from tests.relay_server import RelayServer

CAPACITY, CALLERS = 10, 16


class Caller(threading.Thread):
    """Acquires and releases until the server is gone; knows what it was told, and what it was never answered."""

    def __init__(self, server: RelayServer, pool: str, number: int, floor: list[int]) -> None:
        super().__init__()
        self.server, self.pool, self.number, self.floor = server, pool, number, floor
        self.held: dict[str, Any] | None = None
        self.releasing = False
        self.key = ""
        self.done = 0

    def run(self) -> None:
        """Until the connection breaks."""
        with self.server.http() as client:
            try:
                while True:
                    self.work(client)
            except httpx.TransportError:
                return

    def work(self, client: httpx.Client) -> None:
        """Holds a permit once."""
        self.key = f"caller-{self.number}-{self.done}"
        headers = {"Idempotency-Key": self.key}
        self.held = granted(client.post(f"{self.pool}/acquire", json={"ttl_s": 600}, headers=headers))
        self.floor.append(self.held["fencing_token"])
        self.releasing = True
        assert client.post(f"/api/v1/leases/{self.held['lease_id']}/release").json()["released"]
        self.held, self.releasing = None, False
        self.done += 1


def test_what_was_answered_before_kill_9_holds_after_it_and_no_permit_is_given_twice(new_relay: NewRelay) -> None:
    server = new_relay()
    with server.http() as admin:
        pool = make_pool(admin, "gpu", CAPACITY)
        for number in range(2):
            tokens: list[int] = []
            callers = [Caller(server, pool, number * CALLERS + n, tokens) for n in range(CALLERS)]
            for caller in callers:
                caller.start()
            time.sleep(1.0)
            os.kill(server.pid, signal.SIGKILL)
            for caller in callers:
                caller.join()
            server.kill9()
            server.start()
            assert sum(caller.done for caller in callers) > 50
            agrees(admin, pool, callers)
            come_back(admin, pool, callers, max(tokens))


def agrees(admin: httpx.Client, pool: str, callers: list[Caller]) -> None:
    """Asserts that every lease that a caller holds lives, and that no more than the capacity does."""
    live = {item["lease_id"]: item for item in items(admin, f"{pool}/leases")}
    assert len(live) == state(admin, pool)["in_use"] <= CAPACITY
    for caller in callers:
        if caller.held is not None and not caller.releasing:
            assert live[caller.held["lease_id"]]["fencing_token"] == caller.held["fencing_token"]


def come_back(admin: httpx.Client, pool: str, callers: list[Caller], highest: int) -> None:
    """The callers repeat what was not answered: the same leases or newer ones, never more than there are permits."""
    before = {item["lease_id"] for item in items(admin, f"{pool}/leases")}
    holding = set()
    for caller in callers:
        body = {"ttl_s": 600, "timeout_s": 0}
        answer = admin.post(f"{pool}/acquire", json=body, headers={"Idempotency-Key": caller.key})
        if answer.status_code == 429:
            problem(answer, 429, "acquire-timeout", retry=True)
            continue
        lease = granted(answer, answer.status_code)
        holding.add(lease["lease_id"])
        if answer.status_code == 200:
            assert lease["lease_id"] in before
        else:
            assert lease["lease_id"] not in before
            assert lease["fencing_token"] > highest
        assert len(holding | before) <= CAPACITY
    live = {item["lease_id"] for item in items(admin, f"{pool}/leases")}
    assert live == holding | before
    for lease_id in live:
        assert admin.post(f"/api/v1/leases/{lease_id}/release").json()["released"]
    assert state(admin, pool)["in_use"] == 0
