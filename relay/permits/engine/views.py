"""Leases, waiters and pools as answers and lists show them: engine time becomes wall time here."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from itertools import chain, islice
from typing import NamedTuple, TypeVar

from msgspec import UNSET

from relay.permits.engine.base import SECOND, Ask, Lease, LeaseAnswer, PoolGauges, WaiterView
from relay.permits.engine.core import PoolCore
from relay.permits.engine.dues import furthest_over
from relay.permits.engine.rates import Rates
from relay.permits.engine.timeline import NEVER
from relay.telemetry.gauges import RateLevel

T = TypeVar("T")

EXACT_POSITIONS = 500
SECONDS_KEPT = 4096


class WallClock:
    """Engine time to Unix time in µs. Follows the wall clock when that jumps, not when it merely drifts within a look."""

    __slots__ = ("_now", "offset_us")

    def __init__(self, now: Callable[[], int]) -> None:
        self._now = now
        self.offset_us = 0

    def look(self) -> None:
        """Compares the clocks."""
        offset = time.time_ns() // 1000 - self._now()
        if abs(offset - self.offset_us) > SECOND // 100:
            self.offset_us = offset


def lease_view(lease: Lease, now: int, wall: WallClock) -> LeaseAnswer:
    """A lease as the API answers it."""
    ask = lease.ask
    left_us = lease.expires_us - now
    return LeaseAnswer(
        lease.lease_id,
        lease.pool,
        ask.tenant,
        ask.permits,
        ask.priority,
        ask.holder,
        ask.metadata,
        lease.fencing_token,
        lease.waited_us / SECOND,
        timestamp(lease.acquired_at_us),
        timestamp(lease.expires_us + wall.offset_us),
        left_us / SECOND if left_us > 0 else 0.0,
        lease.ttl_us / SECOND,
        ask.tokens or UNSET,
        ask.parent or UNSET,
        "yielded" if lease.yielded else UNSET,
    )


def timestamp(unix_us: int) -> str:
    """RFC 3339 in UTC with microseconds."""
    digits = str(unix_us)
    return f"{_SECONDS[digits[:-6]]}{digits[-6:]}Z"


class _Seconds(dict[str, str]):
    """The text of each second that was asked for lately, by its Unix time."""

    def __missing__(self, seconds: str) -> str:
        if len(self) >= SECONDS_KEPT:
            self.clear()
        text = self[seconds] = time.strftime("%Y-%m-%dT%H:%M:%S.", time.gmtime(int(seconds)))
        return text


_SECONDS = _Seconds()


class Filter(NamedTuple):
    """Which leases or waiters are wanted: of a tenant, of a class, and which stretch of them."""

    tenant: str | None = None
    priority: str | None = None
    offset: int = 0
    limit: int = 0

    def matches(self, ask: Ask) -> bool:
        """Whether this one is."""
        return self.tenant in (None, ask.tenant) and self.priority in (None, ask.priority)

    def stretch(self, found: Iterable[T]) -> list[T]:
        """The stretch."""
        return list(islice(found, self.offset, self.offset + self.limit))


def lease_views(core: PoolCore, now: int, wall: WallClock, wanted: Filter) -> list[LeaseAnswer]:
    """Live leases, the oldest first."""
    found = (lease for lease in core.leases.values() if wanted.matches(lease.ask))
    return [lease_view(lease, now, wall) for lease in wanted.stretch(found)]


def waiter_views(core: PoolCore, now: int, wall: WallClock, wanted: Filter) -> list[WaiterView]:
    """Waiters in serving order; no further than wanted."""
    everybody = wanted.tenant is None and wanted.priority is None
    exact = min(EXACT_POSITIONS, wanted.offset + wanted.limit) if everybody else EXACT_POSITIONS
    return wanted.stretch(_waiter_views(core, now, wall, wanted, exact))


def count_matches(core: PoolCore, wanted: Filter) -> int:
    """How many leases and waiters match."""
    asks = chain((lease.ask for lease in core.leases.values()), (waiter.ask for waiter in core.waiters.values()))
    return sum(wanted.matches(ask) for ask in asks)


def _waiter_views(core: PoolCore, now: int, wall: WallClock, wanted: Filter, exact: int) -> Iterator[WaiterView]:
    ahead = core.in_use - core.config.capacity  # permits that must come free before the next one is served
    tokens = 0
    for requests, (waiter, position) in enumerate(core.queue(exact), 1):
        ahead += waiter.ask.permits
        tokens += waiter.ask.tokens
        first = position == 1 and core.config.state != "paused"
        by_rate = first and core.rate_due < NEVER
        if wanted.matches(waiter.ask):
            yield WaiterView(
                waiter.waiter_id,
                waiter.ask.tenant,
                waiter.ask.priority,
                waiter.ask.permits,
                waiter.ask.holder,
                now - waiter.enqueued_us,
                waiter.deadline_us + wall.offset_us,
                position,
                waiter.stays,
                None if position is None else core.expected_wait_us(ahead, requests, tokens),
                waiter.ask.tokens,
                ("rate" if by_rate else "capacity") if first else None,
                core.rate_due + wall.offset_us if by_rate else None,
            )


def pool_gauges(core: PoolCore, now: int) -> PoolGauges:
    """One pool at this moment."""
    oldest = next((waiter.enqueued_us for waiter in core.waiters.values() if waiter.stays), now)
    by_priority: dict[str, int] = {}
    for tenant in core.tenants.values():
        if tenant.waiting:
            for priority, queue in tenant.queues.items():
                if len(queue):
                    by_priority[priority] = by_priority.get(priority, 0) + len(queue)
    if core.serve_joint is not None:  # parts of joint waiters stand in no class queue
        for waiter in core.waiters.values():
            if waiter.joint is not None:
                by_priority[waiter.ask.priority] = by_priority.get(waiter.ask.priority, 0) + 1
    return PoolGauges(
        core.config.name,
        core.config.capacity,
        core.in_use,
        core.waiting,
        now - oldest,
        core.config.state,
        core.drift(),
        {tenant.name: tenant.in_use for tenant in core.tenants.values()},
        by_priority,
        furthest_over(core.tenants.values(), core.config.capacity) if by_priority else None,
        () if core.rates is None else rate_levels(core.rates, now),
        core.rate_due < NEVER,
    )


def rate_levels(rates: Rates, now: int) -> tuple[RateLevel, ...]:
    """A pool's rates at this moment."""
    found = rates.levels(now).items()
    return tuple(RateLevel(kind, rate.per_minute, rate.burst, available) for kind, (rate, available) in found)
