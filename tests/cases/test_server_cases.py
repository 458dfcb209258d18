"""Cases 1, 6, 7, 12 and 18 of the collection of faults that such systems really had, against a running server."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import httpx
import pytest
from websockets.sync.client import connect

from tests.dashboard.people import session_cookie
from tests.http.wire import Call, gauge, granted, items, key_of, make_pool, problem, until, waiting
from tests.relay_server import RelayServer

TTL_S = 3.0
# a worker as users write them: it acquires, says so, and works for ever
WORKER = """
import http.client, sys, time
port, key, path, body = sys.argv[1:]
connection = http.client.HTTPConnection("127.0.0.1", int(port))
headers = {"Authorization": "Bearer " + key, "Content-Type": "application/json"}
connection.request("POST", path, body, headers)
answer = connection.getresponse()
print(answer.status, answer.read().decode(), flush=True)
time.sleep(600)
"""


@contextmanager
def worker(relay: RelayServer, pool: str, **body: Any) -> Iterator[subprocess.Popen[str]]:
    """A worker's process; it is killed at the end if the test has not done so."""
    arguments = [str(relay.port), relay.api_key, f"{pool}/acquire", json.dumps(body)]
    process = subprocess.Popen([sys.executable, "-c", WORKER, *arguments], stdout=subprocess.PIPE, text=True)
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


@pytest.fixture
def pool(admin: httpx.Client, pool_name: str) -> Iterator[str]:
    """The path of a pool of 1, which is deleted at the end."""
    path = make_pool(admin, pool_name, 1)
    yield path
    assert admin.delete(f"{path}?force=true").status_code in (204, 404)


def name_of(pool: str) -> str:
    """The name in a pool's path."""
    return pool.rsplit("/", 1)[1]


def series(admin: httpx.Client, pool: str, name: str, **labels: str) -> float:
    """One series of a pool."""
    return gauge(admin.get("/metrics").text, name, pool=name_of(pool), **labels)


def test_case_1_the_slot_of_a_killed_holder_comes_back_within_its_ttl(
    relay: RelayServer, admin: httpx.Client, pool: str
) -> None:
    with worker(relay, pool, ttl_s=TTL_S, holder="dies") as holder:
        assert holder.stdout is not None
        status, _, lease = holder.stdout.readline().partition(" ")
        assert status == "201", lease
        waiter = Call(relay, f"{pool}/acquire", {"holder": "next"})
        until(lambda: waiting(admin, pool) == 1)
        holder.kill()
        killed = time.monotonic()
        seen: list[int] = []
        answers: list[httpx.Response] = []
        reader = threading.Thread(target=lambda: answers.append(waiter.answer()))
        reader.start()
        while reader.is_alive():
            seen.append(admin.get(pool).json()["in_use"])
            assert time.monotonic() - killed < TTL_S + 1
            time.sleep(0.02)
    assert granted(answers[0])["holder"] == "next"
    assert set(seen) == {1}
    assert [item["holder"] for item in items(admin, f"{pool}/leases")] == ["next"]
    assert series(admin, pool, "relay_leases_ended_total", reason="expired") == 1
    dead = f"/api/v1/leases/{json.loads(lease)['lease_id']}"
    problem(admin.post(f"{dead}/renew", json={"ttl_s": 5}), 410, "lease-expired")
    assert admin.post(f"{dead}/release").json() == {"released": False, "reason": "expired"}
    assert series(admin, pool, "relay_pool_permits_in_use") == 1


def test_case_1_the_place_of_a_killed_waiter_goes_to_the_next(
    relay: RelayServer, admin: httpx.Client, pool: str
) -> None:
    lease = granted(admin.post(f"{pool}/acquire"))
    with worker(relay, pool, holder="dies") as waiter:
        until(lambda: waiting(admin, pool) == 1)
        behind = Call(relay, f"{pool}/acquire", {"holder": "next"})
        until(lambda: waiting(admin, pool) == 2)
        waiter.kill()
        until(lambda: [item["holder"] for item in items(admin, f"{pool}/waiters")] == ["next"], timeout_s=1)
    admin.post(f"/api/v1/leases/{lease['lease_id']}/release").raise_for_status()
    assert granted(behind.answer())["holder"] == "next"
    assert series(admin, pool, "relay_pool_permits_in_use") == 1


