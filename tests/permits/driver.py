"""Drives one pool under a fake clock in seconds; callers are named by their holder tag, answers are short words."""

from __future__ import annotations

import itertools
import random
from collections.abc import Mapping
from typing import Any

import msgspec

from relay.permits.engine.base import SECOND, Ask, Lease, PoolConfig, Refused, Released, Share

EVENT_FIELDS = {"Granted": ("waiter", "lease"), "Left": ("waiter", "code"), "Ended": ("lease", "reason")}
RANKS = {"critical": 0, "interactive": 1, "batch": 2, "background": 3}


def build(make: Any, config: PoolConfig, *, weights: Mapping[str, float], seed: int = 1, fencing: int = 0) -> Any:
    """A pool at time 0 with ids of its own."""
    numbers = itertools.count(1)
    return make(
        config,
        0,
        ranks=RANKS,
        weights=weights,
        ids=lambda: f"id-{next(numbers)}",
        rng=random.Random(seed),
        fencing=fencing,
    )


class Desk:
    """A pool and its callers. No aging unless a test asks for it. Times in seconds."""

    def __init__(
        self,
        make: Any,
        capacity: int = 1,
        *,
        shares: Mapping[str, Share] | None = None,
        weights: Mapping[str, float] | None = None,
        fencing: int = 0,
        **config: Any,
    ) -> None:
        config = {"aging_us": None, **config}
        self.config = PoolConfig(name="gpu", capacity=capacity, shares=shares or {}, **config)
        self.pool = build(make, self.config, weights=weights or {}, fencing=fencing)
        self.now = 0
        self.leases: dict[str, Lease] = {}
        self.waiters: dict[str, Any] = {}

    def ask(
        self,
        holder: str,
        tenant: str = "a",
        permits: int = 1,
        priority: str = "interactive",
        *,
        timeout: float = 1000,
        ttl: float = 100_000,
        key: str | None = None,
        tokens: int = 0,
    ) -> str:
        """Acquires. `granted`, `waits`, `existing`, or the code of the refusal."""
        wanted = Ask(tenant, permits, priority, _us(timeout), _us(ttl), holder=holder, key=key, tokens=tokens)
        try:
            answer = self.pool.acquire(wanted, self.now)
        except Refused as refused:
            return refused.code
        if isinstance(answer, Lease):
            self.leases[holder] = answer
            return "granted"
        if hasattr(answer, "waiter_id"):
            self.waiters[holder] = answer
            return "waits"
        self.leases[holder] = answer.lease
        return "existing"

    def refusal(
        self, holder: str, tenant: str = "a", permits: int = 1, *, timeout: float = 0, tokens: int = 0
    ) -> Refused:
        """The refusal of an ask that must be refused."""
        wanted = Ask(tenant, permits, "interactive", _us(timeout), _us(60), holder=holder, tokens=tokens)
        try:
            self.pool.acquire(wanted, self.now)
        except Refused as refused:
            return refused
        raise AssertionError(f"{holder} was not refused")

    def events(self) -> list[str]:
        """What happened to others since the last look: `granted x`, `left x CODE`, `ended x REASON`."""
        seen = []
        for event in self.pool.take_events():
            kind = type(event).__name__.lower()
            subject, detail = (getattr(event, name) for name in EVENT_FIELDS[kind.title()])
            holder = subject.ask.holder
            if kind == "granted":
                self.leases[holder] = detail
                seen.append(f"granted {holder}")
            else:
                seen.append(f"{kind} {holder} {detail}")
        return seen

    def at(self, second: float) -> list[str]:
        """Moves the clock on to a second, brings the pool there, and tells what happened."""
        self.now = _us(second)
        self.pool.advance(self.now)
        return self.events()

    def release(self, holder: str, tokens: int | None = None) -> list[str]:
        """Releases a holder's lease and tells what happened. `tokens`: what it used in truth; pools with rates only."""
        if tokens is None:
            self.released(holder)
        else:
            lease = self.leases[holder]
            self.pool.release(lease.lease_id, lease.ask.tenant, self.now, tokens)
        return self.events()

    def released(self, holder: str, tenant: str | None = None) -> Released:
        """What the release of a holder's lease answered."""
        lease = self.leases[holder]
        answer = self.pool.release(lease.lease_id, tenant or lease.ask.tenant, self.now)
        assert isinstance(answer, Released)
        return answer

    def renew(self, holder: str, ttl: float | None = None, tenant: str | None = None) -> str:
        """Renews. `renewed`, or the code of the refusal."""
        lease = self.leases[holder]
        try:
            self.pool.renew(lease.lease_id, tenant or lease.ask.tenant, None if ttl is None else _us(ttl), self.now)
        except Refused as refused:
            return refused.code
        return "renewed"

    def revoke(self, holder: str) -> list[str]:
        """Revokes a holder's lease and tells what happened."""
        self.pool.revoke(self.leases[holder].lease_id, self.now)
        return self.events()

    def disconnect(self, holder: str) -> list[str]:
        """The caller of a waiter leaves."""
        self.pool.disconnect(self.waiters[holder].waiter_id, self.now)
        return self.events()

    def cancel(self, holder: str) -> list[str]:
        """An operator ends a wait."""
        self.pool.cancel(self.waiters[holder].waiter_id, self.now)
        return self.events()

    def undelivered(self, holder: str) -> list[str]:
        """The answer with a holder's lease was lost."""
        self.pool.undelivered(self.leases[holder].lease_id, self.now)
        return self.events()

    def delivered(self, holder: str) -> None:
        """The answer with a holder's lease arrived."""
        self.pool.delivered(self.leases[holder].lease_id, self.now)

    def change(self, **fields: Any) -> list[str]:
        """Changes the configuration and tells what happened."""
        self.config = msgspec.structs.replace(self.config, **fields)
        self.pool.configure(self.config, self.now)
        return self.events()

    def order(self) -> list[str]:
        """Who waits, in the order of service; `?` marks who has no position."""
        return [w.ask.holder + ("" if place else "?") for w, place in self.pool.queue(1000)]

    def served(self, rounds: int) -> list[str]:
        """Who is granted when the oldest lease is released, again and again."""
        granted: list[str] = []
        for _ in range(rounds):
            oldest = min(self.pool.leases.values(), key=lambda lease: int(lease.fencing_token))
            self.pool.release(oldest.lease_id, oldest.ask.tenant, self.now)
            granted += [event.removeprefix("granted ") for event in self.events() if event.startswith("granted")]
        return granted

    def holders(self) -> list[str]:
        """Who holds, by age."""
        leases = sorted(self.pool.leases.values(), key=lambda lease: int(lease.fencing_token))
        return [lease.ask.holder for lease in leases]


def _us(seconds: float) -> int:
    return round(seconds * SECOND)
