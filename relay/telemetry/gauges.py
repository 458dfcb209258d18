"""A pool at one moment: what meters, pages and metrics read from an engine."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal, Protocol

from msgspec import Struct

PoolState = Literal["active", "paused", "draining"]


class Holder(Struct, frozen=True, array_like=True):
    """What one tenant holds of a pool, and the share that it is due while others wait (permits; a fraction is cut off)."""

    tenant: str
    in_use: int
    due: int


class RateLevel(Struct, frozen=True):
    """One of a pool's rates, and how many could go at once now: negative after a charge for more than was stated."""

    kind: Literal["requests", "tokens"]
    per_minute: int
    burst: int
    available: float


class PoolGauges(Struct, frozen=True):
    """A pool at one moment. `waiting` counts connected waiters only; `drift` is `in_use` less the sum of the leases.

    `most`: the tenant furthest above its due, or else with the most permits; None where nobody waits or holds.
    `rate_bound`: the next waiter has its permits free, and waits for a rate.
    """

    name: str
    capacity: int
    in_use: int
    waiting: int
    oldest_wait_us: int
    state: PoolState
    drift: int
    tenants_in_use: dict[str, int]
    waiting_by_priority: dict[str, int]
    most: Holder | None = None
    rates: tuple[RateLevel, ...] = ()
    rate_bound: bool = False

    @property
    def available(self) -> int:
        """Permits that are free: never negative."""
        return max(0, self.capacity - self.in_use)

    @property
    def over_limit(self) -> int:
        """Permits held above the capacity, after a shrink."""
        return max(0, self.in_use - self.capacity)


class Gauged(Protocol):
    """An engine as telemetry sees it. Called on the event loop."""

    kind: str

    @property
    def up(self) -> bool:
        """Whether permits can be given out."""

    def names(self) -> list[str]:
        """The pools."""

    def gauges(self) -> Iterable[PoolGauges]:
        """All pools at this moment."""

    def pool_gauges(self, pool: str) -> PoolGauges | None:
        """One pool at this moment, None if there is no such pool."""
