"""Acquires over several pools, all or nothing (pure, as `core.py`): one decision over all their cores in one step.

A joint waiter has a part in each of its pools (`parts.py`), which is passed over while they cannot all serve it, so it
holds nothing and blocks nobody. Once its turn has been the next in all of them for `reserve_after_us`, they keep its
permits back. Two that keep permits back never share a pool: so nobody waits for what waits for itself.

So that few are looked at when a pool changes, each joint waiter watches one pool that cannot serve it yet (as the watched
literals of SAT solvers do: Moskewicz et al., "Chaff", 2001).
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import islice
from operator import itemgetter

from msgspec import Struct
from sortedcontainers import SortedDict

from relay.permits.engine import parts
from relay.permits.engine.base import SECOND, Ask, Lease, Refused
from relay.permits.engine.core import PoolCore
from relay.permits.engine.events import LeftCode
from relay.permits.engine.waiting import Waiter

RESERVE_AFTER_US = 30 * SECOND
LOOKED_AT = 32  # joint waiters that one change of a pool looks at, the oldest first
LOOKED_AT_IN_A_TICK = 100

Wanted = Sequence[tuple[PoolCore, Ask]]


class Joint:
    """A waiting acquire over several pools. `open`: neither granted nor gone. The first part keeps the deadline."""

    __slots__ = ("_several", "first_since", "number", "open", "parts", "reserving", "watched")

    def __init__(self, several: Several, number: int, watched: PoolCore) -> None:
        self._several = several
        self.number = number
        self.parts: list[tuple[PoolCore, Waiter]] = []
        self.watched = watched
        self.open = True
        self.reserving = False
        self.first_since: int | None = None  # since when it has been seen first in all its pools

    def part_in(self, pool: PoolCore) -> Waiter:
        """Its part in one of its pools."""
        return next(waiter for core, waiter in self.parts if core is pool)

    def part_left(self, waiter: Waiter, code: LeftCode) -> None:
        """One of its waits has ended, so all do."""
        self._several.part_left(self, waiter, code)


class Repeated(Struct, frozen=True):
    """The leases that the key has already (rule 14)."""

    leases: list[Lease]


class _Pool:
    """What one pool has to do with joint waiters: how many there are, who watches it, for whom it keeps permits back.

    `claimed_by`: the oldest that is due to have permits kept back, but has to wait until another has been served.
    """

    __slots__ = ("claimed_by", "joints", "kept_for", "watching")

    def __init__(self) -> None:
        self.joints = 0
        self.watching: SortedDict = SortedDict()
        self.kept_for: Joint | None = None
        self.claimed_by: Joint | None = None

    def claim(self, joint: Joint) -> bool:
        """Whether nobody stands between this one and what the pool can keep back; nobody younger will from now on."""
        other = self.claimed_by
        if other is None or not other.open or other.first_since is None or joint.number <= other.number:
            self.claimed_by = joint
        return self.kept_for is None and self.claimed_by is joint


class Several:
    """All joint waiters. `touched`: pools in which something happened beside the one that was operated on."""

    def __init__(self, reserve_after_us: int = RESERVE_AFTER_US) -> None:
        self.touched: dict[PoolCore, None] = {}
        self._reserve_after_us = reserve_after_us
        self._pools: dict[PoolCore, _Pool] = {}
        self._dirty: dict[PoolCore, None] = {}
        self._busy = False
        self._number = 0
        self._waiting: OrderedDict[int, Joint] = OrderedDict()  # by number; in the order in which ticks look at them

    # Acquire

    def acquire(self, wanted: Wanted, now: int) -> list[Lease] | Joint | Repeated:
        """Leases granted by this call, a joint waiter (new or taken over), or the leases that the key has. Raises Refused.

        The pools differ, tenant, timeout and key are the same in all. A refusal changes nothing in any pool.
        """
        for core, _ in wanted:
            core.advance(now)
            self.touched[core] = None
        repeated = self._repeat(wanted)
        if repeated is not None:
            return repeated
        for index, (core, ask) in enumerate(wanted):
            with _named(index, core):
                parts.check(core, ask)
        if all(parts.fits(core, ask) for core, ask in wanted):
            leases = [parts.take_at_once(core, ask) for core, ask in wanted]
            self._serve_all(core for core, _ in wanted)  # a tenant may have come to its limit: it keeps no turn
            return leases
        for index, (core, ask) in enumerate(wanted):
            with _named(index, core):
                self._refuse(core, ask)
        return self._enqueue(wanted)

    def _refuse(self, core: PoolCore, ask: Ask) -> None:
        if not ask.timeout_us and not parts.fits(core, ask):
            raise parts.found_nothing(core, ask)
        if ask.timeout_us and parts.queue_full(core, ask):
            raise parts.full(core, ask)

    def _enqueue(self, wanted: Wanted) -> Joint:
        self._number += 1
        watched = next(core for core, ask in wanted if not parts.fits(core, ask))
        joint = Joint(self, self._number, watched)
        for core, ask in wanted:
            pool = self._pools.setdefault(core, _Pool())
            pool.joints += 1
            core.serve_joint = self.serve
            joint.parts.append((core, parts.enter(core, ask, joint)))
        self._pools[watched].watching[joint.number] = joint
        self._waiting[joint.number] = joint
        return joint

    def _repeat(self, wanted: Wanted) -> Joint | Repeated | None:
        """Rule 14: a key belongs to a tenant and a set of pools (the pools are in the key)."""
        found = [parts.known(core, ask) for core, ask in wanted]
        if not any(found):
            return None
        pairs = [(core, ask, one) for (core, ask), one in zip(wanted, found, strict=True) if one is not None]
        if not all(one.same_body(ask) for _, ask, one in pairs):
            raise Refused("idempotency-conflict", "This Idempotency-Key is in use with another body.")
        if len(pairs) < len(wanted):
            raise Refused("idempotency-conflict", "Some of this Idempotency-Key's leases have ended. Use another one.")
        if isinstance(pairs[0][2], Waiter):
            joint: Joint = pairs[0][2].joint
            if not pairs[0][1].timeout_us:
                raise parts.found_nothing(joint.watched, pairs[0][1])
            for core, ask, waiter in pairs:
                assert isinstance(waiter, Waiter)
                parts.take_over(core, waiter, ask)
            return joint
        return Repeated([parts.existing(core, one, ask) for core, ask, one in pairs if isinstance(one, Lease)])

    def leave(self, joint: Joint, now: int) -> None:
        """Its caller is gone (rule 11); no place is kept for it, also with a key."""
        core, waiter = joint.parts[0]
        self.touched[core] = None
        if joint.open:
            core.disconnect(waiter.waiter_id, now)

    # Serving

    def serve(self, core: PoolCore) -> None:
        """Serves a pool with joint waiters: called by its core instead of serving by itself."""
        self._dirty[core] = None
        self.settle()

    def settle(self) -> None:
        """Serves the pools in which something has changed, until nothing more can be granted."""
        if self._busy:
            return
        self._busy = True
        try:
            while self._dirty:
                core = next(iter(self._dirty))
                del self._dirty[core]
                self.touched[core] = None
                while self._grant_next(core) or parts.serve_next(core):
                    pass
                if core in self._pools and not self._pools[core].joints:
                    del self._pools[core]
                    core.serve_joint = None
        finally:
            self._busy = False

    def _serve_all(self, cores: Iterator[PoolCore]) -> None:
        self._dirty.update(dict.fromkeys(cores))
        self.settle()

    def _grant_next(self, core: PoolCore) -> bool:
        """Grants the first joint waiter that watches this pool and can be served everywhere; False if none can."""
        pool = self._pools.get(core)
        if pool is None:
            return False
        candidates = set(islice(pool.watching.values(), LOOKED_AT))
        if pool.kept_for is not None and pool.kept_for.watched is core:
            candidates.add(pool.kept_for)
        here = [(waiter, joint) for joint in candidates for waiter in [joint.part_in(core)]]
        able = [(parts.turn(core, waiter), joint) for waiter, joint in here if parts.fits(core, waiter.ask, waiter)]
        for _, joint in sorted(able, key=itemgetter(0)):
            if self._ready(joint):
                self._grant(joint)
                return True
        return False

    def _ready(self, joint: Joint) -> bool:
        """Whether all its pools would serve it now. Else it watches one that would not."""
        watched = joint.watched
        for core, _ in joint.parts:
            core.advance(watched.now)
            self.touched[core] = None
        if not joint.open:  # its time was up
            return False
        for core, waiter in joint.parts:
            if not parts.fits(core, waiter.ask, waiter):
                del self._pools[watched].watching[joint.number]
                joint.watched = core
                self._pools[core].watching[joint.number] = joint
                return False
        return True

    def _grant(self, joint: Joint) -> None:
        self._forget(joint)
        for core, waiter in joint.parts:
            parts.take(core, waiter)

    def part_left(self, joint: Joint, left: Waiter, code: LeftCode) -> None:
        """A part is out of its pool: so are the others now. Who waits for what was kept back is served at the next `settle`."""
        if joint.open:
            self._forget(joint)
            for core, waiter in joint.parts:
                if waiter is not left:
                    parts.leave(core, waiter, code)

    def _forget(self, joint: Joint) -> None:
        """Granted or gone: gives up what is kept back, and marks its pools."""
        joint.open = False
        self._let_go(joint)
        del self._pools[joint.watched].watching[joint.number], self._waiting[joint.number]
        for core, _ in joint.parts:
            self._pools[core].joints -= 1
            self._dirty[core] = self.touched[core] = None

    # Saving up

    def tick(self, now: int) -> None:
        """Once a second: who has been first for long gets its permits kept back; what came by time alone is seen here."""
        for joint in list(islice(self._waiting.values(), LOOKED_AT_IN_A_TICK)):
            for core, _ in joint.parts:
                if joint.open:
                    core.advance(now)
                    self.touched[core] = None
            if joint.open:
                self._waiting.move_to_end(joint.number)
                self._look(joint, now)
                self._dirty[joint.watched] = None
        self.settle()

    def _look(self, joint: Joint, now: int) -> None:
        if joint.reserving:
            if not all(parts.is_able(core, waiter) for core, waiter in joint.parts):
                self._let_go(joint)  # passed over: it gives up its turn, as in rule 7
        elif not all(parts.is_first(core, waiter) for core, waiter in joint.parts):
            joint.first_since = None
        elif joint.first_since is None:
            joint.first_since = now
        elif now - joint.first_since >= self._reserve_after_us:
            self._keep_back(joint)

    def _keep_back(self, joint: Joint) -> None:
        pools = [self._pools[core] for core, _ in joint.parts]
        claimed = [pool.claim(joint) for pool in pools]  # each, also where another is not free
        if all(claimed):
            joint.reserving = True
            for pool, (core, waiter) in zip(pools, joint.parts, strict=True):
                pool.kept_for, pool.claimed_by = joint, None
                parts.reserve(core, waiter.ask.permits)

    def _let_go(self, joint: Joint) -> None:
        joint.first_since = None
        if joint.reserving:
            joint.reserving = False
            for core, _ in joint.parts:
                self._pools[core].kept_for = None
                parts.reserve(core, 0)
                self._dirty[core] = None


@contextmanager
def _named(index: int, core: PoolCore) -> Iterator[None]:
    """A refusal says which of the requests it is about."""
    try:
        yield
    except Refused as refused:
        detail = f"requests[{index}].{refused.detail}" if refused.code in _OF_A_FIELD else refused.detail
        raise Refused(refused.code, f"{detail} (pool {core.config.name})", refused.retry_after_us) from None


_OF_A_FIELD = ("invalid", "exceeds-capacity", "exceeds-tenant-limit")  # their detail begins with the field
