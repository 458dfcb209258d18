"""Case 14 over HTTP: [A, B] and [B, A] acquired at once, a thousand times each way."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import httpx
import pytest

from tests.http.wire import gauge, make_pool, state
from tests.relay_server import RelayServer

TIMES, AT_ONCE = 1000, 8


@pytest.fixture
def pools(admin: httpx.Client, pool_name: str) -> Iterator[list[str]]:
    """Two pools of 1."""
    names = [f"{pool_name}-a", f"{pool_name}-b"]
    paths = [make_pool(admin, name, 1) for name in names]
    yield names
    for path in paths:
        assert admin.delete(f"{path}?force=true").status_code in (204, 404)


def test_case_14_both_ways_at_once_no_deadlock_and_no_half_lock(
    relay: RelayServer, admin: httpx.Client, pools: list[str]
) -> None:
    holding: list[str] = []
    done: list[int] = []

    async def work(client: httpx.AsyncClient, number: int) -> None:
        ways = pools if number % 2 else list(reversed(pools))
        for turn in range(2 * TIMES // AT_ONCE):
            wanted = {"requests": [{"pool": pool} for pool in ways], "timeout_s": 60}
            answer = await client.post("/api/v1/acquire", json=wanted)
            assert answer.status_code == 201, answer.text
            leases = answer.json()["leases"]
            assert [lease["pool"] for lease in leases] == ways
            assert not holding, "two hold what one can have"
            holding.append(f"{number}-{turn}")
            await asyncio.sleep(0)
            holding.clear()
            for lease in leases:
                released = await client.post(f"/api/v1/leases/{lease['lease_id']}/release")
                assert released.json()["released"]
        done.append(number)

    async def run() -> None:
        headers = {"Authorization": f"Bearer {relay.api_key}"}
        async with httpx.AsyncClient(base_url=relay.url, headers=headers, timeout=90) as client:
            await asyncio.gather(*(work(client, number) for number in range(AT_ONCE)))

    asyncio.run(run())
    assert sorted(done) == list(range(AT_ONCE))
    metrics = admin.get("/metrics").text
    for pool in pools:
        assert state(admin, f"/api/v1/pools/{pool}")["in_use"] == 0
        assert gauge(metrics, "relay_pool_drift", pool=pool) == 0
        assert gauge(metrics, "relay_acquire_requests_total", pool=pool, outcome="granted") == 2 * TIMES
