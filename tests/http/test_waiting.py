"""Waiting for a permit over HTTP: deadlines, leaving, cancelling, changes of the pool meanwhile, and the list of who waits."""

from __future__ import annotations

import os
import signal
import time
from datetime import datetime

import httpx
import pytest

from tests.conftest import NewRelay
from tests.http.conftest import Keys
from tests.http.wire import Call, accepted, granted, head, items, key_of, make_pool, problem, state, until, waiting
from tests.relay_server import RelayServer


@pytest.fixture
def held(admin: httpx.Client, pool: str) -> str:
    """The path of a lease that holds the whole pool."""
    return f"/api/v1/leases/{granted(admin.post(f'{pool}/acquire', json={'permits': 2}))['lease_id']}"


def test_a_try_and_a_wait_in_vain_say_when_to_come_back(admin: httpx.Client, pool: str, held: str) -> None:
    problem(admin.post(f"{pool}/acquire", json={"timeout_s": 0}), 429, "acquire-timeout", retry=True)
    begun = time.monotonic()
    problem(admin.post(f"{pool}/acquire", json={"timeout_s": 0.3}), 429, "acquire-timeout", retry=True)
    assert 0.3 <= time.monotonic() - begun < 0.6
    assert (state(admin, pool)["in_use"], waiting(admin, pool)) == (2, 0)


def test_a_release_reaches_the_waiter_at_once(relay: RelayServer, admin: httpx.Client, pool: str, held: str) -> None:
    waiter = Call(relay, f"{pool}/acquire", {"permits": 2})
    until(lambda: waiting(admin, pool) == 1)
    time.sleep(0.1)
    begun = time.monotonic()
    admin.post(f"{held}/release").raise_for_status()
    lease = granted(waiter.answer())
    assert time.monotonic() - begun < 0.2
    assert 0.1 <= lease["waited_s"] < 5


def test_who_hangs_up_frees_the_place_at_once(relay: RelayServer, admin: httpx.Client, pool: str, held: str) -> None:
    admin.patch(pool, json={"max_waiters": 1}).raise_for_status()
    first = Call(relay, f"{pool}/acquire", {"holder": "first"})
    until(lambda: waiting(admin, pool) == 1)
    problem(admin.post(f"{pool}/acquire"), 429, "queue-full", retry=True)
    first.leave()
    until(lambda: items(admin, f"{pool}/waiters") == [], timeout_s=1)
    second = Call(relay, f"{pool}/acquire", {"holder": "second"})
    until(lambda: waiting(admin, pool) == 1)
    admin.post(f"{held}/release").raise_for_status()
    assert granted(second.answer())["holder"] == "second"
    assert state(admin, pool)["in_use"] == 1


def test_who_hangs_up_in_the_instant_of_the_grant_keeps_no_permit(
    relay: RelayServer, admin: httpx.Client, pool: str
) -> None:
    admin.patch(pool, json={"capacity": 20}).raise_for_status()
    connections = accepted(relay, 20)
    # the server stands still while the requests and the ends of the connections reach it
    os.kill(relay.pid, signal.SIGSTOP)
    for connection in connections:
        connection.sendall(head(relay, "POST", f"{pool}/acquire", "Content-Length: 0"))
        connection.close()
    os.kill(relay.pid, signal.SIGCONT)
    until(lambda: admin.get(pool).json()["qps"] > 0)
    time.sleep(0.2)
    assert state(admin, pool)["in_use"] == 0


def test_who_hangs_up_while_the_permit_is_handed_over_keeps_no_permit(
    relay: RelayServer, admin: httpx.Client, pool: str, held: str
) -> None:
    waiters = [Call(relay, f"{pool}/acquire") for _ in range(10)]
    until(lambda: waiting(admin, pool) == 10)
    os.kill(relay.pid, signal.SIGSTOP)
    release = Call(relay, f"{held}/release")
    for waiter in waiters:
        waiter.leave()
    os.kill(relay.pid, signal.SIGCONT)
    assert release.answer().json()["released"] is True
    until(lambda: (state(admin, pool)["in_use"], waiting(admin, pool)) == (0, 0), timeout_s=1)


