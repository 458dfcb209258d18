"""Acquires over several pools on the pure cores: all or nothing, nobody blocked, nobody starved, nobody forgotten."""

from __future__ import annotations

import asyncio
import itertools
import random
import re
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs

from bench import schedules
from relay.permits.engine.base import SECOND, Ask, Lease, PoolConfig, Refused, Share
from relay.permits.engine.core import PoolCore
from relay.permits.engine.events import Ended, Granted, Left
from relay.permits.engine.several import Joint, Repeated, Several
from tests.permits import test_memory

RANKS = {"critical": 0, "interactive": 1, "batch": 2, "background": 3}


class House:
    """Pools by name, and their callers by holder; times in seconds."""

    def __init__(self, **capacities: int) -> None:
        ids = itertools.count(1)
        self.several = Several()
        self.now = 0
        self.pools = {
            name: PoolCore(
                PoolConfig(name, capacity, aging_us=None),
                0,
                ranks=RANKS,
                weights={},
                ids=lambda: f"id-{next(ids)}",
                rng=random.Random(1),
            )
            for name, capacity in capacities.items()
        }
        self.held: dict[str, list[tuple[PoolCore, Lease]]] = {}
        self.joints: dict[str, Joint] = {}

    def ask(self, holder: str, pools: str, *, timeout: float = 1000, ttl: float = 9999, **fields: Any) -> str:
        """Acquires one of each pool named by a letter (a digit behind it: so many). `granted`, `waits`, or a code."""
        ask = Ask("t", 1, "interactive", int(timeout * SECOND), int(ttl * SECOND), holder)
        ask = structs.replace(ask, **fields)
        wanted = [
            (self.pools[letter], structs.replace(ask, permits=int(permits or 1)))
            for letter, permits in re.findall(r"([a-z])(\d?)", pools)
        ]
        try:
            if len(wanted) == 1:
                single = wanted[0][0].acquire(wanted[0][1], self.now)
                got: Any = [single] if isinstance(single, Lease) else single
            else:
                got = self.several.acquire(wanted, self.now)
        except Refused as refused:
            self.carry()
            return refused.code
        if isinstance(got, Repeated):
            return "existing"
        if isinstance(got, list):
            self.held[holder] = [(core, lease) for (core, _), lease in zip(wanted, got, strict=True)]
            return "granted"
        if isinstance(got, Joint):
            self.joints[holder] = got
        return "waits"

    def release(self, holder: str) -> list[str]:
        """Releases all that a holder has; who was granted, who left."""
        for core, lease in self.held.pop(holder):
            core.release(lease.lease_id, lease.ask.tenant, self.now)
        return self.carry()

    def at(self, second: float) -> list[str]:
        """Moves on, with a tick each second as the engine does."""
        seen: list[str] = []
        while self.now < second * SECOND:
            self.now = min(self.now + SECOND, int(second * SECOND))
            for core in self.pools.values():
                core.advance(self.now)
            self.several.tick(self.now)
            seen += self.carry()
        return seen

    def configure(self, pool: str, **fields: Any) -> list[str]:
        """Changes a pool."""
        core = self.pools[pool]
        core.configure(structs.replace(core.config, **fields), self.now)
        return self.carry()

    def carry(self) -> list[str]:
        """What happened to others, each once though it be in several pools."""
        self.several.settle()
        seen: dict[str, None] = {}
        for core in self.pools.values():
            for event in core.take_events():
                if isinstance(event, Granted):
                    holder = event.lease.ask.holder
                    self.held.setdefault(holder, []).append((core, event.lease))
                    seen[f"granted {holder}"] = None
                elif isinstance(event, Left):
                    seen[f"left {event.waiter.ask.holder} {event.code}"] = None
                else:
                    assert isinstance(event, Ended)
        return list(seen)

    def in_use(self) -> dict[str, int]:
        """Permits held by pool."""
        return {name: core.in_use for name, core in self.pools.items()}


def test_all_are_granted_at_once_or_none_is() -> None:
    house = House(a=1, b=1, c=1)
    assert house.ask("x", "b") == "granted"
    assert house.ask("try", "abc", timeout=0) == "acquire-timeout"
    assert house.in_use() == {"a": 0, "b": 1, "c": 0}
    assert house.ask("ac", "ac") == "granted"
    assert house.in_use() == {"a": 1, "b": 1, "c": 1}


def test_a_joint_waiter_is_granted_when_the_last_of_its_pools_can_serve_it() -> None:
    house = House(a=1, b=1)
    house.ask("x", "a")
    house.ask("y", "b")
    assert house.ask("both", "ab") == "waits"
    assert house.release("x") == []
    assert house.in_use() == {"a": 0, "b": 1}
    assert house.release("y") == ["granted both"]
    assert [lease.pool for _, lease in house.held["both"]] == ["a", "b"]


