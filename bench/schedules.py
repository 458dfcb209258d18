"""Random schedules over several pools on the pure core: `python -m bench.schedules --operations 1000000`.

After each operation it is checked that permits are conserved, that a joint grant is whole, and that no joint waiter that
could be served still waits; at the end of each schedule, once all leases have ended, that nobody waits who can be served.
"""

from __future__ import annotations

import argparse
import itertools
import random
import time

from msgspec import structs

from relay.permits.engine import parts
from relay.permits.engine.base import SECOND, Ask, Lease, PoolConfig, Refused, Share
from relay.permits.engine.core import PoolCore
from relay.permits.engine.events import Ended, Granted
from relay.permits.engine.several import Joint, Repeated, Several

RANKS = {"critical": 0, "interactive": 1, "batch": 2, "background": 3}
TENANTS = ("a", "b", "c")


class Schedule:
    """Some pools, a clock, and whoever asks. Raises AssertionError where a promise is broken."""

    def __init__(self, seed: int, *, reserve_after_us: int = 3 * SECOND) -> None:
        self.rng = random.Random(seed)
        self.now = 0
        self.several = Several(reserve_after_us)
        numbers = itertools.count(1)
        self.cores = [self._pool(index, lambda: f"id-{next(numbers)}") for index in range(self.rng.randint(2, 6))]
        self.joints: list[Joint] = []
        self.held: list[tuple[PoolCore, Lease]] = []
        self.granted = 0  # joint waiters that were served
        self.at_once = 0
        self._number = 0
        self._most: dict[PoolCore, int] = {}  # what each could come to before a shrink

    def _pool(self, index: int, ids: object) -> PoolCore:
        rng = self.rng
        shares = {"a": Share(limit=rng.choice((None, 1, 2))), "b": Share(guarantee=rng.choice((0, 0, 1)))}
        config = PoolConfig(f"p{index}", rng.randint(1, 5), shares=shares, aging_us=rng.choice((None, 2 * SECOND)))
        return PoolCore(config, 0, ranks=RANKS, weights={"c": 2.0}, ids=ids, rng=rng)  # type: ignore[arg-type]

    def run(self, operations: int) -> None:
        """So many random operations, then the end."""
        for _ in range(operations):
            self.step()
        self.end()

    def step(self) -> None:
        """One operation."""
        self.now += self.rng.choice((0, 1, 1000, SECOND // 20, SECOND // 2))
        what = self.rng.choices(
            (self.ask, self.ask_jointly, self.release, self.leave, self.cancel, self.change, self.tick),
            (20, 25, 40, 3, 2, 2, 8),
        )[0]
        what()
        self.carry()
        self.check()

    # Operations

    def _ask(self, permits: int, key: str | None = None) -> Ask:
        rng = self.rng
        self._number += 1
        timeout_us = rng.choice((0, SECOND, 20 * SECOND, 1000 * SECOND))
        ttl_us = rng.choice((SECOND, 50 * SECOND))
        return Ask(
            rng.choice(TENANTS), permits, rng.choice(list(RANKS)), timeout_us, ttl_us, str(self._number), {}, key
        )

    def ask(self) -> None:
        """An ordinary acquire."""
        core = self.rng.choice(self.cores)
        try:
            got = core.acquire(self._ask(self.rng.randint(1, 3)), self.now)
        except Refused:
            return
        if isinstance(got, Lease):
            self.held.append((core, got))

    def ask_jointly(self) -> None:
        """An acquire over several pools, in any order."""
        cores = self.rng.sample(self.cores, self.rng.randint(1, len(self.cores)))
        ask = self._ask(1)
        wanted = [(core, structs.replace(ask, permits=self.rng.randint(1, 2))) for core in cores]
        before = self.state(self.now)
        try:
            got = self.several.acquire(wanted, self.now)
        except Refused:
            assert self.state(self.now) == before, "a refusal changed something"
            return
        assert not isinstance(got, Repeated)
        if isinstance(got, Joint):
            if got.open:
                self.joints.append(got)
            return
        assert [lease.pool for lease in got] == [core.config.name for core in cores]
        self.at_once += 1
        self.held += zip(cores, got, strict=True)

    def release(self) -> None:
        """Somebody is done."""
        if self.held:
            core, lease = self.held.pop(self.rng.randrange(len(self.held)))
            core.release(lease.lease_id, lease.ask.tenant, self.now)

    def leave(self) -> None:
        """The caller of a joint waiter leaves."""
        if self.joints:
            self.several.leave(self.rng.choice(self.joints), self.now)

    def cancel(self) -> None:
        """An operator ends a wait, perhaps of a part."""
        core = self.rng.choice(self.cores)
        if core.waiters:
            core.cancel(self.rng.choice(list(core.waiters)), self.now)

    def change(self) -> None:
        """A pool is resized, paused or made active."""
        core = self.rng.choice(self.cores)
        state = self.rng.choices(("active", "paused", "draining"), (8, 1, 1))[0]
        core.configure(structs.replace(core.config, capacity=self.rng.randint(1, 5), state=state), self.now)

    def tick(self) -> None:
        """Time alone: what the engine's timers do."""
        for core in self.cores:
            core.advance(self.now)
        self.several.tick(self.now)

    # Checks

    def carry(self) -> None:
        """Takes the events: who was granted holds from now on. A joint grant is whole."""
        self.several.settle()
        served: dict[Joint, int] = {}
        for core in self.cores:
            for event in core.take_events():
                if isinstance(event, Granted):
                    self.held.append((core, event.lease))
                    if event.waiter.joint is not None:
                        served[event.waiter.joint] = served.get(event.waiter.joint, 0) + 1
                elif isinstance(event, Ended) and (core, event.lease) in self.held:
                    self.held.remove((core, event.lease))
        for joint, count in served.items():
            assert count == len(joint.parts), "half a joint grant"
        self.granted += len(served)
        self.joints = [joint for joint in self.joints if joint.open]

    def check(self) -> None:
        """What holds at any time."""
        for core in self.cores:
            assert core.drift() == 0
            assert core.in_use == sum(lease.ask.permits for lease in core.leases.values())
            most = max(core.config.capacity, self._most.get(core, 0))
            assert core.in_use <= most, "granted beyond the capacity"
            self._most[core] = max(core.in_use, core.config.capacity)
            of_joints = sum(1 for joint in self.joints for other, _ in joint.parts if other is core)
            ordinary = sum(waiter.connected for waiter in core.waiters.values())
            assert core.waiting == ordinary + of_joints
            assert (core.serve_joint is not None) == bool(of_joints)
        kept = [core for joint in self.joints if joint.reserving for core, _ in joint.parts]
        assert len(kept) == len(set(kept)), "two keep permits back in one pool"
        for joint in self.joints:
            assert not self.servable(joint), "it could be served, and waits"

    def servable(self, joint: Joint) -> bool:
        """Whether all its pools, at one and the same moment, would serve it; what time alone changes is for the tick."""
        if any(core.now != self.now for core, _ in joint.parts) or any(core.config.aging_us for core, _ in joint.parts):
            return False
        return all(parts.fits(core, waiter.ask, waiter) for core, waiter in joint.parts)

    def state(self, now: int) -> list[object]:
        """What a refusal must not change."""
        for core in self.cores:
            core.advance(now)
        self.carry()
        return [
            (
                core.in_use,
                list(core.leases),
                list(core.waiters),
                core.room,
                [waiter.waiter_id for waiter, _ in core.queue(99)],
            )
            for core in self.cores
        ]

    def end(self) -> None:
        """All leases end as they come: everybody who can be served is, before anybody's time is up."""
        for core in self.cores:
            core.configure(structs.replace(core.config, capacity=5, state="active", shares={}), self.now)
        self.carry()
        waiting = {waiter.waiter_id for core in self.cores for waiter in core.waiters.values()}
        for _ in range(20 * (len(waiting) + len(self.held) + 1)):
            if not self.held and not any(core.waiters for core in self.cores):
                break
            while self.held:
                core, lease = self.held.pop()
                core.release(lease.lease_id, lease.ask.tenant, self.now)
                self.carry()
            self.tick()
            self.carry()
            self.check()
        assert not any(core.waiters for core in self.cores), "somebody waits for ever"
        assert not any(core.in_use or core.reserved or core.serve_joint for core in self.cores)


def run(operations: int, seed: int, *, each: int = 2000) -> tuple[int, int]:
    """Schedules of `each` operations; how many joint acquires were granted at once, and after a wait."""
    at_once = waited = 0
    for number in range(-(-operations // each)):
        schedule = Schedule(seed * 1_000_003 + number)
        schedule.run(min(each, operations - number * each))
        at_once, waited = at_once + schedule.at_once, waited + schedule.granted
    return at_once, waited


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(
        prog="python -m bench.schedules", description="Random schedules over several pools."
    )
    parser.add_argument("--operations", type=int, default=1_000_000, help="in all (default: %(default)s)")
    parser.add_argument("--seed", type=int, default=1, help="(default: %(default)s)")
    options = parser.parse_args()
    began = time.monotonic()
    at_once, waited = run(options.operations, options.seed)
    seconds = time.monotonic() - began
    print(
        f"{options.operations:,} operations in {seconds:.0f} s: {at_once:,} joint acquires granted at once, {waited:,} after a wait"
    )
    print("No deadlock, no half grant, nobody forgotten, drift 0.")


if __name__ == "__main__":
    main()
