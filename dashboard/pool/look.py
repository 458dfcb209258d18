"""One pool as it is now: its row, and everything live about it from one step of the event loop."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from relay.http import Problem
from relay.permits.config import find_pool, pool_not_found, shares_of
from relay.permits.engine.base import LeaseAnswer, WaiterView
from relay.permits.live import Serving, on_loop
from relay.permits.models import Pool, PoolShare
from relay.telemetry.gauges import PoolGauges
from relay.telemetry.present import describe
from relay.telemetry.window import Window

SHOWN = 100  # rows of a list; a search looks through more
SEARCHED = 1000


@dataclass(frozen=True)
class Look:
    """A pool at one moment. `numbers` are as the API shows them; `held_s` is the mean time that ended leases were held.

    `leases` and `waiters` hold one row more than is shown, if there are more.
    """

    pool: Pool
    shares: list[PoolShare]
    engine: str
    gauges: PoolGauges
    window: Window
    numbers: dict[str, Any]
    held_s: float | None
    leases: list[LeaseAnswer]
    waiters: list[WaiterView]
    samples: list[list[float | int | None]]

    @property
    def name(self) -> str:
        """The pool's name."""
        return self.pool.name

    @property
    def health(self) -> str:
        """The health word."""
        return str(self.numbers["health"])


def look(name: str, *, range_s: int, find: str = "") -> Look:
    """Reads a pool, with the samples of the last `range_s` seconds and the leases and waiters that contain `find`.

    Raises 404 `pool-not-found`, 503 `engine-unavailable`.
    """
    pool = find_pool(name)

    def read(serving: Serving) -> Look | None:
        return _read(serving, pool, range_s, find)

    try:
        found = on_loop(read)
    except TimeoutError:
        raise Problem(503, "engine-unavailable", "The engine does not answer.", retry_after_s=1.0) from None
    if found is None:
        raise pool_not_found(name)
    found.shares.extend(shares_of(pool))
    return found


def _read(serving: Serving, pool: Pool, range_s: int, find: str) -> Look | None:
    engine, name = serving.engine, pool.name
    limit = SEARCHED if find else SHOWN + 1
    leases = engine.leases(name, tenant=None, priority=None, offset=0, limit=limit)
    waiters = engine.waiters(name, tenant=None, priority=None, offset=0, limit=limit)
    gauges = engine.pool_gauges(name)
    if gauges is None:
        return None
    meter = serving.meters.pool(name)
    window = meter.window()
    held = meter.held
    return Look(
        pool=pool,
        shares=[],
        engine=engine.kind,
        gauges=gauges,
        window=window,
        numbers=describe(gauges, window),
        held_s=held.sum_us / held.count / 1e6 if held.count else None,
        leases=[lease for lease in leases if _matches(find, lease.lease_id, lease)],
        waiters=[waiter for waiter in waiters if _matches(find, waiter.waiter_id, waiter)],
        samples=meter.history(range_s)["rows"],
    )


def _matches(find: str, own_id: str, row: LeaseAnswer | WaiterView) -> bool:
    return not find or any(find in text.lower() for text in (own_id, row.tenant, row.holder, row.priority))
