"""The rows of the tabs Holders and Waiters, and what a resize would do at once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import accumulate
from typing import Any

from dashboard.pool.figures import age, countdown, moment, unix_ms, utc
from dashboard.pool.look import SEARCHED, SHOWN, Look
from relay.permits.engine.base import SECOND, LeaseAnswer, WaiterView


@dataclass(frozen=True)
class Holder:
    """A lease as a row. `width` is its age on the scale of the oldest one shown."""

    lease: LeaseAnswer
    short: str
    since_ms: int
    until_ms: int
    age: str
    expires: str
    since: str
    until: str
    width: str


@dataclass(frozen=True)
class Waiting:
    """A waiter as a row. `width` is how much of its patience is spent; `late`: it will give up before it is served."""

    waiter: WaiterView
    since_ms: int
    until_ms: int
    waited: str
    left: str
    until: str
    estimate_s: float | None
    width: str
    late: bool


def holders(look: Look, now: datetime) -> list[Holder]:
    """Who holds, the oldest first."""
    shown = look.leases[:SHOWN]
    ages = [(now - moment(lease.acquired_at)).total_seconds() for lease in shown]
    longest = max([*ages, 0.001])
    return [
        Holder(
            lease=lease,
            short=f"{lease.lease_id[:4]}…{lease.lease_id[-4:]}",
            since_ms=unix_ms(moment(lease.acquired_at)),
            until_ms=unix_ms(moment(lease.expires_at)),
            age=age(held_s),
            expires=countdown(lease.expires_in_s),
            since=utc(moment(lease.acquired_at)),
            until=utc(moment(lease.expires_at)),
            width=f"{100 * max(0.0, held_s) / longest:.1f}%",
        )
        for lease, held_s in zip(shown, ages, strict=True)
    ]


def waiters(look: Look, now: datetime) -> list[Waiting]:
    """Who waits, in the order of service."""
    return [_waiting(waiter, now) for waiter in look.waiters[:SHOWN]]


def _waiting(waiter: WaiterView, now: datetime) -> Waiting:
    waited_s = waiter.waited_us / SECOND
    deadline_s = waiter.deadline_us / SECOND
    left_s = max(0.0, deadline_s - now.timestamp())
    estimate_s = None if waiter.estimated_wait_us is None else waiter.estimated_wait_us / SECOND
    return Waiting(
        waiter=waiter,
        since_ms=unix_ms(now - timedelta(seconds=waited_s)),
        until_ms=int(deadline_s * 1000),
        waited=age(waited_s),
        left=countdown(left_s),
        until=utc(datetime.fromtimestamp(deadline_s, now.tzinfo)),
        estimate_s=estimate_s,
        width=f"{100 * waited_s / max(0.001, waited_s + left_s):.1f}%",
        late=estimate_s is not None and estimate_s > left_s,
    )


def count(leases: Sequence[Any]) -> str:
    """How many rows there are, or that there are more than are shown."""
    return f"{SHOWN}+" if len(leases) > SHOWN else str(len(leases))


def more(found: Sequence[Any], find: str) -> int:
    """How many rows were looked at if there may be more than are shown; 0 if all are shown."""
    return 0 if len(found) <= SHOWN else (SEARCHED if find else SHOWN)


def sizes(look: Look) -> dict[str, Any]:
    """What the resize form knows at once. `ahead`: permits that the first waiters need, added up in serving order."""
    capacity, in_use = look.gauges.capacity, look.gauges.in_use
    served = [waiter.permits for waiter in look.waiters if waiter.position is not None and waiter.connected]
    ahead = list(accumulate(served[:SHOWN]))
    top = max(10, capacity * 2, in_use + 2)
    return {
        "ahead": ",".join(map(str, ahead)),
        "least": 1,
        "most": min(1_000_000, top),
        "ticks": [round(1 + (top - 1) * part / 4) for part in range(5)],
    }
