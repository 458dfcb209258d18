"""POST /leases/{id}/resize, yield and resume, nested acquires: what callers are told, and what holds after kill -9."""

from __future__ import annotations

import httpx
import pytest

from tests.conftest import NewRelay
from tests.http.conftest import Keys
from tests.http.wire import Call, gauge, granted, items, make_pool, problem, state, until, waiting
from tests.relay_server import RelayServer


def lease_of(admin: httpx.Client, pool: str, **body: object) -> str:
    """The path of a new lease."""
    return f"/api/v1/leases/{granted(admin.post(f'{pool}/acquire', json=body))['lease_id']}"


def test_a_lease_shrinks_and_grows_with_the_same_id_and_token(
    relay: RelayServer, admin: httpx.Client, pool: str
) -> None:
    lease = lease_of(admin, pool, permits=2)
    before = granted(admin.get(lease), 200)
    call = Call(relay, f"{pool}/acquire", {"timeout_s": 10})
    until(lambda: waiting(admin, pool) == 1)
    shrunk = granted(admin.post(f"{lease}/resize", json={"permits": 1}), 200)
    assert shrunk | {"expires_in_s": 0, "permits": 2} == before | {"expires_in_s": 0}
    other = granted(call.answer())["lease_id"]
    problem(admin.post(f"{lease}/resize", json={"permits": 2}), 429, "acquire-timeout", retry=True)
    admin.post(f"/api/v1/leases/{other}/release").raise_for_status()
    assert granted(admin.post(f"{lease}/resize", json={"permits": 2}), 200)["permits"] == 2
    problem(admin.post(f"{lease}/resize", json={"permits": 3}), 400, "exceeds-capacity")
    name = pool.rsplit("/", 1)[1]
    assert gauge(admin.get("/metrics").text, "relay_pool_permits_in_use", pool=name) == 2
    assert gauge(admin.get("/metrics").text, "relay_pool_drift", pool=name) == 0


@pytest.mark.parametrize(
    "body", ["", "{}", '{"permits": 0}', '{"permits": "1"}', '{"permits": true}', '{"permits": null}']
)
def test_a_wrong_resize_names_its_field_and_changes_nothing(admin: httpx.Client, pool: str, body: str) -> None:
    lease = lease_of(admin, pool)
    answer = admin.post(f"{lease}/resize", content=body, headers={"Content-Type": "application/json"})
    problem(answer, 400, "invalid", "permits")
    assert state(admin, pool)["in_use"] == 1


def test_strangers_readers_and_the_late_are_told_so(
    relay: RelayServer, admin: httpx.Client, keys: Keys, pool: str
) -> None:
    lease = lease_of(admin, pool)
    with relay.http(keys.permits) as stranger, relay.http(keys.read) as reader:
        problem(stranger.post(f"{lease}/resize", json={"permits": 2}), 404, "lease-not-found")
        problem(reader.post(f"{lease}/resize", json={"permits": 2}), 403, "forbidden")
    problem(admin.get(f"{lease}/resize"), 405, "method-not-allowed")
    admin.post(f"{lease}/release").raise_for_status()
    problem(admin.post(f"{lease}/resize", json={"permits": 2}), 410, "lease-released")
    assert state(admin, pool)["in_use"] == 0


def test_after_kill_9_a_lease_has_the_permits_that_were_answered(new_relay: NewRelay) -> None:
    server = new_relay()
    with server.http() as admin:
        pool = make_pool(admin, "gpu", 5)
        grown, shrunk = lease_of(admin, pool), lease_of(admin, pool, permits=2)
        assert granted(admin.post(f"{grown}/resize", json={"permits": 3}), 200)["permits"] == 3
        assert granted(admin.post(f"{shrunk}/resize", json={"permits": 1}), 200)["permits"] == 1
        server.kill9()
        server.start()
        assert [admin.get(lease).json()["permits"] for lease in (grown, shrunk)] == [3, 1]
        assert state(admin, pool)["in_use"] == 4
        problem(admin.post(f"{pool}/acquire", json={"permits": 2, "timeout_s": 0}), 429, "acquire-timeout")


def test_a_child_that_could_never_be_granted_is_refused_at_once(admin: httpx.Client, pool: str) -> None:
    root = lease_of(admin, pool)
    parent = root.rsplit("/", 1)[1]
    child = granted(admin.post(f"{pool}/acquire", json={"parent_lease_id": parent}))
    assert child["parent_lease_id"] == parent
    body = {"parent_lease_id": child["lease_id"], "timeout_s": 60}
    problem(admin.post(f"{pool}/acquire", json=body), 409, "would-deadlock", retry=False)
    assert state(admin, pool)["in_use"] == 2


def test_two_holders_that_both_wait_for_a_child_are_told_so(relay: RelayServer, admin: httpx.Client, pool: str) -> None:
    parents = [lease_of(admin, pool).rsplit("/", 1)[1] for _ in range(2)]
    first = Call(relay, f"{pool}/acquire", {"parent_lease_id": parents[0]})
    until(lambda: waiting(admin, pool) == 1)
    problem(admin.post(f"{pool}/acquire", json={"parent_lease_id": parents[1]}), 409, "would-deadlock")
    assert waiting(admin, pool) == 1
    admin.post(f"/api/v1/leases/{parents[1]}/release").raise_for_status()
    assert granted(first.answer())["parent_lease_id"] == parents[0]


