"""Who has what of a pool, against what is due to them."""

from __future__ import annotations

from dataclasses import dataclass

from dashboard.pictures import MAX_CELLS
from dashboard.pool.look import Look
from relay.permits.engine.dues import dues
from relay.permits.models import PoolShare
from relay.tenants.config import weights_of

UNFAIR_TIMES, UNFAIR_PERMITS = 1.25, 2  # over the share due by both, while others wait


@dataclass(frozen=True)
class Claim:
    """What a tenant holds, may have, and whether it waits for more: as the engine's own dues take it."""

    name: str
    weight: float
    in_use: int
    waiting: int
    limit: int | None = None
    guarantee: int = 0

    @property
    def active(self) -> bool:
        """Whether it takes part in the sharing."""
        return self.in_use > 0 or self.waiting > 0


@dataclass(frozen=True)
class TenantLine:
    """A tenant's row. `due` is None while it neither holds nor waits."""

    name: str
    share: PoolShare | None
    weight: float
    in_use: int
    waiting: int
    due: float | None
    capacity: int
    others_wait: bool

    @property
    def limit(self) -> int | None:
        """The most that it may hold."""
        return self.share.limit if self.share else None

    @property
    def guarantee(self) -> int:
        """What it gets back first."""
        return self.share.guarantee if self.share else 0

    @property
    def times(self) -> float | None:
        """How many times its due share it holds."""
        return self.in_use / self.due if self.due else None

    @property
    def unfair(self) -> bool:
        """It holds clearly more than its share while others wait."""
        if not self.others_wait or self.due is None:
            return False
        return self.in_use >= UNFAIR_TIMES * self.due and self.in_use - self.due >= UNFAIR_PERMITS

    @property
    def use_width(self) -> str:
        """The bar's filled part."""
        return _percent(self.in_use, self.capacity)

    @property
    def due_at(self) -> str:
        """Where on the bar its due share ends."""
        return _percent(self.due or 0, self.capacity)

    @property
    def cell(self) -> str:
        """The width of one permit on the bar; empty where they are too many to draw each."""
        return _percent(1, self.capacity) if self.capacity <= MAX_CELLS else ""


def _percent(part: float, whole: int) -> str:
    return f"{min(100.0, 100 * part / whole):.3f}%"


def tenant_lines(look: Look) -> list[TenantLine]:
    """Everybody who has a share, holds or waits: who holds most comes first."""
    shares = {share.tenant.name: share for share in look.shares}
    waiting: dict[str, int] = {}
    for waiter in look.waiters:
        waiting[waiter.tenant] = waiting.get(waiter.tenant, 0) + 1
    in_use = {name: held for name, held in look.gauges.tenants_in_use.items() if held}
    names = sorted(shares.keys() | in_use.keys() | waiting.keys())
    weights = weights_of(names)
    claims = [
        _claim(name, shares.get(name), weights.get(name, 1.0), in_use.get(name, 0), waiting.get(name, 0))
        for name in names
    ]
    due = dues(claims, look.gauges.capacity)
    lines = [
        TenantLine(
            name=claim.name,
            share=shares.get(claim.name),
            weight=claim.weight,
            in_use=claim.in_use,
            waiting=claim.waiting,
            due=due.get(claim.name),
            capacity=look.gauges.capacity,
            others_wait=any(count for other, count in waiting.items() if other != claim.name),
        )
        for claim in claims
    ]
    return sorted(lines, key=lambda line: (-line.in_use, -line.waiting, line.name))


def _claim(name: str, share: PoolShare | None, weight: float, in_use: int, waiting: int) -> Claim:
    if share is None:
        return Claim(name, weight, in_use, waiting)
    own = weight if share.weight is None else share.weight
    return Claim(name, own, in_use, waiting, share.limit, share.guarantee)
