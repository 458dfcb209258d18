"""A clock that stands still until told, and an engine of fixed gauges."""

from __future__ import annotations

from collections.abc import Iterable

from relay.telemetry.gauges import PoolGauges, PoolState, RateLevel
from relay.telemetry.meters import SECOND


class FakeClock:
    def __init__(self, seconds: float = 1000) -> None:
        self.us = round(seconds * SECOND)

    def __call__(self) -> int:
        return self.us

    def forward(self, seconds: float) -> None:
        self.us += round(seconds * SECOND)


def gauges(
    name: str = "gpu",
    *,
    capacity: int = 8,
    in_use: int = 0,
    waiting: int = 0,
    oldest_wait_s: float = 0,
    state: PoolState = "active",
    drift: int = 0,
    tenants: dict[str, int] | None = None,
    rates: tuple[RateLevel, ...] = (),
) -> PoolGauges:
    return PoolGauges(
        name,
        capacity,
        in_use,
        waiting,
        round(oldest_wait_s * SECOND),
        state,
        drift,
        tenants or {},
        {"interactive": waiting},
        rates=rates,
    )


class StillEngine:
    """An engine whose pools do not move: only what telemetry reads of one."""

    kind = "memory"

    def __init__(self, *pools: PoolGauges) -> None:
        self.pools = {pool.name: pool for pool in pools}
        self.up = True

    def names(self) -> list[str]:
        return list(self.pools)

    def gauges(self) -> Iterable[PoolGauges]:
        return list(self.pools.values())

    def pool_gauges(self, pool: str) -> PoolGauges | None:
        return self.pools.get(pool)
