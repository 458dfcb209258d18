"""Case 2: the store fails in the middle of 200 releases; afterwards every count of what is held agrees at 0."""

from __future__ import annotations

import threading

import httpx
import pytest

from tests.conftest import NewRelay
from tests.http.test_disk import FILLING, full_disk, ready
from tests.http.wire import gauge, granted, items, make_pool, state, until
from tests.relay_server import RelayServer

TTL_S = 4.0
NEVER_RELEASED = 10  # by holders that died: they expire while the disk is full, or after


def agree(admin: httpx.Client, pool: str) -> int:
    """Asserts that all counts of the permits in use agree, and gives them."""
    while True:
        in_use = state(admin, pool)["in_use"]
        listed = sum(item["permits"] for item in items(admin, f"{pool}/leases"))
        metrics = admin.get("/metrics").text
        assert gauge(metrics, "relay_pool_drift", pool="gpu") == 0
        if state(admin, pool)["in_use"] == in_use:  # nothing ended between the looks
            assert listed == gauge(metrics, "relay_pool_permits_in_use", pool="gpu") == in_use
            return int(in_use)


def release_all(server: RelayServer, paths: list[str]) -> list[int]:
    """Releases them by four callers side by side; the disk is full from the middle on. The statuses of the answers."""
    statuses: list[int] = []

    def some(mine: list[str]) -> None:
        with server.http() as client:
            statuses.extend(client.post(f"{path}/release").status_code for path in mine)

    threads = [threading.Thread(target=some, args=(paths[n::4],)) for n in range(4)]
    for thread in threads:
        thread.start()
    until(lambda: len(statuses) >= len(paths) // 4)
    with full_disk(server):
        for thread in threads:
            thread.join()
        with server.http() as admin:
            assert ready(admin) == 503
            agree(admin, "/api/v1/pools/gpu")
    return statuses


@pytest.mark.parametrize("then", ["heals", "killed"])
def test_case_2_no_count_drifts_when_the_journal_fails_amid_the_releases(new_relay: NewRelay, then: str) -> None:
    server = new_relay()
    with server.http() as admin:
        pool = make_pool(admin, "gpu", 300)
        body = {"metadata": FILLING, "ttl_s": TTL_S}
        leases = [granted(admin.post(f"{pool}/acquire", json=body)) for _ in range(200 + NEVER_RELEASED)]
        paths = [f"/api/v1/leases/{lease['lease_id']}" for lease in leases[NEVER_RELEASED:]]
        assert release_all(server, paths) == [200] * 200
        if then == "killed":
            server.kill9()
            server.start()
            agree(admin, pool)
        else:
            until(lambda: ready(admin) == 200, timeout_s=5)
            assert agree(admin, pool) <= NEVER_RELEASED
        until(lambda: agree(admin, pool) == 0, timeout_s=TTL_S + 1.5)
        metrics = admin.get("/metrics").text
        assert gauge(metrics, "relay_tenant_permits_in_use", pool="gpu", tenant="default") == 0
        granted(admin.post(f"{pool}/acquire", json={"permits": 300, "timeout_s": 0}))  # all of it is there