def test_it_blocks_nobody_while_it_cannot_be_served() -> None:
    house = House(a=1, b=1)
    house.ask("y", "b")
    house.ask("both", "ab")
    assert house.ask("later", "a") == "granted"
    assert house.ask("last", "a") == "waits"
    assert house.release("later") == ["granted last"]


def test_it_goes_before_who_came_later_where_it_can_be_served() -> None:
    house = House(a=1, b=1)
    house.ask("x", "a")
    house.ask("both", "ab")
    house.ask("later", "a")
    assert house.release("x") == ["granted both"]
    assert house.release("both") == ["granted later"]


def test_it_waits_behind_who_came_first_and_behind_the_more_urgent() -> None:
    house = House(a=1, b=1)
    house.ask("x", "a")
    house.ask("first", "a")
    house.ask("both", "ab", priority="batch")
    house.ask("urgent", "a", priority="critical")
    assert house.release("x") == ["granted urgent"]
    assert house.release("urgent") == ["granted first"]
    assert house.release("first") == ["granted both"]


def test_among_joint_waiters_the_more_urgent_goes_first() -> None:
    house = House(a=1, b=1)
    house.ask("x", "ab")
    house.ask("slow", "ab", priority="background")
    house.ask("fast", "ba", priority="critical")
    assert house.release("x") == ["granted fast"]
    assert house.release("fast") == ["granted slow"]


def test_case_14_both_ways_at_once_a_thousand_times() -> None:
    house = House(a=1, b=1)
    for number in range(1000):
        assert house.ask(f"ab-{number}", "ab") == ("granted" if not number else "waits")
        assert house.ask(f"ba-{number}", "ba") == "waits"
    served = ["ab-0"]
    while house.held:
        assert house.in_use() == {"a": 1, "b": 1}
        served += [event.removeprefix("granted ") for event in house.release(served[-1])]
    assert served == [f"{way}-{number}" for number in range(1000) for way in ("ab", "ba")]


def test_a_stream_of_single_acquires_does_not_starve_it() -> None:
    house = House(a=1, b=1)
    house.ask("a-0", "a")
    house.ask("b-0", "b")
    house.ask("both", "ab", timeout=300)
    for number in range(1, 400):  # each pool is handed over at another time: never are both free
        name = "ab"[number % 2]
        house.ask(f"{name}-{number}", name)
        granted = house.at(number) + house.release(next(holder for holder in house.held if holder[:2] == f"{name}-"))
        if "granted both" in granted:
            break
    assert 30 <= house.now / SECOND <= 34
    assert not any(core.reserved for core in house.pools.values())
    assert house.release("both")


def test_what_is_kept_back_is_no_more_than_it_needs() -> None:
    house = House(a=3, b=1)
    house.ask("y", "b")
    house.ask("both", "a2b")
    house.at(33)
    assert house.ask("one", "a", timeout=0) == "granted"
    assert house.ask("two", "a", timeout=0) == "acquire-timeout"
    assert house.release("y") == ["granted both"]


def test_two_that_keep_permits_back_share_no_pool_and_the_older_comes_first() -> None:
    house = House(a=1, b=1, c=1)
    for pool in "abc":
        house.ask(pool, pool)
    house.ask("ab", "ab")
    house.ask("bc", "bc")
    house.at(40)
    assert [house.joints[name].reserving for name in ("ab", "bc")] == [True, False]
    assert house.release("c") + house.release("b") + house.release("a") == ["granted ab"]
    assert house.release("ab") == ["granted bc"]


@pytest.mark.parametrize("change", [{"state": "paused"}, {"capacity": 1}])
def test_who_can_no_longer_be_served_gives_up_what_was_kept_back(change: dict[str, Any]) -> None:
    house = House(a=2, b=1)
    house.configure("a", ceiling=2)
    house.ask("y", "b")
    house.ask("both", "a2b")
    house.at(35)
    assert house.pools["b"].reserved == 1
    house.configure("a", **change)
    house.at(37)
    assert house.pools["b"].reserved == house.pools["a"].reserved == 0
    assert house.joints["both"].open