def test_case_6_a_size_below_what_is_held_evicts_nobody_and_is_never_negative(
    relay: RelayServer, admin: httpx.Client, pool: str, pool_name: str
) -> None:
    admin.patch(pool, json={"capacity": 10}).raise_for_status()
    other = make_pool(admin, f"{pool_name}-other", 3)
    leases = [granted(admin.post(f"{pool}/acquire", json={"permits": n})) for n in (2, 1, 1, 1, 1, 1, 1)]
    shown = admin.patch(pool, json={"capacity": 3}).json()
    assert (shown["in_use"], shown["available"], shown["over_limit"], shown["health"]) == (8, 0, 5, "shrinking")
    assert len(items(admin, f"{pool}/leases")) == len(leases)
    waiter = Call(relay, f"{pool}/acquire")
    until(lambda: waiting(admin, pool) == 1)
    in_use = 8
    for lease in leases[:-2]:
        assert waiting(admin, pool) == 1  # nobody is served while 3 or more are held
        assert granted(admin.post(f"/api/v1/leases/{lease['lease_id']}/renew", json={"ttl_s": 90}), 200)
        admin.post(f"/api/v1/leases/{lease['lease_id']}/release").raise_for_status()
        in_use -= lease["permits"]
        shown = admin.get(pool).json()
        after = max(in_use, 3) if in_use >= 3 else 3
        assert (shown["in_use"], shown["available"], shown["over_limit"]) == (after, 0, max(0, in_use - 3))
        assert series(admin, pool, "relay_pool_permits_in_use") == after
        assert series(admin, pool, "relay_pool_capacity") == 3
        assert series(admin, pool, "relay_pool_drift") == 0
    granted(waiter.answer())
    for _ in range(3):  # other pools as always
        granted(admin.post(f"{other}/acquire", json={"timeout_s": 0}))
    problem(admin.post(f"{other}/acquire", json={"timeout_s": 0}), 429, "acquire-timeout")
    admin.delete(f"{other}?force=true").raise_for_status()


def test_case_7_what_can_never_be_granted_is_refused_at_once_and_blocks_nobody(
    relay: RelayServer, admin: httpx.Client, pool: str
) -> None:
    admin.patch(pool, json={"capacity": 4}).raise_for_status()
    begun = time.monotonic()
    problem(admin.post(f"{pool}/acquire", json={"permits": 5, "timeout_s": 30}), 400, "exceeds-capacity", retry=False)
    assert time.monotonic() - begun < 1
    lease = granted(admin.post(f"{pool}/acquire", json={"permits": 3}))
    big = Call(relay, f"{pool}/acquire", {"permits": 4})
    until(lambda: waiting(admin, pool) == 1)
    small = [Call(relay, f"{pool}/acquire", {"permits": 1}) for _ in range(2)]
    until(lambda: waiting(admin, pool) == 3)
    admin.patch(pool, json={"capacity": 3}).raise_for_status()
    problem(big.answer(), 400, "exceeds-capacity", retry=False)
    admin.post(f"/api/v1/leases/{lease['lease_id']}/release").raise_for_status()
    for call in small:
        granted(call.answer())
    assert (admin.get(pool).json()["in_use"], waiting(admin, pool)) == (2, 0)


def test_case_7_a_request_above_its_tenants_limit_likewise(relay: RelayServer, admin: httpx.Client, pool: str) -> None:
    key = key_of(admin, "case-7", "permits")
    admin.patch(pool, json={"capacity": 4}).raise_for_status()
    admin.put(f"{pool}/tenants/case-7", json={"limit": 2}).raise_for_status()
    with relay.http(key) as limited:
        problem(limited.post(f"{pool}/acquire", json={"permits": 3}), 400, "exceeds-tenant-limit", retry=False)
        granted(limited.post(f"{pool}/acquire", json={"permits": 1}))
    blocked = Call(relay, f"{pool}/acquire", {"permits": 2}, key=key)
    until(lambda: waiting(admin, pool) == 1)
    granted(admin.post(f"{pool}/acquire", json={"permits": 3, "timeout_s": 0}))  # it blocks nobody else
    admin.put(f"{pool}/tenants/case-7", json={"limit": 1}).raise_for_status()
    problem(blocked.answer(), 400, "exceeds-tenant-limit", retry=False)


REASONS = ("paused", "paused-later", "full", "keyed", "saving", "limit")