def test_a_parent_must_be_a_live_lease_of_the_tenant(
    relay: RelayServer, admin: httpx.Client, keys: Keys, pool: str
) -> None:
    lease = lease_of(admin, pool)
    with relay.http(keys.permits) as stranger:
        body = {"parent_lease_id": lease.rsplit("/", 1)[1]}
        problem(stranger.post(f"{pool}/acquire", json=body), 400, "invalid", "parent_lease_id")
    for wrong in ("", "nothing", 7, None):
        problem(admin.post(f"{pool}/acquire", json={"parent_lease_id": wrong}), 400, "invalid", "parent_lease_id")
    assert state(admin, pool)["in_use"] == 1


def test_a_lease_yields_to_a_child_and_comes_back_with_a_new_fencing_token(
    relay: RelayServer, admin: httpx.Client, pool: str
) -> None:
    name = pool.rsplit("/", 1)[1]
    lease = lease_of(admin, pool, permits=2)
    before = granted(admin.get(lease), 200)
    yielded = granted(admin.post(f"{lease}/yield"), 200)
    assert yielded | {"expires_in_s": 0} == before | {"expires_in_s": 0, "state": "yielded"}
    assert state(admin, pool)["in_use"] == 0
    child = granted(admin.post(f"{pool}/acquire", json={"permits": 2, "parent_lease_id": before["lease_id"]}))
    problem(admin.post(f"{lease}/resume", json={"timeout_s": 0}), 429, "acquire-timeout", retry=True)
    back = Call(relay, f"{lease}/resume", {"timeout_s": 10})
    until(lambda: waiting(admin, pool) == 1)
    (listed,) = items(admin, f"{pool}/waiters")
    assert (listed["position"], listed["permits"]) == (1, 2)
    assert [one["state"] for one in items(admin, f"{pool}/leases") if "state" in one] == ["yielded"]
    admin.post(f"/api/v1/leases/{child['lease_id']}/release").raise_for_status()
    again = granted(back.answer(), 200)
    assert again["fencing_token"] > child["fencing_token"] > before["fencing_token"]
    assert again["lease_id"] == before["lease_id"]
    assert "state" not in again
    assert granted(admin.post(f"{lease}/resume"), 200)["fencing_token"] == again["fencing_token"]
    metrics = admin.get("/metrics").text
    assert gauge(metrics, "relay_pool_permits_in_use", pool=name) == 2
    assert gauge(metrics, "relay_pool_drift", pool=name) == 0
    assert admin.post(f"{lease}/release").json()["released"]


def test_a_yielded_lease_renews_ends_and_tells_who_waits_to_resume(
    relay: RelayServer, admin: httpx.Client, pool: str
) -> None:
    lease = lease_of(admin, pool, permits=2, ttl_s=5)
    admin.post(f"{lease}/yield").raise_for_status()
    assert granted(admin.post(f"{lease}/renew", json={"ttl_s": 50}), 200)["expires_in_s"] > 40
    granted(admin.post(f"{pool}/acquire"))
    back = Call(relay, f"{lease}/resume", {})
    until(lambda: waiting(admin, pool) == 1)
    admin.post(f"{lease}/revoke").raise_for_status()
    problem(back.answer(), 410, "lease-revoked")
    problem(admin.post(f"{lease}/resume"), 410, "lease-revoked")
    problem(admin.post(f"{lease}/yield"), 410, "lease-revoked")
    assert state(admin, pool)["in_use"] == 1


@pytest.mark.parametrize(
    ("act", "body", "field"),
    [
        ("yield", '{"permits": 1}', "permits"),
        ("resume", '{"timeout_s": -1}', "timeout_s"),
        ("resume", '{"timeout_s": 1e9}', "timeout_s"),
        ("resume", '{"timeout": 1}', "timeout"),
    ],
)
def test_a_wrong_yield_or_resume_names_its_field(
    admin: httpx.Client, pool: str, act: str, body: str, field: str
) -> None:
    lease = lease_of(admin, pool)
    answer = admin.post(f"{lease}/{act}", content=body, headers={"Content-Type": "application/json"})
    problem(answer, 400, "invalid", field)
    assert state(admin, pool)["in_use"] == 1


def test_after_kill_9_a_yielded_lease_is_yielded_and_comes_back(new_relay: NewRelay) -> None:
    server = new_relay()
    with server.http() as admin:
        pool = make_pool(admin, "gpu", 1)
        lease = lease_of(admin, pool)
        admin.post(f"{lease}/yield").raise_for_status()
        held = granted(admin.post(f"{pool}/acquire"))
        back = Call(server, f"{lease}/resume", {})
        until(lambda: waiting(admin, pool) == 1)
        server.kill9()
        back.leave()
        server.start()
        assert admin.get(lease).json()["state"] == "yielded"
        assert state(admin, pool)["in_use"] == 1
        problem(admin.post(f"{lease}/resume", json={"timeout_s": 0}), 429, "acquire-timeout")
        admin.post(f"/api/v1/leases/{held['lease_id']}/release").raise_for_status()
        token = granted(admin.post(f"{lease}/resume"), 200)["fencing_token"]
        assert token > held["fencing_token"]
        server.kill9()
        server.start()
        assert state(admin, pool)["in_use"] == 1
        assert granted(admin.get(lease), 200)["fencing_token"] == token
        assert "state" not in admin.get(lease).json()