def test_a_tenant_at_its_limit_in_one_pool_is_passed_over() -> None:
    house = House(a=2, b=2)
    house.configure("a", shares={"t": Share(limit=1)})
    house.ask("x", "a")
    assert house.ask("both", "ab") == "waits"
    assert house.ask("other", "a", tenant="u") == "granted"
    assert house.release("x") == ["granted both"]


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"pools": "ab5"}, "exceeds-capacity"),
        ({"pools": "ab", "state": "draining"}, "pool-draining"),
        ({"pools": "ab", "state": "paused", "timeout": 0}, "pool-paused"),
        ({"pools": "ab", "max_waiters": 0}, "queue-full"),
    ],
)
def test_a_refusal_of_one_pool_changes_nothing_in_the_others(fields: dict[str, Any], code: str) -> None:
    house = House(a=2, b=2)
    house.ask("x", "b2")
    change = {name: fields.pop(name) for name in ("state", "max_waiters") if name in fields}
    house.configure("b", **change)
    assert house.ask("both", **fields) == code
    assert house.in_use() == {"a": 0, "b": 2}
    assert not any(core.waiters or core.serve_joint for core in house.pools.values())
    assert house.ask("a", "a2", timeout=0) == "granted"


def test_its_time_is_up_in_all_pools_at_once_and_nobody_loses_a_permit() -> None:
    house = House(a=1, b=1)
    house.ask("y", "b")
    house.ask("both", "ab", timeout=2)
    assert house.at(1.9) == []
    assert house.at(2) == ["left both acquire-timeout"]
    assert not any(core.waiters for core in house.pools.values())
    house.release("y")
    assert house.in_use() == {"a": 0, "b": 0}


def test_it_leaves_everywhere_when_one_part_is_cancelled_or_its_pool_shrinks_or_goes() -> None:
    house = House(a=2, b=2)
    house.ask("x", "b2")
    for end in ("cancel", "shrink", "close", "leave"):
        house.ask(end, "a2b2")
        core, part = house.joints[end].parts[1]
        if end == "cancel":
            core.cancel(part.waiter_id, house.now)
        elif end == "shrink":
            core.configure(structs.replace(core.config, capacity=1), house.now)
        elif end == "leave":
            house.several.leave(house.joints[end], house.now)
        else:
            core.turn_away("pool-not-found", house.now)
        codes = {"cancel": "waiter-cancelled", "shrink": "exceeds-capacity", "leave": "cancelled"}
        assert house.carry() == [f"left {end} {codes.get(end, 'pool-not-found')}"]
        assert not any(pool.waiters or pool.waiting for pool in house.pools.values())
        house.configure("b", capacity=2)


def test_a_repeat_takes_the_waiter_over_and_then_gets_its_leases() -> None:
    house = House(a=1, b=1)
    house.ask("y", "b")
    assert house.ask("both", "ab", timeout=5, key="k") == "waits"
    waiting = house.joints["both"]
    house.at(4)
    assert house.ask("both", "ab", timeout=5, key="k") == "waits"
    assert house.joints["both"] is waiting
    assert house.ask("both", "ab", timeout=0, key="k") == "acquire-timeout"
    assert house.ask("both", "ab", key="k", priority="batch") == "idempotency-conflict"
    assert house.at(8) == []
    assert house.release("y") == ["granted both"]
    assert house.ask("both", "ba", key="k") == "existing"
    core, lease = house.held["both"][0]
    core.release(lease.lease_id, "t", house.now)
    assert house.ask("both", "ab", key="k") == "idempotency-conflict"


@pytest.mark.parametrize("seed", range(1, 5))
def test_random_schedules_keep_every_promise(seed: int) -> None:
    at_once, waited = schedules.run(5_000, seed, each=1_000)
    assert at_once > 50
    assert waited > 20


def test_the_leases_of_a_joint_grant_are_in_one_write_and_all_of_them_come_after_a_restart(tmp_path: Path) -> None:
    async def scenario() -> None:
        house = test_memory.House(tmp_path / "engine")
        house.pools = {name: PoolConfig(name, 1) for name in "abc"}
        engine = await house.open()
        frames: list[list[str]] = []
        write = house.journal.write

        def noted(records: list[Any]) -> None:
            frames.append([record.pool for record in records if isinstance(record, Lease)])
            write(records)

        house.journal.write = noted  # type: ignore[method-assign]
        joint = [(name, test_memory.ask(holder="joint")) for name in "cab"]
        first, _ = await engine.acquire_several(joint, test_memory.Caller())
        waiting = asyncio.ensure_future(engine.acquire_several(joint, test_memory.Caller()))
        for lease in first:
            await test_memory.settle()
            await engine.release(lease.lease_id, "search")
        leases, granted = await waiting
        assert granted
        assert [lease.pool for lease in leases] == ["c", "a", "b"]
        assert [sorted(frame) for frame in frames if frame] == [["a", "b", "c"], ["a", "b", "c"]]
        engine = await house.open()
        assert [engine.lease(lease.lease_id, None).pool for lease in leases] == ["c", "a", "b"]

    asyncio.run(scenario())
