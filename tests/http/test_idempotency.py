"""Idempotency-Key over HTTP (rule 14): repeats of what is held, of what waits, after a lost connection, and conflicts."""

from __future__ import annotations

import time
from typing import Any

import httpx
import pytest

from tests.http.conftest import Keys
from tests.http.wire import Call, granted, items, problem, state, until, waiting
from tests.relay_server import RelayServer

KEYED = {"Idempotency-Key": "job-1"}


@pytest.fixture
def held(admin: httpx.Client, pool: str) -> str:
    """The path of a lease that holds the whole pool."""
    return f"/api/v1/leases/{granted(admin.post(f'{pool}/acquire', json={'permits': 2}))['lease_id']}"


def holders(admin: httpx.Client, pool: str) -> list[tuple[str, bool]]:
    """Who waits, in the order of the list, and whether connected."""
    return [(item["holder"], item["connected"]) for item in items(admin, f"{pool}/waiters")]


def test_a_repeat_gets_the_same_lease_and_takes_nothing_more(admin: httpx.Client, pool: str) -> None:
    body: dict[str, Any] = {"holder": "w", "metadata": {"a": 1, "b": 2}}
    lease = granted(admin.post(f"{pool}/acquire", json=body, headers=KEYED))
    # the order of an object's members, defaults spelt out and the timeout make no other body
    same = {"metadata": {"b": 2, "a": 1}, "permits": 1, "priority": "interactive", "ttl_s": 60, "timeout_s": 5}
    again = granted(admin.post(f"{pool}/acquire", json=body | same, headers=KEYED), 200)
    assert (again["lease_id"], again["fencing_token"]) == (lease["lease_id"], lease["fencing_token"])
    assert granted(admin.post(f"{pool}/acquire", json=body | {"timeout_s": 0}, headers=KEYED), 200)
    assert state(admin, pool)["in_use"] == 1


def test_a_key_belongs_to_its_tenant_and_its_pool(
    relay: RelayServer, admin: httpx.Client, keys: Keys, pool: str
) -> None:
    mine = granted(admin.post(f"{pool}/acquire", headers=KEYED))
    with relay.http(keys.permits) as other:
        theirs = granted(other.post(f"{pool}/acquire", headers=KEYED))
    assert mine["lease_id"] != theirs["lease_id"]
    assert state(admin, pool)["in_use"] == 2


@pytest.mark.parametrize(
    "other",
    [{"permits": 2}, {"priority": "batch"}, {"ttl_s": 59}, {"holder": "x"}, {"metadata": {"a": 1}}],
    ids=lambda body: next(iter(body)),
)
def test_another_body_is_a_conflict_while_it_is_held(admin: httpx.Client, pool: str, other: dict[str, Any]) -> None:
    lease = granted(admin.post(f"{pool}/acquire", headers=KEYED))
    before = state(admin, pool)
    problem(admin.post(f"{pool}/acquire", json=other, headers=KEYED), 422, "idempotency-conflict", retry=False)
    assert state(admin, pool) == before
    assert granted(admin.post(f"{pool}/acquire", headers=KEYED), 200)["lease_id"] == lease["lease_id"]


def test_another_body_is_a_conflict_while_it_waits_and_the_waiter_stays(
    relay: RelayServer, admin: httpx.Client, pool: str, held: str
) -> None:
    waiter = Call(relay, f"{pool}/acquire", headers=KEYED)
    until(lambda: waiting(admin, pool) == 1)
    problem(admin.post(f"{pool}/acquire", json={"permits": 2}, headers=KEYED), 422, "idempotency-conflict")
    problem(admin.post(f"{pool}/acquire", json={"timeout_s": 0}, headers=KEYED), 429, "acquire-timeout", retry=True)
    assert holders(admin, pool) == [("", True)]
    admin.post(f"{held}/release").raise_for_status()
    granted(waiter.answer())


def test_a_repeat_takes_the_wait_over_and_the_first_is_told(
    relay: RelayServer, admin: httpx.Client, pool: str, held: str
) -> None:
    first = Call(relay, f"{pool}/acquire", {"holder": "job"}, headers=KEYED)
    until(lambda: waiting(admin, pool) == 1)
    later = Call(relay, f"{pool}/acquire", {"holder": "later"})
    until(lambda: waiting(admin, pool) == 2)
    (before, _) = items(admin, f"{pool}/waiters")
    time.sleep(0.05)
    repeat = Call(relay, f"{pool}/acquire", {"holder": "job", "timeout_s": 7}, headers=KEYED)
    problem(first.answer(), 409, "superseded", retry=False)
    assert holders(admin, pool) == [("job", True), ("later", True)]
    (after, _) = items(admin, f"{pool}/waiters")
    assert (after["waiter_id"], after["position"]) == (before["waiter_id"], 1)
    assert after["waited_s"] > before["waited_s"]
    assert after["deadline"] < before["deadline"]
    admin.post(f"{held}/release").raise_for_status()
    assert granted(repeat.answer())["waited_s"] > before["waited_s"]
    granted(later.answer())


