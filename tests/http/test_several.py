"""POST /api/v1/acquire: permits of several pools, all or nothing."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from tests.conftest import NewRelay
from tests.http.conftest import Keys
from tests.http.wire import Call, gauge, granted, items, make_pool, problem, state, until, waiting
from tests.relay_server import RelayServer

ACQUIRE = "/api/v1/acquire"


@pytest.fixture
def pools(admin: httpx.Client, pool_name: str) -> Iterator[list[str]]:
    """The names of two pools of 2, which are deleted at the end."""
    names = [f"{pool_name}-a", f"{pool_name}-b"]
    paths = [make_pool(admin, name, 2) for name in names]
    yield names
    for path in paths:
        assert admin.delete(f"{path}?force=true").status_code in (204, 404)


def body(*pools: str, permits: int = 1, **fields: Any) -> dict[str, Any]:
    """The body of an acquire of so many permits of each pool."""
    return {"requests": [{"pool": pool, "permits": permits} for pool in pools], **fields}


def leases(answer: httpx.Response, status: int = 201) -> list[dict[str, Any]]:
    """The leases of an answer that must have some."""
    assert answer.status_code == status, answer.text
    found: list[dict[str, Any]] = answer.json()["leases"]
    return found


def in_use(admin: httpx.Client, pools: list[str]) -> list[int]:
    """Permits held by pool."""
    return [int(state(admin, f"/api/v1/pools/{pool}")["in_use"]) for pool in pools]


def test_it_answers_one_lease_a_pool_in_the_order_of_the_requests(admin: httpx.Client, pools: list[str]) -> None:
    found = leases(admin.post(ACQUIRE, json=body(*reversed(pools), holder="w", metadata={"a": 1}, ttl_s=5)))
    assert [lease["pool"] for lease in found] == list(reversed(pools))
    assert all((lease["holder"], lease["metadata"], lease["ttl_s"]) == ("w", {"a": 1}, 5.0) for lease in found)
    assert in_use(admin, pools) == [1, 1]
    for lease in found:
        assert admin.post(f"/api/v1/leases/{lease['lease_id']}/release").json()["released"]
    assert in_use(admin, pools) == [0, 0]


def test_it_waits_in_all_its_queues_holds_nothing_and_is_counted_in_each(
    relay: RelayServer, admin: httpx.Client, pools: list[str]
) -> None:
    a, b = (f"/api/v1/pools/{pool}" for pool in pools)
    held = granted(admin.post(f"{b}/acquire", json={"permits": 2}))
    call = Call(relay, ACQUIRE, body(*pools, holder="both"))
    until(lambda: waiting(admin, a) == waiting(admin, b) == 1)
    assert in_use(admin, pools) == [0, 2]
    (listed,) = items(admin, f"{a}/waiters")
    assert (listed["holder"], listed["connected"], listed["position"]) == ("both", True, None)
    assert admin.post(f"{a}/acquire", json={"timeout_s": 0, "ttl_s": 0.2}).status_code == 201
    admin.post(f"/api/v1/leases/{held['lease_id']}/release").raise_for_status()
    assert all(lease["waited_s"] > 0 for lease in leases(call.answer()))
    metrics = admin.get("/metrics").text
    for pool, granted_count in zip(pools, (2, 2), strict=True):
        total = gauge(metrics, "relay_acquire_requests_total", pool=pool, outcome="granted")
        assert total == granted_count
        assert gauge(metrics, "relay_pool_drift", pool=pool) == 0


def test_who_leaves_or_waits_in_vain_is_out_of_all_queues(
    relay: RelayServer, admin: httpx.Client, pools: list[str]
) -> None:
    a, b = (f"/api/v1/pools/{pool}" for pool in pools)
    granted(admin.post(f"{b}/acquire", json={"permits": 2}))
    call = Call(relay, ACQUIRE, body(*pools))
    until(lambda: waiting(admin, a) == 1)
    call.leave()
    until(lambda: waiting(admin, a) == waiting(admin, b) == 0)
    begun = time.monotonic()
    problem(admin.post(ACQUIRE, json=body(*pools, timeout_s=0.3)), 429, "acquire-timeout", retry=True)
    assert 0.3 <= time.monotonic() - begun < 2
    assert in_use(admin, pools) == [0, 2]
    assert waiting(admin, a) == waiting(admin, b) == 0


def test_a_repeat_with_the_key_gets_the_same_leases_also_in_another_order(
    admin: httpx.Client, pools: list[str]
) -> None:
    headers = {"Idempotency-Key": "once"}
    first = leases(admin.post(ACQUIRE, json=body(*pools), headers=headers))
    again = leases(admin.post(ACQUIRE, json=body(*reversed(pools)), headers=headers), 200)
    assert {lease["lease_id"] for lease in first} == {lease["lease_id"] for lease in again}
    problem(admin.post(ACQUIRE, json=body(*pools, permits=2), headers=headers), 422, "idempotency-conflict")
    single = admin.post(f"/api/v1/pools/{pools[0]}/acquire", headers=headers)
    assert granted(single)["lease_id"] not in {lease["lease_id"] for lease in first}  # a key belongs to its pools


def test_a_repeat_supersedes_the_call_that_waits(relay: RelayServer, admin: httpx.Client, pools: list[str]) -> None:
    held = granted(admin.post(f"/api/v1/pools/{pools[1]}/acquire", json={"permits": 2}))
    headers = {"Idempotency-Key": "twice"}
    first = Call(relay, ACQUIRE, body(*pools), headers=headers)
    until(lambda: waiting(admin, f"/api/v1/pools/{pools[0]}") == 1)
    second = Call(relay, ACQUIRE, body(*pools), headers=headers)
    problem(first.answer(), 409, "superseded")
    admin.post(f"/api/v1/leases/{held['lease_id']}/release").raise_for_status()
    assert len(leases(second.answer())) == 2


A, B = "A", "B"


@pytest.mark.parametrize(
    ("wrong", "field"),
    [
        ({}, "requests"),
        ({"requests": []}, "requests"),
        ({"requests": [{"pool": A}] * 17}, "requests"),
        ({"requests": [{"pool": A}, {"pool": A}]}, "requests[1].pool"),
        ({"requests": [{"pool": A}, {"permits": 1}]}, "requests[1].pool"),
        ({"requests": [{"pool": A}, {"pool": B, "permits": 0}]}, "requests[1].permits"),
        ({"requests": [{"pool": A}, {"pool": B, "permits": True}]}, "requests[1].permits"),
        ({"requests": [{"pool": A}, {"pool": B, "permit": 1}]}, "requests[1].permit"),
        ({"requests": [{"pool": A}, 7]}, "requests[1]"),
        ({"requests": [{"pool": A}], "priority": "none"}, "priority"),
        ({"requests": [{"pool": A}], "timeout_s": -1}, "timeout_s"),
        ({"requests": [{"pool": A}], "ttl_s": 1e6}, "ttl_s"),
        ({"requests": [{"pool": A}], "metadata": {"x": "y" * 3000}}, "metadata"),
        ({"requests": [{"pool": A}], "pool": "x"}, "pool"),
    ],
)
def test_a_wrong_body_names_the_field_and_changes_nothing(
    admin: httpx.Client, pools: list[str], wrong: dict[str, Any], field: str
) -> None:
    names = dict(zip((A, B), pools, strict=True))
    requests = [
        {**one, "pool": names[one["pool"]]} if isinstance(one, dict) and "pool" in one else one
        for one in wrong.get("requests", [])
    ]
    sent = {**wrong, "requests": requests} if "requests" in wrong else wrong
    problem(admin.post(ACQUIRE, json=sent), 400, "invalid", field)
    assert in_use(admin, pools) == [0, 0]


def test_a_refusal_of_one_pool_says_which_and_changes_nothing_in_the_other(
    admin: httpx.Client, pools: list[str]
) -> None:
    before = [state(admin, f"/api/v1/pools/{pool}") for pool in pools]
    missing = problem(admin.post(ACQUIRE, json=body(pools[0], "missing")), 404, "pool-not-found")
    assert "requests[1].pool" in missing["detail"]
    large = {"requests": [{"pool": pools[0]}, {"pool": pools[1], "permits": 3}]}
    refused = problem(admin.post(ACQUIRE, json=large), 400, "exceeds-capacity")
    assert refused["detail"].startswith("requests[1].permits")
    admin.post(f"/api/v1/pools/{pools[1]}/drain").raise_for_status()
    problem(admin.post(ACQUIRE, json=body(*pools)), 503, "pool-draining", retry=True)
    admin.post(f"/api/v1/pools/{pools[1]}/resume").raise_for_status()
    after = [state(admin, f"/api/v1/pools/{pool}") for pool in pools]
    assert [one["in_use"] for one in before] == [one["in_use"] for one in after] == [0, 0]


def test_it_needs_the_scope_permits_and_post(relay: RelayServer, keys: Keys, pools: list[str]) -> None:
    with relay.http(keys.read) as reader, relay.http("nothing") as nobody:
        problem(reader.post(ACQUIRE, json=body(*pools)), 403, "forbidden")
        problem(nobody.post(ACQUIRE, json=body(*pools)), 401, "unauthenticated")
        problem(reader.get(ACQUIRE), 405, "method-not-allowed")


def test_after_kill_9_a_joint_grant_is_whole(new_relay: NewRelay) -> None:
    server = new_relay()
    with server.http() as admin:
        pools = [name for name in ("a", "b", "c") if make_pool(admin, name, 5)]
        told = [leases(admin.post(ACQUIRE, json=body(*pools, ttl_s=600))) for _ in range(4)]
        server.kill9()
        server.start()
        assert in_use(admin, pools) == [4, 4, 4]
        live = {lease["lease_id"] for pool in pools for lease in items(admin, f"/api/v1/pools/{pool}/leases")}
        assert live == {lease["lease_id"] for found in told for lease in found}
