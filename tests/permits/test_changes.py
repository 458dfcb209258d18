"""A live lease whose permits change: on the pure core, and on the engine with a journal."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest

from relay.permits.engine import changes
from relay.permits.engine.base import LeaseEnded, Refused, Share
from relay.permits.engine.core import PoolCore
from tests.permits.driver import Desk
from tests.permits.test_memory import Caller, House, ask, gauges_of, settle


def resize(desk: Desk, holder: str, permits: int, tenant: str | None = None) -> str:
    """Resizes a holder's lease. `resized`, or the code of the refusal."""
    lease = desk.leases[holder]
    try:
        changes.resize(desk.pool, lease.lease_id, tenant or lease.ask.tenant, permits, desk.now)
    except Refused as refused:
        return refused.code
    return "resized"


def test_shrinking_serves_waiters_at_once_and_keeps_the_fencing_token() -> None:
    desk = Desk(PoolCore, 4)
    desk.ask("x", permits=4)
    desk.ask("y")
    desk.ask("z", permits=2)
    token = desk.leases["x"].fencing_token
    assert resize(desk, "x", 1) == "resized"
    assert desk.events() == ["granted y", "granted z"]
    assert (desk.pool.in_use, desk.pool.tenant_in_use("a"), desk.pool.drift()) == (4, 4, 0)
    assert desk.leases["x"].fencing_token == token
    desk.release("x")
    assert (desk.pool.in_use, desk.pool.drift()) == (3, 0)


def test_growing_takes_what_is_free_and_nothing_more() -> None:
    desk = Desk(PoolCore, 4)
    desk.ask("x")
    assert resize(desk, "x", 3) == "resized"
    desk.ask("y")
    assert resize(desk, "x", 4) == "acquire-timeout"
    assert resize(desk, "x", 5) == "exceeds-capacity"
    assert (desk.pool.in_use, desk.pool.drift()) == (4, 0)


def test_growing_overtakes_nobody_for_whom_the_pool_saves_up() -> None:
    desk = Desk(PoolCore, 4)
    desk.ask("x", permits=2)
    desk.ask("y", permits=1)
    assert desk.ask("large", "b", 3) == "waits"
    assert resize(desk, "x", 3) == "acquire-timeout"
    desk.release("y")
    assert resize(desk, "x", 1) == "resized"
    assert desk.events() == ["granted large"]


def test_growing_obeys_limit_pause_and_drain_and_shrinking_does_not_need_them() -> None:
    desk = Desk(PoolCore, 4, shares={"a": Share(limit=2)})
    desk.ask("x", permits=2)
    assert resize(desk, "x", 3) == "exceeds-tenant-limit"
    assert resize(desk, "x", 1) == "resized"
    desk.change(state="paused")
    assert resize(desk, "x", 2) == "pool-paused"
    desk.change(state="draining")
    assert resize(desk, "x", 2) == "pool-draining"
    desk.change(state="paused", capacity=1)
    desk.change(state="active", capacity=4)
    assert resize(desk, "x", 2) == "resized"
    assert resize(desk, "x", 1) == "resized"
    assert (desk.pool.in_use, desk.pool.drift()) == (1, 0)


def test_a_stranger_and_who_is_late_resize_nothing() -> None:
    desk = Desk(PoolCore, 4)
    desk.ask("x")
    assert resize(desk, "x", 2, "other") == "lease-not-found"
    desk.release("x")
    with pytest.raises(LeaseEnded):
        changes.resize(desk.pool, desk.leases["x"].lease_id, "a", 2, desk.now)
    assert desk.pool.in_use == 0


def test_a_repeat_with_the_key_still_gets_the_resized_lease() -> None:
    desk = Desk(PoolCore, 4)
    desk.ask("x", permits=2, key="k")
    resize(desk, "x", 3)
    resize(desk, "x", 1)
    assert desk.ask("x", permits=2, key="k") == "existing"
    assert desk.ask("x", permits=1, key="k") == "idempotency-conflict"


def test_growing_adds_to_the_tenants_virtual_time() -> None:
    desk = Desk(PoolCore, 9)
    desk.ask("x")
    before = desk.pool.tenants["a"].vtime
    resize(desk, "x", 4)
    assert desk.pool.tenants["a"].vtime == before + 3


@pytest.fixture
def run(tmp_path: Path) -> Callable[..., None]:
    return lambda scenario: asyncio.run(scenario(House(tmp_path / "engine")))


def test_a_restart_knows_the_present_permits_and_the_key(run: Callable[..., None]) -> None:
    async def scenario(house: House) -> None:
        house.pools["gpu"] = house.pools["gpu"].__class__("gpu", 5)
        engine = await house.open()
        lease, _ = await engine.acquire("gpu", ask(permits=2, key="k"), Caller())
        await engine.resize(lease.lease_id, "search", 4)
        engine = await house.open()  # the first was never closed: as after kill -9
        assert gauges_of(engine).in_use == 4
        again, granted = await engine.acquire("gpu", ask(permits=2, key="k"), Caller())
        assert (again.lease_id, again.ask.permits, granted) == (lease.lease_id, 4, False)
        await engine.resize(lease.lease_id, "search", 1)
        engine = await house.open()
        assert (gauges_of(engine).in_use, gauges_of(engine).drift) == (1, 0)

    run(scenario)


def test_a_disk_that_refuses_lets_leases_shrink_but_not_grow(run: Callable[..., None]) -> None:
    async def scenario(house: House) -> None:
        house.pools["gpu"] = house.pools["gpu"].__class__("gpu", 5)
        engine = await house.open()
        lease, _ = await engine.acquire("gpu", ask(permits=2), Caller())
        engine.delivered(lease)
        house.journal.full = True
        with pytest.raises(Refused) as refusal:
            await engine.resize(lease.lease_id, "search", 4)
        assert refusal.value.code == "engine-unavailable"
        assert (gauges_of(engine).in_use, gauges_of(engine).drift) == (2, 0)
        assert (await engine.resize(lease.lease_id, "search", 1)).ask.permits == 1
        house.journal.full = False
        await engine.tick()
        await settle()
        engine = await house.open()
        assert gauges_of(engine).in_use == 1

    run(scenario)