def test_case_12_nobody_is_kept_past_the_deadline_whatever_the_wait_is_for(
    relay: RelayServer, admin: httpx.Client, pool_name: str
) -> None:
    key = key_of(admin, "case-12", "permits")
    pools = {why: make_pool(admin, f"{pool_name}-{why}", 1) for why in REASONS}
    standing = [call for why in REASONS for call in prepare(relay, admin, pools[why], why, key)]
    waits: dict[str, float] = {}

    def wait(why: str) -> None:
        begun = time.monotonic()
        headers = {"Idempotency-Key": "k"} if why == "keyed" else {}
        call = Call(relay, f"{pools[why]}/acquire", {"timeout_s": 2}, key=key, headers=headers)
        problem(call.answer(), 429, "acquire-timeout", retry=True)
        waits[why] = time.monotonic() - begun

    threads = [threading.Thread(target=wait, args=(why,)) for why in REASONS]
    for thread in threads:
        thread.start()
    until(lambda: waiting(admin, pools["paused-later"]) == 1)
    admin.post(f"{pools['paused-later']}/pause").raise_for_status()
    for thread in threads:
        thread.join()
    assert set(waits) == set(REASONS)
    assert all(2.0 <= seconds <= 2.2 for seconds in waits.values()), waits
    for call in standing:
        call.leave()
    for pool in pools.values():
        admin.delete(f"{pool}?force=true").raise_for_status()


def prepare(relay: RelayServer, admin: httpx.Client, pool: str, why: str, key: str) -> list[Call]:
    """Makes a pool serve nobody for this reason; the calls that stand in it."""
    if why == "paused":
        admin.post(f"{pool}/pause").raise_for_status()
    elif why == "saving":  # a larger one in front holds the free permit back
        granted(admin.post(f"{pool}/acquire"))
        admin.patch(pool, json={"capacity": 2}).raise_for_status()
        large = Call(relay, f"{pool}/acquire", {"permits": 2, "priority": "critical"})
        until(lambda: waiting(admin, pool) == 1)
        return [large]
    elif why == "limit":
        admin.patch(pool, json={"capacity": 9}).raise_for_status()
        admin.put(f"{pool}/tenants/case-12", json={"limit": 1}).raise_for_status()
        with relay.http(key) as limited:
            granted(limited.post(f"{pool}/acquire"))
    else:
        granted(admin.post(f"{pool}/acquire"))
    return []


def test_case_18_each_number_is_the_same_on_the_page_in_the_api_and_in_the_metrics(
    relay: RelayServer, admin: httpx.Client, pool: str
) -> None:
    admin.patch(pool, json={"capacity": 6, "reconnect_grace_s": 60}).raise_for_status()
    for permits in (1, 2, 3):
        granted(admin.post(f"{pool}/acquire", json={"permits": permits}))
    calls = [Call(relay, f"{pool}/acquire", {"holder": f"w{n}"}) for n in range(3)]
    absent = Call(relay, f"{pool}/acquire", {"holder": "absent"}, headers={"Idempotency-Key": "absent"})
    until(lambda: waiting(admin, pool) == 4)
    absent.leave()
    until(lambda: waiting(admin, pool) == 3)
    for capacity in (6, 4):
        admin.patch(pool, json={"capacity": capacity}).raise_for_status()
        agree(relay, admin, pool, capacity)
    for call in calls:
        call.leave()


def agree(relay: RelayServer, admin: httpx.Client, pool: str, capacity: int) -> None:
    """Asserts that every place shows 6 permits in use and 3 waiting."""
    shown = admin.get(pool).json()
    (listed,) = [item for item in items(admin, "/api/v1/pools") if item["name"] == name_of(pool)]
    numbers = ("capacity", "in_use", "available", "over_limit", "waiting")
    assert [shown[name] for name in numbers] == [listed[name] for name in numbers] == [capacity, 6, 0, 6 - capacity, 3]
    assert sum(item["permits"] for item in items(admin, f"{pool}/leases")) == 6
    waiters = items(admin, f"{pool}/waiters")
    assert [(item["holder"], item["connected"]) for item in waiters] == [
        *((f"w{number}", True) for number in range(3)),
        ("absent", False),
    ]
    assert series(admin, pool, "relay_pool_capacity") == capacity
    assert series(admin, pool, "relay_pool_permits_in_use") == 6
    assert series(admin, pool, "relay_tenant_permits_in_use", tenant="default") == 6
    assert series(admin, pool, "relay_pool_waiters") == 3
    assert series(admin, pool, "relay_pool_drift") == 0
    values = live_values(relay, pool, capacity)
    assert (values["in_use"], values["waiting"]) == (6, 3)


def live_values(relay: RelayServer, pool: str, capacity: int) -> dict[str, Any]:
    """What the live page is sent of a pool, in the first sample with this capacity."""
    cookie = {"Cookie": session_cookie(relay)}
    url = f"ws://127.0.0.1:{relay.port}/ws/live/"
    with connect(url, additional_headers=cookie, origin=relay.url, proxy=None) as socket:  # type: ignore[arg-type]
        fields = json.loads(socket.recv(timeout=5))["fields"]
        while True:
            received = json.loads(socket.recv(timeout=5))
            if received["type"] == "sample":
                values = dict(zip(fields, received["pools"][name_of(pool)], strict=True))
                if values["capacity"] == capacity:
                    return values
