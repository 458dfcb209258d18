"""Cases 4 (its part of rates) and 5 of the collection of faults that such systems really had, against a running server."""

from __future__ import annotations

import time
from typing import Any

import httpx

from tests.conftest import NewRelay
from tests.http.wire import Call, granted, make_pool, problem, until, waiting
from tests.relay_server import RelayServer

MINUTE_S = 60


def levels(admin: httpx.Client, pool: str) -> dict[str, float]:
    """What the pool's rates would let through now."""
    return {kind: rate["available"] for kind, rate in admin.get(pool).json()["rates"].items()}


def release(admin: httpx.Client, lease: dict[str, Any], **body: Any) -> None:
    """Gives a lease back."""
    assert admin.post(f"/api/v1/leases/{lease['lease_id']}/release", json=body).json()["released"]


def test_case_4_a_call_that_one_limit_refuses_uses_up_none_of_the_others(admin: httpx.Client, pool_name: str) -> None:
    slow = {"requests_per_minute": 1, "requests_burst": 10, "tokens_per_minute": 1, "tokens_burst": 1000}
    pool = make_pool(admin, pool_name, 2, **slow)
    held = granted(admin.post(f"{pool}/acquire", json={"tokens": 600}))
    before = levels(admin, pool)
    for body, status, code in (
        ({"tokens": 500}, 429, "rate-limited"),  # tokens say no: no request, no permit is gone
        ({"tokens": 1001}, 400, "invalid"),
        ({"tokens": 10, "permits": 2}, 429, "acquire-timeout"),  # permits say no: no token is gone
        ({"tokens": 10, "permits": 3}, 400, "exceeds-capacity"),
        ({"tokens": 500, "timeout_s": 0.1}, 429, "acquire-timeout"),
        ({"tokens": 10, "priority": "nobody"}, 400, "invalid"),
        ({"model": "no-such-model", "text": "x"}, 404, "model-not-found"),
    ):
        problem(admin.post(f"{pool}/acquire", json={"timeout_s": 0} | body), status, code)
        shown = admin.get(pool).json()
        assert (shown["in_use"], shown["waiting"]) == (1, 0), body
        after = levels(admin, pool)
        assert all(0 <= after[kind] - before[kind] < 0.5 for kind in before), body
    release(admin, held)
    admin.delete(f"{pool}?force=true").raise_for_status()


def test_case_5_nobody_holds_a_permit_while_waiting_for_a_rate(
    relay: RelayServer, admin: httpx.Client, pool_name: str
) -> None:
    pool = make_pool(admin, pool_name, 1, tokens_per_minute=100 * MINUTE_S, tokens_burst=100)
    first = granted(admin.post(f"{pool}/acquire", json={"tokens": 100}))
    release(admin, first)
    waiter = Call(relay, f"{pool}/acquire", {"tokens": 80, "timeout_s": 10})
    until(lambda: waiting(admin, pool) == 1)
    shown = admin.get(pool).json()
    assert (shown["in_use"], shown["available"]) == (0, 1)
    (listed,) = admin.get(f"{pool}/waiters").json()["items"]
    assert (listed["blocked_by"], listed["tokens"]) == ("rate", 80)
    assert listed["ready_at"] > listed["deadline"][:11]
    lease = granted(waiter.answer())
    assert 0.3 < lease["waited_s"] < 2
    admin.delete(f"{pool}?force=true").raise_for_status()


def test_case_5_after_a_kill_no_rate_is_exceeded_and_everything_moves(new_relay: NewRelay) -> None:
    server = new_relay()
    with server.http() as admin:
        pool = make_pool(admin, "rated", 2, tokens_per_minute=MINUTE_S, tokens_burst=200)
        held = granted(admin.post(f"{pool}/acquire", json={"tokens": 50, "ttl_s": 600}))
        calls = [Call(server, f"{pool}/acquire", {"tokens": 200, "timeout_s": 60}) for _ in range(3)]
        until(lambda: waiting(admin, pool) == 3)
    server.kill9()
    for call in calls:
        call.leave()
    down = time.monotonic()
    server.start()
    with server.http() as admin:
        shown = admin.get(pool).json()
        assert (shown["in_use"], shown["waiting"]) == (1, 0)
        release(admin, held, tokens=0)  # charged before the kill: it gives nothing back now
        came_in = levels(admin, pool)["tokens"]  # it began empty, though 150 were left before
        assert came_in <= time.monotonic() - down
        lease = granted(admin.post(f"{pool}/acquire", json={"tokens": int(came_in) + 2, "timeout_s": 20}))
        assert 0.9 < lease["waited_s"] < 3
        release(admin, lease)
        assert admin.get(pool).json()["in_use"] == 0
