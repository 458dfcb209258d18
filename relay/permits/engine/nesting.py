"""Acquires by holders who ask for more while they hold (`parent_lease_id`): those that can never end are refused. Pure.

A waiting child keeps its parents' leases alive, and so what they hold. When a child would have to wait, it is looked at
who could still be served, one after the other, as in the banker's algorithm (Dijkstra, EWD 623): if the child is not
among them, its wait closes a circle. Who declares no parent is taken to end by itself.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

from relay.permits.engine import changes, parts
from relay.permits.engine.base import Ask, Lease, Refused
from relay.permits.engine.core import PoolCore
from relay.permits.engine.events import Existing
from relay.permits.engine.waiting import Waiter

AHEAD = 200  # waiters of a pool that are looked at

Holding = tuple[PoolCore, Lease]


class Wait(NamedTuple):
    """A child that waits, or would (`waiter` None)."""

    core: PoolCore
    ask: Ask
    waiter: Waiter | None


class Nesting:
    """Knows the children that wait. `find` gives a live lease and its pool."""

    def __init__(self, find: Callable[[str], Holding | None]) -> None:
        self._find = find
        self._waits: list[Wait] = []

    def acquire(self, core: PoolCore, ask: Ask, now: int) -> Lease | Waiter | Existing:
        """`PoolCore.acquire` of an ask that names a parent. Raises Refused, also `would-deadlock`. O(children that wait)."""
        core.advance(now)
        core.repeated = False
        if parts.known(core, ask) is None:
            parts.check(core, ask)
            self._check_chain(core, ask)
            if ask.timeout_us and not parts.fits(core, ask):
                self.check_wait(core, ask)
        got = core.acquire(ask, now)
        if isinstance(got, Waiter) and not core.repeated:
            self._waits.append(Wait(core, ask, got))
        return got

    def resume(self, core: PoolCore, lease_id: str, tenant: str, timeout_us: int, now: int) -> Lease | Waiter:
        """A yielded lease comes back, or waits for it; one that is not yielded is as it is. Raises as an acquire would."""
        core.advance(now)
        lease = core.find(lease_id, tenant)
        if not lease.yielded:
            return lease
        ask = changes.comes_back(core, lease, timeout_us)
        new = lease_id not in core.resuming
        if ask.parent is not None and timeout_us and new and not parts.fits(core, ask):
            self.check_wait(core, ask)
        got = changes.resume_lease(core, lease, ask)
        if isinstance(got, Waiter) and new and ask.parent is not None:
            self._waits.append(Wait(core, ask, got))
        return got

    def _chain(self, ask: Ask) -> Iterator[Holding]:
        """The live leases above it."""
        parent = ask.parent
        while parent is not None:
            found = self._find(parent)
            if found is None:
                return
            yield found
            parent = found[1].ask.parent

    def _check_chain(self, core: PoolCore, ask: Ask) -> None:
        held = sum(lease.ask.permits for other, lease in self._chain(ask) if other is core and not lease.yielded)
        most = parts.most(core, ask)
        if held + ask.permits > most:
            detail = f"The parents hold {held} of the {most} permits that there can be, so these {ask.permits} never come free."
            raise _would_deadlock(detail + " Ask for all of them at once, or release a parent's first.")

    def check_wait(self, core: PoolCore, ask: Ask) -> None:
        """Raises `would-deadlock` if this one's wait could never end."""
        self._waits = [
            wait for wait in self._waits if wait.waiter is None or wait.waiter.waiter_id in wait.core.waiters
        ]
        new = Wait(core, ask, None)
        stuck = _Stuck([*self._waits, new], self._chain)
        if not stuck.may_proceed(new) and new in stuck.reduce():
            raise _would_deadlock(
                "What this wait needs is held by leases that wait for their own children here: none of them could end."
            )


class _Stuck:
    """Who could be served if all leases ended that wait for no child."""

    def __init__(self, waits: list[Wait], chain: Callable[[Ask], Iterator[Holding]]) -> None:
        self._waits = waits
        self._chains = [list(chain(wait.ask)) for wait in waits]
        self._children: dict[str, int] = {}  # of each lease: how many wait
        self._standing: dict[PoolCore, list[Waiter]] = {}  # in serving order
        self._served: set[Waiter] = set()
        self._held: dict[PoolCore, int] = {}  # permits that come free only after a child was served
        self._held_by: dict[tuple[PoolCore, str], int] = {}
        for chain_ in self._chains:
            for core, lease in (holding for holding in chain_ if not holding[1].yielded):
                count = self._children[lease.lease_id] = self._children.get(lease.lease_id, 0) + 1
                if count == 1:
                    self._hold(core, lease, lease.ask.permits)

    def _hold(self, core: PoolCore, lease: Lease, permits: int) -> None:
        self._held[core] = self._held.get(core, 0) + permits
        pair = core, lease.ask.tenant
        self._held_by[pair] = self._held_by.get(pair, 0) + permits

    def may_proceed(self, wait: Wait) -> bool:
        """Whether this one gets its permits once everybody has ended who can."""
        core, ask = wait.core, wait.ask
        free = parts.capacity(core) - self._held.get(core, 0)
        limit = core.tenants[ask.tenant].limit
        if ask.permits > free or (limit is not None and ask.permits > limit - self._held_by.get((core, ask.tenant), 0)):
            return False
        # the pool saves up for each of those ahead, whoever it is (rule 7)
        return all(ahead.ask.permits <= free for ahead in self._ahead_of(wait) if ahead not in self._served)

    def _ahead_of(self, wait: Wait) -> list[Waiter]:
        standing = self._standing.get(wait.core)
        if standing is None:
            placed = (waiter for waiter, place in wait.core.queue(AHEAD) if place is not None)
            standing = self._standing[wait.core] = list(placed)
        if wait.waiter is None:
            return parts.ahead_of(wait.core, wait.ask, standing)
        return standing[: standing.index(wait.waiter)] if wait.waiter in standing else standing

    def reduce(self) -> list[Wait]:
        """Who is left when all are served who can be."""
        left = list(range(len(self._waits)))
        while True:
            served = [index for index in left if self.may_proceed(self._waits[index])]
            if not served:
                return [self._waits[index] for index in left]
            left = [index for index in left if index not in served]
            self._served.update(waiter for index in served for waiter in [self._waits[index].waiter] if waiter)
            for core, lease in (holding for index in served for holding in self._chains[index]):
                if lease.yielded:
                    continue
                self._children[lease.lease_id] -= 1
                if not self._children[lease.lease_id]:
                    self._hold(core, lease, -lease.ask.permits)


def _would_deadlock(detail: str) -> Refused:
    return Refused("would-deadlock", detail)
