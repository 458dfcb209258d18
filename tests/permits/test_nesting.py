"""Acquires by holders: what could never end is refused, what can is not, and no declared circle ever closes."""

from __future__ import annotations

import itertools
import random

import pytest
from msgspec import structs

from relay.permits.engine.base import SECOND, Ask, Lease, PoolConfig, Refused, Share
from relay.permits.engine.core import PoolCore
from relay.permits.engine.events import Granted
from relay.permits.engine.nesting import Holding, Nesting
from relay.permits.engine.waiting import Waiter

RANKS = {"critical": 0, "interactive": 1, "batch": 2, "background": 3}


class House:
    """Pools by name and holders by name."""

    def __init__(self, seed: int = 1, **capacities: int) -> None:
        ids = itertools.count(1)
        self.pools = {
            name: PoolCore(
                PoolConfig(name, capacity, aging_us=None),
                0,
                ranks=RANKS,
                weights={},
                ids=lambda: f"id-{next(ids)}",
                rng=random.Random(seed),
            )
            for name, capacity in capacities.items()
        }
        self.nesting = Nesting(self.find)
        self.held: dict[str, tuple[PoolCore, Lease]] = {}

    def find(self, lease_id: str) -> Holding | None:
        """A live lease and its pool."""
        return next(((core, core.leases[lease_id]) for core in self.pools.values() if lease_id in core.leases), None)

    def ask(
        self,
        holder: str,
        pool: str,
        permits: int = 1,
        parent: str | None = None,
        *,
        timeout: int = 1000,
        tenant: str = "t",
    ) -> str:
        """`granted`, `waits`, or a code."""
        lease_id = None if parent is None else self.held[parent][1].lease_id
        ask = Ask(tenant, permits, "interactive", timeout * SECOND, 10**12, holder, {}, None, 0, lease_id)
        core = self.pools[pool]
        try:
            got = core.acquire(ask, 0) if parent is None else self.nesting.acquire(core, ask, 0)
        except Refused as refused:
            return refused.code
        if isinstance(got, Waiter):
            return "waits" if got.waiter_id in core.waiters else self.carry()[0]
        assert isinstance(got, Lease)
        self.held[holder] = core, got
        return "granted"

    def release(self, holder: str) -> list[str]:
        """Who was granted by that."""
        core, lease = self.held.pop(holder)
        core.release(lease.lease_id, lease.ask.tenant, 0)
        return self.carry()

    def carry(self) -> list[str]:
        """Who was granted."""
        granted = []
        for core in self.pools.values():
            for event in core.take_events():
                if isinstance(event, Granted):
                    self.held[event.lease.ask.holder] = core, event.lease
                    granted.append(event.lease.ask.holder)
        return granted


def test_a_child_that_never_fits_beside_its_parents_is_refused_at_once() -> None:
    house = House(gpu=4)
    house.ask("root", "gpu", 2)
    assert house.ask("child", "gpu", 1, "root") == "granted"
    assert house.ask("grandchild", "gpu", 2, "child", timeout=0) == "would-deadlock"
    assert house.ask("grandchild", "gpu", 1, "child") == "granted"
    assert house.ask("stranger", "gpu", 4) == "waits"


def test_a_limit_counts_as_the_capacity_does() -> None:
    house = House(gpu=9)
    core = house.pools["gpu"]
    core.configure(structs.replace(core.config, shares={"t": Share(limit=3)}), 0)
    house.ask("root", "gpu", 2)
    assert house.ask("child", "gpu", 2, "root") == "would-deadlock"
    assert house.ask("child", "gpu", 4, "root") == "exceeds-tenant-limit"
    assert house.ask("child", "gpu", 1, "root") == "granted"


def test_who_closes_the_circle_is_refused_and_the_others_go_on() -> None:
    house = House(gpu=2)
    house.ask("a", "gpu")
    house.ask("b", "gpu")
    assert house.ask("a-child", "gpu", 1, "a") == "waits"
    before = [waiter.waiter_id for waiter, _ in house.pools["gpu"].queue(9)]
    assert house.ask("b-child", "gpu", 1, "b") == "would-deadlock"
    assert [waiter.waiter_id for waiter, _ in house.pools["gpu"].queue(9)] == before
    assert house.release("b") == ["a-child"]


def test_a_circle_over_two_pools_is_seen() -> None:
    house = House(a=1, b=1)
    house.ask("x", "a")
    house.ask("y", "b")
    assert house.ask("x-child", "b", 1, "x") == "waits"
    assert house.ask("y-child", "a", 1, "y") == "would-deadlock"


def test_a_child_behind_one_for_whom_the_pool_must_save_up_is_refused() -> None:
    house = House(gpu=3)
    house.ask("a", "gpu", 1)
    assert house.ask("whole", "gpu", 3) == "waits"
    assert house.ask("child", "gpu", 1, "a") == "would-deadlock"


def test_a_wait_that_can_end_is_allowed() -> None:
    house = House(gpu=3)
    house.ask("a", "gpu")
    house.ask("b", "gpu")
    house.ask("free", "gpu")  # it has no child: it ends by itself
    assert house.ask("a-child", "gpu", 1, "a") == "waits"
    assert house.ask("b-child", "gpu", 1, "b") == "waits"
    assert house.release("free") == ["a-child"]
    assert house.release("a-child") == ["b-child"]


def test_a_circle_is_over_when_one_of_it_has_left() -> None:
    house = House(gpu=2)
    house.ask("a", "gpu")
    house.ask("b", "gpu")
    house.ask("a-child", "gpu", 1, "a")
    core = house.pools["gpu"]
    core.cancel(next(iter(core.waiters)), 0)
    assert house.ask("b-child", "gpu", 1, "b") == "waits"


@pytest.mark.parametrize("seed", range(40))
def test_whoever_asks_for_what_a_declared_circle_never_closes(seed: int) -> None:
    rng = random.Random(seed)
    house = House(seed, a=rng.randint(1, 5), b=rng.randint(1, 5))
    parents: dict[str, str | None] = {}
    waiting: set[str] = set()
    refused = 0
    for number in range(400):
        busy = {parents[name] for name in waiting}
        idle = [name for name in house.held if name not in busy]
        assert idle or not house.held, f"deadlock of {sorted(house.held)}"
        leaves = [name for name in idle if name not in parents.values()]
        if leaves and (rng.random() < 0.45 or number > 350):
            name = rng.choice(leaves)
            parents.pop(name)
            waiting -= set(house.release(name))
            continue
        name = f"n{number}"
        parent = rng.choice(idle) if idle and rng.random() < 0.7 else None
        answer = house.ask(name, rng.choice("ab"), rng.choice((1, 1, 2, 3)), parent)
        if answer in ("granted", "waits", name):
            parents[name] = parent
        refused += answer == "would-deadlock"
        if answer == "waits":
            waiting.add(name)
        waiting -= set(house.held)
    assert refused
