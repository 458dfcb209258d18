"""The control plane against a running server: what is written works at once, and what runs is shown."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from tests.control.cast import ALL
from tests.relay_server import RelayServer


@pytest.fixture
def admin(relay: RelayServer) -> Iterator[httpx.Client]:
    """The first start's key: all scopes."""
    with relay.http() as client:
        yield client


@pytest.fixture
def pool(admin: httpx.Client, pool_name: str) -> Iterator[str]:
    """A pool of 2, deleted at the end."""
    assert admin.post("/api/v1/pools", json={"name": pool_name, "capacity": 2}).status_code == 201
    yield f"/api/v1/pools/{pool_name}"
    assert admin.delete(f"/api/v1/pools/{pool_name}?force=true").status_code in (204, 404)


def key_of(admin: httpx.Client, tenant: str, *scopes: str) -> str:
    """A new key of a tenant, which is made if it is missing."""
    assert admin.post("/api/v1/tenants", json={"name": tenant}).status_code in (201, 409)
    answer = admin.post(f"/api/v1/tenants/{tenant}/keys", json={"scopes": scopes})
    assert answer.status_code == 201, answer.text
    return str(answer.json()["key"])


def problem(answer: httpx.Response, status: int, code: str) -> dict[str, Any]:
    assert answer.status_code == status, answer.text
    assert answer.headers["content-type"] == "application/problem+json"
    document: dict[str, Any] = answer.json()
    assert document["code"] == code
    return document


def until(holds: Any, timeout_s: float = 5.0) -> None:
    """Waits for a condition of another thread."""
    deadline = time.monotonic() + timeout_s
    while not holds():
        assert time.monotonic() < deadline, "did not come true"
        time.sleep(0.01)


def test_a_pool_shows_its_live_numbers(admin: httpx.Client, pool: str) -> None:
    idle = admin.get(pool).json()
    assert (idle["in_use"], idle["available"], idle["waiting"], idle["health"]) == (0, 2, 0, "idle")
    assert (idle["average_wait_s"], idle["window_s"], idle["qps"]) == (None, 60, 0)
    assert admin.post(f"{pool}/acquire", json={"permits": 2}).status_code == 201
    smaller = admin.patch(pool, json={"capacity": 1}).json()
    assert (smaller["in_use"], smaller["available"], smaller["over_limit"]) == (2, 0, 1)
    assert smaller["health"] == "shrinking"
    assert smaller["qps"] > 0
    assert smaller["average_wait_s"] >= 0
    assert admin.post(f"{pool}/pause").json()["health"] == "paused"
    name = pool.rsplit("/", 1)[1]
    listed = {item["name"]: item for item in admin.get("/api/v1/pools?limit=500").json()["items"]}
    assert listed[name]["in_use"] == 2


def test_a_change_works_before_it_is_answered(admin: httpx.Client, pool: str) -> None:
    for capacity in (1, 5, 2, 7):
        assert admin.patch(pool, json={"capacity": capacity}).status_code == 200
        problem(admin.post(f"{pool}/acquire", json={"permits": capacity + 1}), 400, "exceeds-capacity")
        lease = admin.post(f"{pool}/acquire", json={"permits": capacity, "timeout_s": 0})
        assert lease.status_code == 201, lease.text
        admin.post(f"/api/v1/leases/{lease.json()['lease_id']}/release")
    admin.post(f"{pool}/drain")
    problem(admin.post(f"{pool}/acquire", json={}), 503, "pool-draining")
    admin.post(f"{pool}/resume")
    assert admin.post(f"{pool}/acquire", json={}).status_code == 201


