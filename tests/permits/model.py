"""The rules of a pool read naively: lists and full scans, no heaps, no caches. The oracle for the real core.

Rule numbers are those of the scheduling rules. Time is whole microseconds. Quadratic on purpose: every answer is
worked out afresh from the leases and the waiters, so that a reader can check it against the text.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from relay.permits.engine.base import SECOND, Ask, EndReason, Lease, LeaseEnded, PoolConfig, Refused, Released, Share

REMEMBER_US = 24 * 3600 * SECOND
REMEMBER_ENDS = 100_000


@dataclass(eq=False, slots=True)
class Waiter:
    """An acquire that is queued. `saved` is the order in which the pool began to save up for it (rule 7)."""

    ask: Ask
    arrival: int
    enqueued_us: int
    deadline_us: int
    aged_from_us: int
    waiter_id: str = ""
    connected: bool = True
    kept_until_us: int = 0
    saved: int | None = None


@dataclass(frozen=True, slots=True)
class Existing:
    """The answer to a repeat whose lease lives (rule 14)."""

    lease: Lease


class Granted(NamedTuple):
    """A waiter of another caller was granted."""

    waiter: Waiter
    lease: Lease


class Left(NamedTuple):
    """A wait ended without a grant."""

    waiter: Waiter
    code: str


class Ended(NamedTuple):
    """A lease ended."""

    lease: Lease
    reason: EndReason


Event = Granted | Left | Ended


class ReferencePool:
    """One pool of permits, by the letter of the rules."""

    def __init__(
        self,
        config: PoolConfig,
        now: int,
        *,
        ranks: Mapping[str, int],
        weights: Mapping[str, float],
        ids: Callable[[], str],
        rng: random.Random,
        ended: object = None,
        fencing: int = 0,
    ) -> None:
        self.config = config
        self.now = now
        self.leases: dict[str, Lease] = {}
        self.waiters: list[Waiter] = []  # by arrival
        self._ranks = dict(ranks)
        self._weights = dict(weights)
        self._ids = ids
        self._rng = rng
        self._fencing = fencing
        self._virtual: dict[str, float] = {}
        self._unpaused_us = 0
        self._arrivals = itertools.count(1)
        self._turns = itertools.count(1)
        self._ended: dict[str, tuple[str, EndReason, int]] = {}  # lease id: tenant, reason, when
        self._holds: list[int] = []
        self._events: list[Event] = []

    # What there is

    @property
    def in_use(self) -> int:
        """Rule 1: the sum over the live leases."""
        return sum(lease.ask.permits for lease in self.leases.values())

    @property
    def waiting(self) -> int:
        """Rule 14: absent waiters do not count."""
        return sum(waiter.connected for waiter in self.waiters)

    def drift(self) -> int:
        """Always 0: there is no second number."""
        return 0

    def tenant_in_use(self, tenant: str) -> int:
        """The permits that a tenant holds."""
        return sum(lease.ask.permits for lease in self.leases.values() if lease.ask.tenant == tenant)

    def take_events(self) -> list[Event]:
        """The effects on others since the last call, in order."""
        events, self._events = self._events, []
        return events

    def next_due(self) -> int | None:
        """When something will happen by itself."""
        return min((due for due in (self.hard_due(), self.rank_due()) if due is not None), default=None)

    def hard_due(self) -> int | None:
        """The next expiry, drop, deadline or end of a kept place."""
        dues = [_lease_due(lease)[0] for lease in self.leases.values()]
        dues += [w.deadline_us if w.connected else w.kept_until_us for w in self.waiters]
        return min(dues, default=None)

    def rank_due(self) -> int | None:
        """Rule 5b: the next whole step of a waiter's rank."""
        aging = self.config.aging_us
        if aging is None or self.config.state == "paused":
            return None
        steps = [aging - self._age(w) % aging for w in self.waiters if w.connected and self._rank(w) > 0]
        return self.now + min(steps) if steps else None

    # Operations

    def acquire(self, ask: Ask, now: int) -> Lease | Waiter | Existing:
        """A lease granted by this call, the caller's waiter, or the lease that its key has. Raises Refused."""
        self.advance(now)
        known = self._known(ask)
        if known is not None and not known.ask.same_body(ask):
            raise Refused("idempotency-conflict", "This key was used with another body.")
        if isinstance(known, Lease):
            known.drop_us = None
            return Existing(known)
        if known is not None:
            return self._repeat(known, ask)
        code = self._never(ask)
        if code is not None:
            raise Refused(code, "That many permits can never be granted here.")
        if self.config.state == "draining":
            raise self._refused("pool-draining", ask)
        return self._newcomer(ask)

    def disconnect(self, waiter_id: str, now: int) -> None:
        """Rules 11 and 14: the caller is gone; with a key its place is kept for a while."""
        self.advance(now)
        waiter = self._waiter(waiter_id)
        if waiter is None or not waiter.connected:
            return
        waiter.connected = False
        waiter.saved = None  # rule 7: an absent waiter gives up a kept turn
        waiter.kept_until_us = min(now + self.config.reconnect_grace_us, waiter.deadline_us)
        if waiter.ask.key is None or waiter.kept_until_us <= now:
            self._leave(waiter, "cancelled")
        self._give_out()

    def cancel(self, waiter_id: str, now: int) -> bool:
        """An operator ends a wait; False if there is none."""
        self.advance(now)
        waiter = self._waiter(waiter_id)
        if waiter is None:
            return False
        self._leave(waiter, "waiter-cancelled")
        self._give_out()
        return True

    def renew(self, lease_id: str, tenant: str, ttl_us: int | None, now: int) -> Lease:
        """Rules 17 and 18. Raises Refused `lease-not-found`, LeaseEnded."""
        self.advance(now)
        lease = self._own(lease_id, tenant)
        if lease is None:
            raise LeaseEnded(self._ended[lease_id][1])
        lease.ttl_us = self._capped(lease.ttl_us if ttl_us is None else ttl_us)
        expires_us = now + lease.ttl_us
        if self.config.max_lease_us is not None:
            expires_us = min(expires_us, lease.acquired_us + self.config.max_lease_us)
        lease.expires_us = max(lease.expires_us, expires_us)
        return lease

    def release(self, lease_id: str, tenant: str, now: int) -> Released:
        """Rules 1, 2 and 17. Raises Refused `lease-not-found`."""
        self.advance(now)
        lease = self._own(lease_id, tenant)
        if lease is None:
            return Released(reason=self._ended[lease_id][1])
        self._end(lease, "released")
        self._give_out()
        return Released(held_us=now - lease.acquired_us, pool=self.config.name)

    def revoke(self, lease_id: str, now: int) -> bool:
        """An operator ends anybody's lease; False if it had ended. Raises Refused `lease-not-found`."""
        self.advance(now)
        lease = self.leases.get(lease_id)
        if lease is None:
            self._ended_before(lease_id)
            return False
        self._end(lease, "revoked")
        self._give_out()
        return True

    def delivered(self, lease_id: str, now: int) -> None:
        """The answer with this lease was handed over."""
        self.advance(now)
        lease = self.leases.get(lease_id)
        if lease is not None:
            lease.delivered = True
            lease.drop_us = None

    def undelivered(self, lease_id: str, now: int) -> None:
        """Rules 4 and 14: the answer was lost; with a key the lease is kept for the grace. No matter if it once arrived."""
        self.advance(now)
        lease = self.leases.get(lease_id)
        if lease is None or lease.delivered:
            return
        if lease.ask.key is not None and self.config.reconnect_grace_us > 0:
            lease.drop_us = now + self.config.reconnect_grace_us
            return
        self._end(lease, "dropped")
        self._give_out()

    def configure(
        self,
        config: PoolConfig,
        now: int,
        ranks: Mapping[str, int] | None = None,
        weights: Mapping[str, float] | None = None,
    ) -> None:
        """Rules 3, 6 and 19: the new configuration counts from `now` on."""
        self.advance(now)
        self.config = config
        self._ranks = dict(ranks) if ranks is not None else self._ranks
        self._weights = dict(weights) if weights is not None else self._weights
        for waiter in list(self.waiters):
            code = self._never(waiter.ask)
            if code is not None:
                self._leave(waiter, code)
        self._give_out()

    def advance(self, now: int) -> None:
        """Rule 8: leases that are due end, then waiters past their deadline, then grants."""
        if self.config.state != "paused":
            self._unpaused_us += now - self.now
        self.now = now
        for lease in sorted(self.leases.values(), key=_lease_due):
            due_us, reason = _lease_due(lease)
            if due_us <= now:
                self._end(lease, reason)
        for waiter in list(self.waiters):
            if waiter.connected and waiter.deadline_us <= now:
                self._leave(waiter, "acquire-timeout")
            elif not waiter.connected and waiter.kept_until_us <= now:
                self._leave(waiter, "cancelled")
        self._give_out()

    def queue(self, limit: int) -> list[tuple[Waiter, int | None]]:
        """All waiters in the order in which they would be served if permits came free one by one, `limit` with places."""
        held = {w.ask.tenant: self.tenant_in_use(w.ask.tenant) for w in self.waiters}
        virtual = dict(self._virtual)
        left = list(self.waiters)
        served: list[Waiter] = []
        while (first := self._first(left, held, virtual)) is not None:
            served.append(first)
            left.remove(first)
            held[first.ask.tenant] += first.ask.permits
            virtual[first.ask.tenant] += first.ask.permits / self._weight(first.ask.tenant)
        rows: list[tuple[Waiter, int | None]] = [(w, place) for place, w in enumerate(served[:limit], 1)]
        rows += [(w, None) for w in sorted(served[limit:], key=lambda w: w.arrival)]
        return rows + [(w, None) for w in left]

    # Rules 5 to 7: who is next

    def _first(self, waiters: Sequence[Waiter], held: Mapping[str, int], virtual: Mapping[str, float]) -> Waiter | None:
        """Rules 5 and 6: every tenant's first waiter, those passed over left out, and of these the first."""
        present = [w for w in waiters if w.connected]

        def order(waiter: Waiter) -> tuple[Any, ...]:
            return self._order(waiter, held, virtual)

        firsts = [
            min((w for w in present if w.ask.tenant == tenant), key=order) for tenant in {w.ask.tenant for w in present}
        ]
        return min((w for w in firsts if not self._passed_over(w, held)), key=order, default=None)

    def _order(self, waiter: Waiter, held: Mapping[str, int], virtual: Mapping[str, float]) -> tuple[Any, ...]:
        tenant = waiter.ask.tenant
        guaranteed = held[tenant] + waiter.ask.permits <= self._share(tenant).guarantee
        return (
            not (guaranteed or waiter.saved is not None),  # 5a, 7
            self._rank(waiter),  # 5b
            waiter.saved is None,  # 7: stands first in its effective rank,
            waiter.saved or 0,  # the earlier saved first
            held[tenant] / self._weight(tenant),  # 5c
            virtual[tenant],
            waiter.arrival,  # 5d
        )

    def _passed_over(self, first: Waiter, held: Mapping[str, int]) -> bool:
        """Rule 6, of a tenant's first waiter: above the limit, or above the present capacity."""
        limit = self._share(first.ask.tenant).limit
        over_limit = limit is not None and held[first.ask.tenant] + first.ask.permits > limit
        return over_limit or first.ask.permits > self.config.capacity

    def _give_out(self, caller: Waiter | None = None) -> Lease | None:
        """Grants while it can; the caller's own lease is the result, others' are events."""
        own: Lease | None = None
        while True:
            self._take_turns_back()
            first = self._next()
            if first is None or self.config.state == "paused":
                return own
            free = self.config.capacity - self.in_use
            if first.ask.permits > free:
                if free > 0 and first.saved is None:
                    first.saved = next(self._turns)  # rule 7: free permits are held back for it
                return own
            lease = self._grant(first)
            if first is caller:
                own = lease
            else:
                self._events.append(Granted(first, lease))

    def _next(self) -> Waiter | None:
        return self._first(self.waiters, self._held(), self._virtual)

    def _held(self) -> dict[str, int]:
        return {w.ask.tenant: self.tenant_in_use(w.ask.tenant) for w in self.waiters}

    def _take_turns_back(self) -> None:
        """Rule 7: a turn is kept until the waiter is passed over (with all of its tenant's, rule 6)."""
        held = self._held()
        for tenant in held:
            own = [w for w in self.waiters if w.connected and w.ask.tenant == tenant]
            if own and self._first(own, held, self._virtual) is None:
                for waiter in own:
                    waiter.saved = None

    def _is_served_now(self, waiter: Waiter) -> bool:
        """Rule 8: nobody stands before it, and there is enough for it."""
        free = self.config.capacity - self.in_use
        return self.config.state != "paused" and waiter.ask.permits <= free and self._next() is waiter

    # Acquire, in parts

    def _newcomer(self, ask: Ask) -> Lease | Waiter:
        before = dict(self._virtual)
        self._come_back(ask.tenant)
        waiter = Waiter(ask, next(self._arrivals), self.now, self.now + ask.timeout_us, self._unpaused_us)
        self.waiters.append(waiter)
        code = None if self._is_served_now(waiter) else self._no_place(ask)
        if code is not None:  # rule 12: who is refused never stood in the queue
            self.waiters.remove(waiter)
            self._virtual = before
            raise self._refused(code, ask)
        lease = self._give_out(waiter)
        if lease is not None:
            return lease
        waiter.waiter_id = self._ids()
        return waiter

    def _no_place(self, ask: Ask) -> str | None:
        """Why an ask that is not served at once may not wait; the newcomer already stands in the list."""
        if ask.timeout_us == 0:
            return "pool-paused" if self.config.state == "paused" else "acquire-timeout"
        mine = sum(w.ask.tenant == ask.tenant for w in self.waiters)
        most = self._share(ask.tenant).max_waiters
        if len(self.waiters) > self.config.max_waiters or (most is not None and mine > most):
            return "queue-full"
        return None

    def _repeat(self, waiter: Waiter, ask: Ask) -> Lease | Waiter:
        """Rule 14: a try is served in an absent waiter's place or changes nothing; anything else takes over."""
        if ask.timeout_us == 0:
            was_connected, waiter.connected = waiter.connected, True
            if was_connected or not self._is_served_now(waiter):
                waiter.connected = was_connected
                raise self._refused("pool-paused" if self.config.state == "paused" else "acquire-timeout", ask)
        waiter.ask = ask
        waiter.connected = True
        waiter.deadline_us = self.now + ask.timeout_us
        return self._give_out(waiter) or waiter

    def _known(self, ask: Ask) -> Lease | Waiter | None:
        """Rule 14: what the (tenant, key) has."""
        if ask.key is None:
            return None
        everything: list[Lease | Waiter] = [*self.leases.values(), *self.waiters]
        return next((x for x in everything if (x.ask.tenant, x.ask.key) == (ask.tenant, ask.key)), None)

    def _never(self, ask: Ask) -> str | None:
        """Rule 9: why this can never be granted."""
        if ask.permits > max(self.config.capacity, self.config.ceiling or 0):
            return "exceeds-capacity"
        limit = self._share(ask.tenant).limit
        return "exceeds-tenant-limit" if limit is not None and ask.permits > limit else None

    def _come_back(self, tenant: str) -> None:
        """Rule 5c: who held and waited for nothing starts at the pool's present virtual time, or its own if more."""
        active = {lease.ask.tenant for lease in self.leases.values()} | {waiter.ask.tenant for waiter in self.waiters}
        if tenant in active:
            return
        present = min((self._virtual[t] for t in active), default=max(self._virtual.values(), default=0.0))
        self._virtual[tenant] = max(self._virtual.get(tenant, 0.0), present)

    # Small parts

    def _grant(self, waiter: Waiter) -> Lease:
        ask = waiter.ask
        self.waiters.remove(waiter)
        self._virtual[ask.tenant] += ask.permits / self._weight(ask.tenant)
        self._fencing += 1
        ttl_us = self._capped(ask.ttl_us)
        waited_us = self.now - waiter.enqueued_us
        lease = Lease(self._ids(), self.config.name, ask, self._fencing, waited_us, self.now, self.now + ttl_us, ttl_us)
        lease.ttl_us = ttl_us
        self.leases[lease.lease_id] = lease
        return lease

    def _end(self, lease: Lease, reason: EndReason) -> None:
        del self.leases[lease.lease_id]
        self._ended[lease.lease_id] = (lease.ask.tenant, reason, self.now)
        self._holds.append(self.now - lease.acquired_us)
        self._events.append(Ended(lease, reason))

    def _leave(self, waiter: Waiter, code: str) -> None:
        self.waiters.remove(waiter)
        self._events.append(Left(waiter, code))

    def _own(self, lease_id: str, tenant: str) -> Lease | None:
        """Rule 17: None if it ended and is remembered; to another tenant it does not exist."""
        lease = self.leases.get(lease_id)
        owner: str = lease.ask.tenant if lease is not None else self._ended_before(lease_id)
        if owner != tenant:
            raise Refused("lease-not-found", "There is no such lease.")
        return lease

    def _ended_before(self, lease_id: str) -> str:
        tenant, _, when = self._ended.get(lease_id, ("", "", 0))
        recent = list(self._ended)[-REMEMBER_ENDS:]
        if lease_id not in recent or self.now - when >= REMEMBER_US:
            raise Refused("lease-not-found", "There is no such lease.")
        return tenant

    def _waiter(self, waiter_id: str) -> Waiter | None:
        return next((w for w in self.waiters if w.waiter_id == waiter_id), None)

    def _age(self, waiter: Waiter) -> int:
        return self._unpaused_us - waiter.aged_from_us

    def _rank(self, waiter: Waiter) -> int:
        aging = self.config.aging_us
        rank = self._ranks[waiter.ask.priority]
        return rank if aging is None else max(0, rank - self._age(waiter) // aging)

    def _share(self, tenant: str) -> Share:
        return self.config.shares.get(tenant, Share())

    def _weight(self, tenant: str) -> float:
        own = self._share(tenant).weight
        return self._weights.get(tenant, 1.0) if own is None else own

    def _capped(self, ttl_us: int) -> int:
        most = self.config.max_lease_us
        return ttl_us if most is None else min(ttl_us, most)

    def _refused(self, code: str, ask: Ask) -> Refused:
        """Rule 13: the queue ahead times the recent holds, with jitter."""
        recent = self._holds[-100:]
        hold_us = sum(recent) / len(recent) if recent else ask.ttl_us
        ahead = ask.permits + sum(w.ask.permits for w in self.waiters)
        hint = hold_us * ahead / self.config.capacity * self._rng.uniform(0.75, 1.25)
        return Refused(code, "Not now; try again later.", max(1, round(hint)))


def _lease_due(lease: Lease) -> tuple[int, EndReason]:
    """When a lease ends by itself, and why: its time to live, or (rule 14) a kept answer that nobody fetched."""
    if lease.drop_us is not None and lease.drop_us < lease.expires_us:
        return lease.drop_us, "dropped"
    return lease.expires_us, "expired"
