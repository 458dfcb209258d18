"""The pool of the classic tutorial (a lock, and `sleep(0.1)` between tries) beside the relay's core, on the same loop.

Same callers, same hold times; only the pool differs. What counts: how long the unlucky wait, whether the order of arrival
is kept, and how long a lone waiter sleeps on although a permit is free.
"""

from __future__ import annotations

import asyncio
import itertools
import random
import time
from collections.abc import Callable
from typing import Protocol

from msgspec import Struct

from bench.report import MEMORY, Figure
from relay.permits.engine.base import SECOND, Ask, Lease, PoolConfig
from relay.permits.engine.core import PoolCore
from relay.permits.engine.events import Granted
from relay.permits.engine.waiting import Waiter

Say = Callable[[str], None]
CALLERS, CAPACITY, TURNS, HOLD_S = 32, 8, 12, 0.02


class Pool(Protocol):
    """What both pools do."""

    async def acquire(self) -> str:
        """Waits for a permit."""

    async def release(self, held: str) -> None:
        """Gives it back."""


class NaivePool:
    """A counter behind a lock; whoever finds nothing sleeps 0.1 s and tries again."""

    def __init__(self, capacity: int) -> None:
        self._lock = asyncio.Lock()
        self._free = capacity

    async def acquire(self) -> str:
        """Tries until a permit is free."""
        while True:
            async with self._lock:
                if self._free > 0:
                    self._free -= 1
                    return ""
            await asyncio.sleep(0.1)

    async def release(self, held: str) -> None:
        """Counts the permit back; nobody is told."""
        async with self._lock:
            self._free += 1


class CorePool:
    """The relay's core with one future per waiter."""

    def __init__(self, capacity: int) -> None:
        numbers = itertools.count(1)
        ranks = {"interactive": 1}
        config = PoolConfig("gpu", capacity)
        self._core = PoolCore(
            config, _now_us(), ranks=ranks, weights={}, ids=lambda: f"{next(numbers):x}", rng=random.Random(1)
        )
        self._waiting: dict[str, asyncio.Future[str]] = {}

    async def acquire(self) -> str:
        """Waits until the core hands a permit over."""
        found = self._core.acquire(Ask("only", 1, "interactive", 60 * SECOND, 60 * SECOND), _now_us())
        if isinstance(found, Lease):
            return found.lease_id
        assert isinstance(found, Waiter)
        future: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self._waiting[found.waiter_id] = future
        return await future

    async def release(self, held: str) -> None:
        """Ends the lease; whoever is next is woken."""
        self._core.release(held, "only", _now_us())
        for event in self._core.take_events():
            if isinstance(event, Granted):
                self._waiting.pop(event.waiter.waiter_id).set_result(event.lease.lease_id)


def _now_us() -> int:
    return time.monotonic_ns() // 1000


class Behaviour(Struct):
    """What callers saw: waits, the share of grants with nobody earlier still waiting, and a lone waiter's wake-up."""

    wait_p50_ms: float
    wait_p99_ms: float
    in_order: float
    lone_p50_ms: float
    lone_max_ms: float


async def observe(make: Callable[[int], Pool]) -> Behaviour:
    """32 callers on 8 permits, then one waiter alone, 15 times."""
    waits, orderly = await crowd(make(CAPACITY))
    alone = sorted([await lone(make(1), 0.03 + 0.007 * turn) for turn in range(15)])
    waits.sort()
    return Behaviour(
        wait_p50_ms=waits[len(waits) // 2] * 1000,
        wait_p99_ms=waits[int(len(waits) * 0.99)] * 1000,
        in_order=sum(orderly) / len(orderly),
        lone_p50_ms=alone[len(alone) // 2] * 1000,
        lone_max_ms=alone[-1] * 1000,
    )


async def crowd(pool: Pool) -> tuple[list[float], list[bool]]:
    """Each caller's waits in seconds, and for each grant whether nobody earlier still waited."""
    waits: list[float] = []
    orderly: list[bool] = []
    arrivals = itertools.count()
    present: set[int] = set()

    async def caller() -> None:
        for _ in range(TURNS):
            number = next(arrivals)
            present.add(number)
            began = time.perf_counter()
            held = await pool.acquire()
            waits.append(time.perf_counter() - began)
            orderly.append(number == min(present))
            present.remove(number)
            await asyncio.sleep(HOLD_S)
            await pool.release(held)

    await asyncio.gather(*(caller() for _ in range(CALLERS)))
    return waits, orderly


async def lone(pool: Pool, hold_s: float) -> float:
    """Seconds from the release to the moment at which the only waiter has its permit."""
    held = await pool.acquire()
    woken = 0.0

    async def waiter() -> None:
        nonlocal woken
        await pool.release(await pool.acquire())
        woken = time.perf_counter()

    task = asyncio.create_task(waiter())
    await asyncio.sleep(hold_s)
    released = time.perf_counter()
    await pool.release(held)
    await task
    return woken - released


def run(say: Say) -> list[Figure]:
    """Both pools, one after the other."""
    figures = []
    for name, make in (("tutorial pool", NaivePool), ("relay's core", CorePool)):
        say(name)
        seen = asyncio.run(observe(make))
        figures += [
            Figure(f"{name}: wait, p99 ({CALLERS} callers, {CAPACITY} permits)", MEMORY, seen.wait_p99_ms, "ms"),
            Figure(f"{name}: grants in order of arrival", MEMORY, seen.in_order * 100, "%"),
            Figure(
                f"{name}: wake-up of a lone waiter",
                MEMORY,
                seen.lone_p50_ms,
                "ms",
                note=f"worst {seen.lone_max_ms:.3g}",
            ),
        ]
    return figures