def test_a_share_limits_its_tenant_at_once(relay: RelayServer, admin: httpx.Client, pool: str) -> None:
    with relay.http(key_of(admin, "limited", "permits")) as limited:
        assert admin.put(f"{pool}/tenants/limited", json={"limit": 1, "max_priority": "batch"}).status_code == 200
        problem(limited.post(f"{pool}/acquire", json={"permits": 2, "priority": "batch"}), 400, "exceeds-tenant-limit")
        problem(limited.post(f"{pool}/acquire", json={"priority": "critical"}), 400, "invalid")
        assert admin.delete(f"{pool}/tenants/limited").status_code == 204
        assert limited.post(f"{pool}/acquire", json={"permits": 2, "priority": "critical"}).status_code == 201


def test_a_pool_in_use_is_deleted_by_force_only(admin: httpx.Client, pool: str) -> None:
    lease = admin.post(f"{pool}/acquire", json={"permits": 2}).json()["lease_id"]
    problem(admin.delete(pool), 409, "in-use")
    assert admin.get(pool).json()["in_use"] == 2
    assert admin.delete(f"{pool}?force=true").status_code == 204
    problem(admin.get(pool), 404, "pool-not-found")
    problem(admin.post(f"{pool}/acquire", json={}), 404, "pool-not-found")
    problem(admin.post(f"/api/v1/leases/{lease}/renew", json={"ttl_s": 5}), 410, "lease-revoked")
    name = pool.rsplit("/", 1)[1]
    assert admin.post("/api/v1/pools", json={"name": name, "capacity": 1}).json()["in_use"] == 0


def test_who_holds_and_who_waits(relay: RelayServer, admin: httpx.Client, pool: str) -> None:
    with relay.http(key_of(admin, "other", "permits", "read")) as other:
        held = other.post(f"{pool}/acquire", json={"permits": 2, "holder": "worker-1", "metadata": {"job": 7}}).json()
        answers: list[httpx.Response] = []

        def wait() -> None:
            with relay.http() as waiting:
                answers.append(waiting.post(f"{pool}/acquire", json={"priority": "batch", "holder": "worker-2"}))

        thread = threading.Thread(target=wait)
        thread.start()
        until(lambda: admin.get(pool).json()["waiting"] == 1)
        (lease,) = admin.get(f"{pool}/leases").json()["items"]
        assert lease["lease_id"] == held["lease_id"]
        assert (lease["tenant"], lease["holder"], lease["metadata"]) == ("other", "worker-1", {"job": 7})
        (waiter,) = admin.get(f"{pool}/waiters").json()["items"]
        assert (waiter["tenant"], waiter["priority"], waiter["position"]) == ("default", "batch", 1)
        assert waiter["connected"] is True
        # the other tenant's reader sees its own only
        assert len(other.get(f"{pool}/leases").json()["items"]) == 1
        assert other.get(f"{pool}/waiters").json() == {"items": [], "next": None}
        assert other.get(f"{pool}/waiters?tenant=default").json()["items"] == []
        # filters
        assert admin.get(f"{pool}/leases?tenant=default").json()["items"] == []
        assert len(admin.get(f"{pool}/waiters?priority=batch&tenant=default").json()["items"]) == 1
        # both can be ended by an operator only
        problem(other.post(f"/api/v1/waiters/{waiter['waiter_id']}/cancel"), 403, "forbidden")
        assert admin.post(f"/api/v1/waiters/{waiter['waiter_id']}/cancel").status_code == 200
        thread.join(5)
        problem(answers[0], 409, "waiter-cancelled")
        problem(admin.post(f"/api/v1/waiters/{waiter['waiter_id']}/cancel"), 404, "not-found")
        path = f"/api/v1/leases/{held['lease_id']}/revoke"
        problem(other.post(path), 403, "forbidden")
        assert admin.post(path, json={"reason": "stuck"}).json() == {"revoked": True}
        assert admin.post(path).json() == {"revoked": False}
        problem(admin.post("/api/v1/leases/nothing/revoke"), 404, "lease-not-found")
        problem(other.post(f"/api/v1/leases/{held['lease_id']}/renew", json={"ttl_s": 5}), 410, "lease-revoked")