def test_a_cancelled_waiter_is_told_so_once(relay: RelayServer, admin: httpx.Client, pool: str, held: str) -> None:
    calls = [Call(relay, f"{pool}/acquire", {"holder": name}) for name in ("a", "b")]
    until(lambda: waiting(admin, pool) == 2)
    by_holder = {item["holder"]: item["waiter_id"] for item in items(admin, f"{pool}/waiters")}
    path = f"/api/v1/waiters/{by_holder['a']}/cancel"
    assert admin.post(path, json={"reason": "too old"}).status_code == 200
    problem(calls[0].answer(), 409, "waiter-cancelled", retry=False)
    problem(admin.post(path), 404, "not-found")
    assert [item["holder"] for item in items(admin, f"{pool}/waiters")] == ["b"]
    calls[1].leave()


def test_the_queue_is_bounded_for_the_pool_and_for_a_tenant_in_it(
    relay: RelayServer, admin: httpx.Client, pool: str, held: str
) -> None:
    key = key_of(admin, "http-bounded", "permits")
    admin.put(f"{pool}/tenants/http-bounded", json={"max_waiters": 1}).raise_for_status()
    admin.patch(pool, json={"max_waiters": 2}).raise_for_status()
    calls = [Call(relay, f"{pool}/acquire", key=key)]
    until(lambda: waiting(admin, pool) == 1)
    with relay.http(key) as bounded:
        problem(bounded.post(f"{pool}/acquire"), 429, "queue-full", retry=True)
    calls.append(Call(relay, f"{pool}/acquire"))
    until(lambda: waiting(admin, pool) == 2)
    problem(admin.post(f"{pool}/acquire"), 429, "queue-full", retry=True)
    assert waiting(admin, pool) == 2
    for call in calls:
        call.leave()


def test_a_shrink_ends_whom_it_can_never_serve_and_a_limit_likewise(
    relay: RelayServer, admin: httpx.Client, pool: str, held: str
) -> None:
    key = key_of(admin, "http-shrunk", "permits")
    big = Call(relay, f"{pool}/acquire", {"permits": 2})
    limited = Call(relay, f"{pool}/acquire", {"permits": 2}, key=key)
    until(lambda: waiting(admin, pool) == 2)
    small = Call(relay, f"{pool}/acquire", {"permits": 1})
    until(lambda: waiting(admin, pool) == 3)
    admin.put(f"{pool}/tenants/http-shrunk", json={"limit": 1}).raise_for_status()
    problem(limited.answer(), 400, "exceeds-tenant-limit", retry=False)
    admin.patch(pool, json={"capacity": 1}).raise_for_status()
    problem(big.answer(), 400, "exceeds-capacity", retry=False)
    admin.post(f"{held}/release").raise_for_status()
    granted(small.answer())


def test_a_deleted_pool_ends_its_waiters_and_its_leases(
    relay: RelayServer, admin: httpx.Client, pool: str, held: str
) -> None:
    waiter = Call(relay, f"{pool}/acquire")
    until(lambda: waiting(admin, pool) == 1)
    problem(admin.delete(pool), 409, "in-use")
    assert admin.delete(f"{pool}?force=true").status_code == 204
    problem(waiter.answer(), 404, "pool-not-found", retry=False)
    problem(admin.post(f"{held}/renew", json={"ttl_s": 5}), 410, "lease-revoked")


