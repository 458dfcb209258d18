"""The pool core alone, no HTTP and no loop: what a hand-over costs with many waiters, and how long the collector stops.

All rules are on: guarantees, limits, weights, ageing, four classes, requests of two sizes. Time is a fake clock.
"""

from __future__ import annotations

import gc
import itertools
import random
import subprocess
import sys
import time
from array import array
from collections.abc import Callable
from typing import Any, TypeVar

import msgspec
from msgspec import Struct

from bench.procs import ROOT
from bench.report import MEMORY, Figure
from relay.permits.engine.base import SECOND, Ask, Lease, PoolConfig, Share
from relay.permits.engine.core import PoolCore
from relay.permits.engine.events import Granted

Say = Callable[[str], None]
T = TypeVar("T")
SIZES = (10, 1_000, 100_000)
TENANTS = 1_000
CAPACITY = 64
HANDOVERS = 20_000
STEP_US = 2_000  # fake time between two hand-overs: 20,000 of them make every waiter age by one step
GC_THRESHOLDS = (5_000, 10, 1_000)  # the relay's own, relay/runtime.py
RANKS = {"critical": 0, "interactive": 1, "batch": 2, "background": 3}


class CoreTimes(Struct):
    """One size: hand-over (release, grant, events) and joining the queue in µs; the collector's pauses above 1 ms."""

    waiters: int
    tenants: int
    handover_p50_us: float
    handover_p99_us: float
    worst_us: float
    join_p50_us: float
    join_p99_us: float
    pauses_ms: list[float]
    full_collection_ms: float