def test_a_lost_connection_keeps_its_place_and_comes_back_into_it(
    relay: RelayServer, admin: httpx.Client, pool: str, held: str
) -> None:
    job = Call(relay, f"{pool}/acquire", {"holder": "job", "permits": 2}, headers=KEYED)
    until(lambda: waiting(admin, pool) == 1)
    later = Call(relay, f"{pool}/acquire", {"holder": "later", "permits": 2})
    until(lambda: waiting(admin, pool) == 2)
    job.leave()
    until(lambda: waiting(admin, pool) == 1)
    assert holders(admin, pool) == [("later", True), ("job", False)]
    assert [item["position"] for item in items(admin, f"{pool}/waiters")] == [1, None]
    back = Call(relay, f"{pool}/acquire", {"holder": "job", "permits": 2}, headers=KEYED)
    until(lambda: holders(admin, pool) == [("job", True), ("later", True)])
    admin.post(f"{held}/release").raise_for_status()
    lease = granted(back.answer())
    assert waiting(admin, pool) == 1
    admin.post(f"/api/v1/leases/{lease['lease_id']}/release").raise_for_status()
    granted(later.answer())


def test_an_absent_waiter_blocks_nobody_and_its_place_ends_with_the_grace(
    relay: RelayServer, admin: httpx.Client, pool: str, held: str
) -> None:
    admin.patch(pool, json={"reconnect_grace_s": 0.3}).raise_for_status()
    job = Call(relay, f"{pool}/acquire", {"holder": "job"}, headers=KEYED)
    until(lambda: waiting(admin, pool) == 1)
    job.leave()
    until(lambda: holders(admin, pool) == [("job", False)])
    admin.post(f"{held}/release").raise_for_status()
    granted(admin.post(f"{pool}/acquire", json={"permits": 2, "timeout_s": 0}))
    until(lambda: holders(admin, pool) == [], timeout_s=1.5)
    # the key is free again, for another body too
    problem(admin.post(f"{pool}/acquire", json={"permits": 2, "timeout_s": 0}, headers=KEYED), 429, "acquire-timeout")


def test_without_grace_a_lost_connection_keeps_nothing(
    relay: RelayServer, admin: httpx.Client, pool: str, held: str
) -> None:
    admin.patch(pool, json={"reconnect_grace_s": 0}).raise_for_status()
    job = Call(relay, f"{pool}/acquire", headers=KEYED)
    until(lambda: waiting(admin, pool) == 1)
    job.leave()
    until(lambda: holders(admin, pool) == [], timeout_s=1)


def test_a_grant_that_nobody_fetched_is_there_for_the_repeat(
    relay: RelayServer, admin: httpx.Client, pool: str, held: str
) -> None:
    job = Call(relay, f"{pool}/acquire", {"holder": "job"}, headers=KEYED)
    until(lambda: waiting(admin, pool) == 1)
    admin.post(f"{held}/release").raise_for_status()
    until(lambda: state(admin, pool)["in_use"] == 1)
    job.leave()
    (lease,) = items(admin, f"{pool}/leases")
    again = granted(admin.post(f"{pool}/acquire", json={"holder": "job"}, headers=KEYED), 200)
    assert again["lease_id"] == lease["lease_id"]
    assert state(admin, pool)["in_use"] == 1


@pytest.mark.parametrize("refusal", ["timeout", "try", "cancelled", "draining", "too-many"])
def test_a_refusal_frees_the_key(relay: RelayServer, admin: httpx.Client, pool: str, held: str, refusal: str) -> None:
    if refusal == "timeout":
        problem(admin.post(f"{pool}/acquire", json={"timeout_s": 0.1}, headers=KEYED), 429, "acquire-timeout")
    elif refusal == "try":
        problem(admin.post(f"{pool}/acquire", json={"timeout_s": 0}, headers=KEYED), 429, "acquire-timeout")
    elif refusal == "draining":
        admin.post(f"{pool}/drain").raise_for_status()
        problem(admin.post(f"{pool}/acquire", headers=KEYED), 503, "pool-draining")
        admin.post(f"{pool}/resume").raise_for_status()
    elif refusal == "too-many":
        problem(admin.post(f"{pool}/acquire", json={"permits": 3}, headers=KEYED), 400, "exceeds-capacity")
    else:
        waiter = Call(relay, f"{pool}/acquire", headers=KEYED)
        until(lambda: waiting(admin, pool) == 1)
        (item,) = items(admin, f"{pool}/waiters")
        admin.post(f"/api/v1/waiters/{item['waiter_id']}/cancel").raise_for_status()
        problem(waiter.answer(), 409, "waiter-cancelled")
    admin.post(f"{held}/release").raise_for_status()
    assert granted(admin.post(f"{pool}/acquire", json={"permits": 2}, headers=KEYED))["permits"] == 2


@pytest.mark.parametrize("end", ["release", "revoke", "expire"])
def test_the_end_of_the_lease_frees_the_key_and_no_dead_lease_is_handed_out(
    admin: httpx.Client, pool: str, end: str
) -> None:
    first = granted(admin.post(f"{pool}/acquire", json={"ttl_s": 0.1 if end == "expire" else 60}, headers=KEYED))
    if end == "expire":
        time.sleep(0.15)
    else:
        admin.post(f"/api/v1/leases/{first['lease_id']}/{end}").raise_for_status()
    second = granted(admin.post(f"{pool}/acquire", json={"ttl_s": 30}, headers=KEYED))
    assert second["lease_id"] != first["lease_id"]
    assert second["fencing_token"] > first["fencing_token"]