def test_leases_come_in_pages(admin: httpx.Client, pool: str) -> None:
    admin.patch(pool, json={"capacity": 5})
    made = [admin.post(f"{pool}/acquire", json={}).json()["lease_id"] for _ in range(5)]
    found, path = [], f"{pool}/leases?limit=2"
    while path:
        page = admin.get(path).json()
        found += [item["lease_id"] for item in page["items"]]
        path = f"{pool}/leases?limit=2&cursor={page['next']}" if page["next"] else ""
    assert found == made


def test_what_leases_name_is_not_deleted(relay: RelayServer, admin: httpx.Client, pool: str) -> None:
    key = key_of(admin, "leaving", "permits")
    assert admin.post("/api/v1/priority-classes", json={"name": "leaving", "rank": 9}).status_code == 201
    with relay.http(key) as leaving:
        lease = leaving.post(f"{pool}/acquire", json={"priority": "leaving"}).json()["lease_id"]
    key_id = key.split("_")[1]
    assert admin.delete(f"/api/v1/tenants/leaving/keys/{key_id}").status_code == 204
    problem(admin.delete("/api/v1/tenants/leaving"), 409, "in-use")
    problem(admin.delete("/api/v1/priority-classes/leaving"), 409, "in-use")
    admin.post(f"/api/v1/leases/{lease}/revoke")
    assert admin.delete("/api/v1/tenants/leaving").status_code == 204
    assert admin.delete("/api/v1/priority-classes/leaving").status_code == 204


def test_a_key_works_and_ends_at_once(relay: RelayServer, admin: httpx.Client, pool: str) -> None:
    key = key_of(admin, "brief", "permits")
    with relay.http(key) as brief:
        assert brief.post(f"{pool}/acquire", json={}).status_code == 201
        assert admin.delete(f"/api/v1/tenants/brief/keys/{key.split('_')[1]}").status_code == 204
        problem(brief.post(f"{pool}/acquire", json={}), 401, "unauthenticated")
        problem(brief.get("/api/v1/pools"), 401, "unauthenticated")


def test_a_key_of_the_command_works_within_a_second(relay: RelayServer, pool: str) -> None:
    key = relay.command("create_api_key", "--tenant", "by-command", "--scopes", ",".join(ALL)).strip()
    deadline = time.monotonic() + 1.0
    with relay.http(key) as client:
        while client.get(pool).status_code == 401:
            assert time.monotonic() < deadline, "the key does not work after a second"
            time.sleep(0.02)
        assert client.get(pool).status_code == 200


def test_history_has_samples_and_changes(relay: RelayServer, admin: httpx.Client, pool: str) -> None:
    admin.patch(pool, json={"capacity": 3, "reason": "more"})
    until(lambda: admin.get(f"{pool}/history?range=5m").json()["rows"])
    history = admin.get(f"{pool}/history").json()
    assert history["step_s"] > 0
    assert all(len(row) == len(history["fields"]) for row in history["rows"])
    assert [change["action"] for change in history["changes"]] == ["create", "update"]
    assert history["changes"][1]["reason"] == "more"
    for wrong in ("1", "1w", "-1h", "", "0s", "999999d"):
        problem(admin.get(f"{pool}/history?range={wrong}"), 400, "invalid")
    with relay.http(key_of(admin, "watcher", "read")) as watcher:
        assert watcher.get(f"{pool}/history").json()["changes"] == []


def test_a_lost_update_is_refused_under_concurrent_writers(relay: RelayServer, admin: httpx.Client, pool: str) -> None:
    statuses: list[int] = []

    def write(capacity: int) -> None:
        with relay.http() as client:
            answer = client.patch(pool, json={"capacity": capacity}, headers={"If-Match": '"1"'})
            statuses.append(answer.status_code)

    threads = [threading.Thread(target=write, args=(10 + number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(statuses) == [200] + [412] * 7
    assert admin.get(pool).json()["version"] == 2