class World:
    """A pool that is full, with so many waiters, and the callers around it."""

    def __init__(self, waiters: int) -> None:
        self.now = 0
        self.tenants = [f"tenant-{number}" for number in range(min(TENANTS, waiters))]
        self._random = random.Random(7)
        shares = {
            name: Share(weight=1.0 + number % 3, limit=4, guarantee=int(number < CAPACITY // 2))
            for number, name in enumerate(self.tenants)
        }
        config = PoolConfig("gpu", CAPACITY, max_waiters=1_000_000, shares=shares)
        numbers = itertools.count(1)
        self.core = PoolCore(
            config, 0, ranks=RANKS, weights={}, ids=lambda: f"{next(numbers):032x}", rng=random.Random(11)
        )
        self.held: list[Lease] = []
        while len(self.core.waiters) < waiters:
            self.join()

    def join(self) -> None:
        """One more acquire, 10 µs after the last."""
        self.now += 10
        self.enter(self.ask())

    def ask(self) -> Ask:
        """An acquire of a random tenant and class; one in twenty wants two permits."""
        pick = self._random
        permits = 2 if pick.random() < 0.05 else 1
        return Ask(pick.choice(self.tenants), permits, pick.choice(tuple(RANKS)), 3600 * SECOND, 3600 * SECOND)

    def enter(self, ask: Ask) -> None:
        """Asks; whoever is granted holds."""
        found = self.core.acquire(ask, self.now)
        if isinstance(found, Lease):
            self.held.append(found)
        self.take()

    def take(self) -> None:
        """Those who were granted hold."""
        self.held += [event.lease for event in self.core.take_events() if isinstance(event, Granted)]

    def pick_lease(self) -> Lease:
        """Takes a random live lease out of the held ones."""
        index = self._random.randrange(len(self.held))
        self.held[index], self.held[-1] = self.held[-1], self.held[index]
        return self.held.pop()


def measure(waiters: int) -> CoreTimes:
    """One size."""
    world = World(waiters)
    core, clock = world.core, time.perf_counter_ns
    handovers, joins, pauses = array("q"), array("q"), _Pauses()
    with pauses:
        for _ in range(HANDOVERS):
            lease = world.pick_lease()
            world.now += STEP_US
            began = clock()
            core.release(lease.lease_id, lease.ask.tenant, world.now)
            events = core.take_events()
            handovers.append(clock() - began)
            world.held += [event.lease for event in events if isinstance(event, Granted)]
            while len(core.waiters) < waiters:
                ask = world.ask()
                began = clock()
                world.enter(ask)
                joins.append(clock() - began)
    return CoreTimes(
        waiters,
        len(world.tenants),
        *_percentiles(handovers),
        max(max(handovers), max(joins)) / 1000,
        *_percentiles(joins),
        pauses.ms,
        _collection_ms(),
    )


def _percentiles(values: array[int]) -> tuple[float, float]:
    ordered = sorted(values)
    return ordered[len(ordered) // 2] / 1000, ordered[int(len(ordered) * 0.99)] / 1000


class _Pauses:
    """The garbage collector's own pauses while the block runs, those above 1 ms."""

    def __init__(self) -> None:
        self.ms: list[float] = []
        self._began = 0

    def __call__(self, phase: str, info: dict[str, Any]) -> None:
        if phase == "start":
            self._began = time.perf_counter_ns()
        elif (took := (time.perf_counter_ns() - self._began) / 1e6) > 1:
            self.ms.append(round(took, 2))

    def __enter__(self) -> None:
        gc.callbacks.append(self)

    def __exit__(self, *_: object) -> None:
        gc.callbacks.remove(self)


def _collection_ms() -> float:
    began = time.perf_counter_ns()
    gc.collect()
    return (time.perf_counter_ns() - began) / 1e6


def measure_pair() -> float:
    """µs of an acquire and its release, uncontended, median of 50,000."""
    world = World(0)
    world.tenants = ["only"]
    core, clock, times = world.core, time.perf_counter_ns, array("q")
    ask = Ask("only", 1, "interactive", SECOND, 60 * SECOND)
    for _ in range(50_000):
        world.now += 10
        began = clock()
        lease = core.acquire(ask, world.now)
        assert isinstance(lease, Lease)
        core.release(lease.lease_id, "only", world.now)
        core.take_events()
        times.append(clock() - began)
    return _percentiles(times)[0]


def run(say: Say) -> list[Figure]:
    """All sizes, each in a process of its own, with the collector as the relay sets it; the largest also as Python does."""
    figures = [Figure("acquire and release, uncontended pair", MEMORY, _child(0, float), "µs")]
    for size in SIZES:
        say(f"core with {size:,} waiters")
        times = _child(size, CoreTimes)
        figures += _figures(times)
    say(f"core with {size:,} waiters, the collector as Python sets it")
    usual = _child(size, CoreTimes, "python")
    for title, seen in (("relay", times), ("Python", usual)):
        figures.append(
            Figure(
                f"collector's worst pause as {title} sets it, {size:,} waiters",
                MEMORY,
                max(seen.pauses_ms, default=0.0),
                "ms",
                note=f"{len(seen.pauses_ms)} above 1 ms in {HANDOVERS:,} hand-overs",
                data=msgspec.to_builtins(seen),
            )
        )
    figures.append(Figure(f"a full collection with {size:,} waiters", MEMORY, times.full_collection_ms, "ms"))
    return figures


def _figures(times: CoreTimes) -> list[Figure]:
    who = f"{times.waiters:,} waiters, {times.tenants:,} tenants"
    note = f"p99 {times.handover_p99_us:.1f}, worst pause of any call {times.worst_us / 1000:.2f} ms"
    most = 20 if times.waiters == max(SIZES) else None
    data = msgspec.to_builtins(times)
    return [
        Figure(f"hand-over, {who}", MEMORY, times.handover_p50_us, "µs", most=most, note=note, data=data),
        Figure(f"joining the queue, {who}", MEMORY, times.join_p50_us, "µs", note=f"p99 {times.join_p99_us:.1f}"),
    ]


def _child(size: int, kind: type[T], collector: str = "relay") -> T:
    command = [sys.executable, "-m", "bench.core_bench", str(size), collector]
    done = subprocess.run(command, cwd=ROOT, start_new_session=True, stdout=subprocess.PIPE, check=False)
    if done.returncode:
        raise RuntimeError(f"The core's measurement ended with code {done.returncode}; its message is above.")
    return msgspec.json.decode(done.stdout, type=kind)


def main() -> None:
    """Measures one size (0: the uncontended pair), prints it as JSON. The second argument: whose collector settings."""
    size = int(sys.argv[1])
    if sys.argv[2] == "relay":
        gc.collect()
        gc.freeze()
        gc.set_threshold(*GC_THRESHOLDS)
    print(msgspec.json.encode(measure(size) if size else measure_pair()).decode())


if __name__ == "__main__":
    main()