def test_a_paused_pool_keeps_its_waiters_and_serves_them_when_it_goes_on(
    relay: RelayServer, admin: httpx.Client, pool: str
) -> None:
    admin.post(f"{pool}/pause").raise_for_status()
    problem(admin.post(f"{pool}/acquire", json={"timeout_s": 0}), 503, "pool-paused", retry=True)
    problem(admin.post(f"{pool}/acquire", json={"timeout_s": 0.1}), 429, "acquire-timeout", retry=True)
    waiter = Call(relay, f"{pool}/acquire")
    until(lambda: waiting(admin, pool) == 1)
    admin.post(f"{pool}/resume").raise_for_status()
    granted(waiter.answer())


def test_a_draining_pool_serves_whom_it_has_and_takes_nobody_new(
    relay: RelayServer, admin: httpx.Client, pool: str, held: str
) -> None:
    waiter = Call(relay, f"{pool}/acquire")
    until(lambda: waiting(admin, pool) == 1)
    admin.post(f"{pool}/drain").raise_for_status()
    problem(admin.post(f"{pool}/acquire"), 503, "pool-draining", retry=True)
    granted(admin.post(f"{held}/renew", json={"ttl_s": 5}), 200)
    admin.post(f"{held}/release").raise_for_status()
    granted(waiter.answer())


def test_the_list_of_waiters_is_the_order_of_service(
    relay: RelayServer, admin: httpx.Client, keys: Keys, pool: str, held: str
) -> None:
    calls = {}
    asked = [("batch", "slow"), ("interactive", "second"), ("critical", "first"), ("interactive", "third")]
    for number, (priority, holder) in enumerate(asked, 1):
        calls[holder] = Call(relay, f"{pool}/acquire", {"priority": priority, "holder": holder, "timeout_s": 15})
        until(lambda number=number: waiting(admin, pool) == number)
    listed = items(admin, f"{pool}/waiters")
    order = ["first", "second", "third", "slow"]
    assert [waiter["holder"] for waiter in listed] == order
    assert [waiter["position"] for waiter in listed] == [1, 2, 3, 4]
    assert [waiter["priority"] for waiter in listed] == ["critical", "interactive", "interactive", "batch"]
    for waiter in listed:
        assert (waiter["tenant"], waiter["permits"], waiter["connected"]) == ("default", 1, True)
        left = datetime.fromisoformat(waiter["deadline"]).timestamp() - time.time()
        assert abs(left + waiter["waited_s"] - 15) < 0.5
    assert [w["holder"] for w in items(admin, f"{pool}/waiters?priority=interactive")] == ["second", "third"]
    with relay.http(keys.read) as reader:
        assert items(reader, f"{pool}/waiters") == []
    assert admin.get(f"{pool}/waiters?limit=2").json()["next"] is not None
    admin.patch(pool, json={"capacity": 3}).raise_for_status()
    for holder in order:  # served one by one in this order
        lease = granted(calls.pop(holder).answer())
        assert {w["holder"] for w in items(admin, f"{pool}/waiters")} == set(calls)
        admin.post(f"/api/v1/leases/{lease['lease_id']}/release").raise_for_status()


def test_sigterm_answers_the_waiters_of_every_pool_and_leaves_the_leases(new_relay: NewRelay) -> None:
    server = new_relay()
    with server.http() as admin:
        pools = [make_pool(admin, f"p{number}", 1) for number in range(3)]
        leases = [granted(admin.post(f"{pool}/acquire", json={"ttl_s": 600}))["lease_id"] for pool in pools]
        keyed = {"Idempotency-Key": "k"}
        calls = [Call(server, f"{pool}/acquire", headers=keyed if n == 0 else {}) for pool in pools for n in range(5)]
        until(lambda: sum(waiting(admin, pool) for pool in pools) == 15)
        os.kill(server.pid, signal.SIGTERM)
        for call in calls:
            problem(call.answer(), 503, "shutting-down", retry=True)
        assert server.wait(10) == 0
        server.start()
        for pool, lease in zip(pools, leases, strict=True):
            assert [item["lease_id"] for item in items(admin, f"{pool}/leases")] == [lease]
            assert waiting(admin, pool) == 0
