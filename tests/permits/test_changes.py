"""A live lease whose permits change: on the pure core, and on the engine with a journal."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from pathlib import Path

import pytest

from relay.permits.engine import changes
from relay.permits.engine.base import SECOND, CallerGone, Lease, LeaseEnded, Refused, Share
from relay.permits.engine.core import PoolCore
from relay.permits.engine.nesting import Nesting
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


def yields(desk: Desk, holder: str) -> list[str]:
    """A holder yields; what happened to others."""
    lease = desk.leases[holder]
    changes.yield_lease(desk.pool, lease.lease_id, lease.ask.tenant, desk.now)
    return desk.events()


def resumes(desk: Desk, holder: str, timeout: float = 1000) -> str:
    """A holder wants its permits back. `back`, `waits`, or a code."""
    lease = desk.leases[holder]
    try:
        got = Nesting(lambda _: None).resume(
            desk.pool, lease.lease_id, lease.ask.tenant, int(timeout * SECOND), desk.now
        )
    except Refused as refused:
        return refused.code
    if isinstance(got, Lease):
        return "back"
    desk.waiters[f"{holder} again"] = got
    return "waits"


def test_who_yields_gives_its_permits_to_the_next_and_keeps_its_lease() -> None:
    desk = Desk(PoolCore, 2)
    desk.ask("x", permits=2)
    desk.ask("y", "b")
    assert yields(desk, "x") == ["granted y"]
    assert yields(desk, "x") == []
    assert (desk.pool.in_use, desk.pool.tenant_in_use("a"), desk.pool.drift()) == (1, 0, 0)
    assert desk.holders() == ["x", "y"]
    assert desk.pool.leases[desk.leases["x"].lease_id].yielded


def test_who_resumes_comes_back_before_all_who_came_after_it() -> None:
    desk = Desk(PoolCore, 1)
    desk.at(1)
    desk.ask("x")
    desk.at(2)
    for holder in ("y", "z"):
        desk.ask(holder)
    token = desk.leases["x"].fencing_token
    assert yields(desk, "x") == ["granted y"]
    desk.at(3)
    assert resumes(desk, "x") == "waits"
    assert desk.order() == ["x", "z"]
    assert desk.release("y") == ["ended y released", "granted x"]
    assert desk.leases["x"].fencing_token > desk.leases["y"].fencing_token > token
    assert desk.release("x") == ["ended x released", "granted z"]


def test_it_keeps_its_place_behind_those_who_were_there_before() -> None:
    desk = Desk(PoolCore, 2)
    desk.ask("blocker", permits=2)
    desk.at(1)
    desk.ask("first", permits=2)
    desk.at(2)
    desk.ask("second")
    desk.at(3)
    desk.release("blocker")
    assert desk.holders() == ["first"]
    desk.release("first")
    desk.ask("other")
    yields(desk, "second")
    desk.ask("late")
    desk.ask("later", permits=2)
    assert resumes(desk, "second") == "waits"
    assert desk.order() == ["second", "later"]


def test_its_age_counts_from_its_first_arrival() -> None:
    desk = Desk(PoolCore, 1, aging_us=10 * SECOND)
    desk.ask("x", priority="background")
    desk.at(5)
    yields(desk, "x")
    desk.ask("y", "a")
    desk.at(25)
    desk.ask("z", "b", priority="interactive")
    assert resumes(desk, "x") == "waits"
    desk.at(30.5)  # rank 3, less one for each of 3 whole 10 s
    assert desk.release("y")[-1] == "granted x"


def test_resuming_at_once_a_try_in_vain_and_a_lease_that_never_yielded() -> None:
    desk = Desk(PoolCore, 1)
    desk.ask("x")
    assert resumes(desk, "x") == "back"
    token = desk.leases["x"].fencing_token
    yields(desk, "x")
    assert resumes(desk, "x") == "back"
    assert desk.leases["x"].fencing_token == token + 1
    yields(desk, "x")
    desk.ask("y")
    assert resumes(desk, "x", 0) == "acquire-timeout"
    assert resumes(desk, "x", 2) == "waits"
    assert desk.at(2) == ["left x acquire-timeout"]
    assert (desk.pool.in_use, desk.pool.drift(), desk.pool.resuming) == (1, 0, {})
    assert resumes(desk, "x", 2) == "waits"


@pytest.mark.parametrize("end", ["release", "revoke", "expire"])
def test_a_yielded_lease_ends_once_and_its_wait_with_it(end: str) -> None:
    desk = Desk(PoolCore, 1)
    desk.ask("x", ttl=10)
    yields(desk, "x")
    desk.ask("y", "b")
    resumes(desk, "x")
    events = desk.at(10) if end == "expire" else getattr(desk, end)("x")
    reason = {"release": "released", "revoke": "revoked", "expire": "expired"}[end]
    assert events == ["left x lease-ended", f"ended x {reason}"]
    assert (desk.pool.in_use, desk.pool.tenant_in_use("a"), desk.pool.drift(), desk.pool.waiting) == (1, 0, 0, 0)


def test_a_yielded_lease_cannot_be_resized_and_one_too_large_says_so() -> None:
    desk = Desk(PoolCore, 3)
    desk.ask("x", permits=3)
    yields(desk, "x")
    assert resize(desk, "x", 1) == "invalid"
    desk.change(capacity=2)
    assert resumes(desk, "x") == "exceeds-capacity"


def test_a_second_resume_takes_the_wait_over() -> None:
    desk = Desk(PoolCore, 1)
    desk.ask("x")
    yields(desk, "x")
    desk.ask("y")
    assert resumes(desk, "x", 5) == resumes(desk, "x", 50) == "waits"
    assert len(desk.pool.waiters) == 1
    assert desk.at(10) == []
    assert desk.release("y")[-1] == "granted x"


def test_random_leases_that_shrink_grow_yield_and_resume_conserve_permits() -> None:
    for seed in range(30):
        rng = random.Random(seed)
        desk = Desk(PoolCore, 5, shares={"b": Share(limit=3)}, aging_us=2 * SECOND)
        for number in range(300):
            live = [name for name, lease in desk.leases.items() if lease.lease_id in desk.pool.leases]
            name = rng.choice(live) if live else ""
            act = rng.choice(("ask", "ask", "release", "resize", "yield", "resume", "time", "revoke", "leave"))
            if act == "ask":
                timeout, ttl = rng.choice((0, 3)), rng.choice((2, 50))
                desk.ask(f"n{number}", rng.choice("abc"), rng.randint(1, 3), timeout=timeout, ttl=ttl)
            elif act == "time":
                desk.at(desk.now / SECOND + rng.random())
            elif act == "leave" and desk.pool.waiters:
                desk.pool.disconnect(rng.choice(list(desk.pool.waiters)), desk.now)
            elif act == "resize" and name:
                resize(desk, name, rng.randint(1, 3))
            elif act == "yield" and name:
                yields(desk, name)
            elif act == "resume" and name:
                resumes(desk, name, rng.choice((0, 3)))
            elif act in ("release", "revoke") and name:
                getattr(desk, act)(name)
            desk.events()
            held = [lease for lease in desk.pool.leases.values() if not lease.yielded]
            assert desk.pool.drift() == 0
            assert desk.pool.in_use == sum(lease.ask.permits for lease in held) <= 5
            for tenant in desk.pool.tenants.values():
                assert tenant.in_use == sum(lease.ask.permits for lease in held if lease.ask.tenant == tenant.name)
            active = sum(tenant.active for tenant in desk.pool.tenants.values())
            assert desk.pool._order._active == active
            waiting = {waiter.lease.lease_id for waiter in desk.pool.waiters.values() if waiter.lease}
            assert waiting == set(desk.pool.resuming)
        desk.at(desk.now / SECOND + 100)
        assert (desk.pool.in_use, dict(desk.pool.waiters), dict(desk.pool.leases)) == (0, {}, {})


def test_a_yielded_lease_survives_a_restart_as_yielded_and_resumes(run: Callable[..., None]) -> None:
    async def scenario(house: House) -> None:
        engine = await house.open()
        lease, _ = await engine.acquire("gpu", ask(ttl_s=60), Caller())
        await engine.yield_lease(lease.lease_id, "search")
        other, _ = await engine.acquire("gpu", ask(), Caller())
        engine = await house.open()
        assert (gauges_of(engine).in_use, gauges_of(engine).drift) == (1, 0)
        assert engine.lease(lease.lease_id, None).state == "yielded"
        waiting = asyncio.ensure_future(engine.resume_lease(lease.lease_id, "search", 5 * SECOND, Caller()))
        await settle()
        assert gauges_of(engine).waiting == 1
        await engine.release(other.lease_id, "search")
        back = await waiting
        assert back.fencing_token > other.fencing_token
        engine = await house.open()
        assert (gauges_of(engine).in_use, gauges_of(engine).drift) == (1, 0)
        with pytest.raises(Refused):
            await engine.acquire("gpu", ask(timeout_s=0), Caller())
        assert engine.lease(lease.lease_id, None).fencing_token == back.fencing_token

    run(scenario)


def test_who_leaves_while_its_lease_comes_back_leaves_it_yielded(run: Callable[..., None]) -> None:
    async def scenario(house: House) -> None:
        engine = await house.open()
        lease, _ = await engine.acquire("gpu", ask(), Caller())
        await engine.yield_lease(lease.lease_id, "search")
        other, _ = await engine.acquire("gpu", ask(), Caller())
        for moment in ("waiting", "granted"):
            caller = Caller()
            waiting = asyncio.ensure_future(engine.resume_lease(lease.lease_id, "search", 5 * SECOND, caller))
            await settle()
            if moment == "granted":
                slot_release = engine.release(other.lease_id, "search")
                caller.left.set_result(None)
                await slot_release
            else:
                caller.left.set_result(None)
            with pytest.raises(CallerGone):
                await waiting
            await settle()
            assert engine.lease(lease.lease_id, None).state == "yielded"
            assert gauges_of(engine).waiting == 0
        assert (gauges_of(engine).in_use, gauges_of(engine).drift) == (0, 0)
        engine = await house.open()
        assert engine.lease(lease.lease_id, None).state == "yielded"
        assert gauges_of(engine).in_use == 0

    run(scenario)


def test_a_disk_that_refuses_gives_no_permits_back(run: Callable[..., None]) -> None:
    async def scenario(house: House) -> None:
        engine = await house.open()
        lease, _ = await engine.acquire("gpu", ask(), Caller())
        await engine.yield_lease(lease.lease_id, "search")
        other, _ = await engine.acquire("gpu", ask(), Caller())
        engine.delivered(other)
        waiting = asyncio.ensure_future(engine.resume_lease(lease.lease_id, "search", 5 * SECOND, Caller()))
        await settle()
        house.journal.full = True
        await engine.release(other.lease_id, "search")
        with pytest.raises(Refused) as refusal:
            await waiting
        assert refusal.value.code == "engine-unavailable"
        assert (gauges_of(engine).in_use, gauges_of(engine).drift) == (0, 0)
        assert engine.lease(lease.lease_id, None).state == "yielded"

    run(scenario)
