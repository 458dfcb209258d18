"""Pools that size themselves, on a real server: reports cut the size, waiters grow it, a person's hand wins."""

from __future__ import annotations

import itertools
from typing import Any

import httpx

from tests.conftest import NewRelay
from tests.http.wire import Call, granted, make_pool, until
from tests.relay_server import RelayServer


def sizing(admin: httpx.Client, pool: str, **fields: Any) -> None:
    """Sets how a pool is sized."""
    response = admin.put(f"{pool}/sizing", json={"minimum": 2, "maximum": 50} | fields)
    assert response.status_code == 200, response.text


def capacity(admin: httpx.Client, pool: str) -> int:
    """The size that is in force."""
    return int(admin.get(pool).json()["capacity"])


def report(admin: httpx.Client, pool: str, outcome: str) -> None:
    """One call that ended so."""
    lease = granted(admin.post(f"{pool}/acquire"))
    body = {"outcome": outcome}
    assert admin.post(f"/api/v1/leases/{lease['lease_id']}/release", json=body).json()["released"]


def decisions(admin: httpx.Client, pool: str) -> list[dict[str, Any]]:
    """What the sizing wrote into the log, the oldest first."""
    name = pool.rpartition("/")[2]
    items = admin.get("/api/v1/changes?limit=500").json()["items"]
    return [item for item in reversed(items) if item["pool"] == name and item["actor"] == "sizing"]


def test_throttled_calls_cut_the_size_at_once_and_say_why(admin: httpx.Client, pool: str) -> None:
    admin.patch(pool, json={"capacity": 20})
    sizing(admin, pool, policy={"kind": "adaptive"})
    version = admin.get(pool).json()["version"]
    for _ in range(5):
        report(admin, pool, "throttled")
    assert capacity(admin, pool) == 20 or capacity(admin, pool) == 18
    until(lambda: capacity(admin, pool) == 18)
    until(lambda: len(decisions(admin, pool)) == 1)
    assert decisions(admin, pool)[0]["reason"] == "5 of the last 5 calls went wrong, the newest throttled: 20 to 18"
    assert admin.get(pool).json()["version"] == version
    assert admin.get(f"{pool}/sizing").json()["decisions"][0]["after"] == 18
    name = pool.rpartition("/")[2]
    line = f'relay_pool_sizing_decisions_total{{pool="{name}",direction="down"}} 1'
    assert line in admin.get("/metrics").text


def test_a_waiter_that_grew_old_grows_the_pool_and_is_served(
    relay: RelayServer, admin: httpx.Client, pool: str
) -> None:
    sizing(admin, pool, policy={"kind": "load", "max_wait_s": 0.5})
    for _ in range(2):
        granted(admin.post(f"{pool}/acquire"))
    call = Call(relay, f"{pool}/acquire", {"timeout_s": 20}, timeout_s=30)
    assert call.answer().status_code == 201
    assert capacity(admin, pool) == 3
    until(lambda: len(decisions(admin, pool)) == 1)
    assert decisions(admin, pool)[0]["reason"].startswith("oldest waiter ")


def test_a_request_above_the_size_and_within_the_maximum_waits_for_growth(
    relay: RelayServer, admin: httpx.Client, pool: str
) -> None:
    sizing(admin, pool, policy={"kind": "load", "max_wait_s": 0.5, "step": 1.0, "shrink_below": 0.1}, cooldown_s=1)
    call = Call(relay, f"{pool}/acquire", {"permits": 4, "timeout_s": 20}, timeout_s=30)
    assert call.answer().status_code == 201
    assert admin.post(f"{pool}/acquire", json={"permits": 51}).json()["code"] == "exceeds-capacity"


def test_a_size_set_by_hand_stays(admin: httpx.Client, pool: str) -> None:
    sizing(admin, pool, policy={"kind": "adaptive"})
    admin.patch(pool, json={"capacity": 30})
    for _ in range(20):
        report(admin, pool, "throttled")
    assert capacity(admin, pool) == 30
    assert admin.get(f"{pool}/sizing").json()["sizing"]["pin"] == 30
    admin.patch(f"{pool}/sizing", json={"pin": None})
    for _ in range(6):
        report(admin, pool, "throttled")
    until(lambda: capacity(admin, pool) == 27)


def test_a_dry_run_shows_and_changes_nothing(admin: httpx.Client, pool: str) -> None:
    admin.patch(pool, json={"capacity": 20})
    sizing(admin, pool, policy={"kind": "adaptive"}, dry_run=True)
    for _ in range(5):
        report(admin, pool, "timeout")
    found = admin.get(f"{pool}/sizing").json()["decisions"]
    assert [(each["before"], each["after"], each["applied"]) for each in found] == [(20, 18, False)]
    assert capacity(admin, pool) == 20
    assert decisions(admin, pool) == []


def test_a_storm_of_reports_is_written_in_order_and_survives_a_restart(new_relay: NewRelay) -> None:
    server = new_relay()
    with server.http() as admin:
        pool = make_pool(admin, "storm", 40)
        sizing(admin, pool, policy={"kind": "adaptive"}, cooldown_s=0)
        for _ in range(100):
            report(admin, pool, "throttled")
        decided = admin.get(f"{pool}/sizing").json()["decisions"]
        assert len(decided) > 10
        until(lambda: len(decisions(admin, pool)) == len(decided))
        size = decided[0]["after"]
        steps = [(item["before"]["capacity"], item["after"]["capacity"]) for item in decisions(admin, pool)]
        assert all(former[1] == later[0] for former, later in itertools.pairwise(steps))
    server.kill9()
    server.start()
    with server.http() as admin:
        assert capacity(admin, pool) == size
        assert admin.get(f"{pool}/sizing").json()["sizing"]["policy"]["kind"] == "adaptive"
