"""The share of a pool that each tenant is due while permits are short: what rule 5 (c) moves towards. No I/O, no clock."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from math import inf
from typing import Protocol

from relay.telemetry.gauges import Holder


class Claim(Protocol):
    """What a tenant holds of a pool, may have of it, and whether it waits for more."""

    @property
    def name(self) -> str: ...
    @property
    def weight(self) -> float: ...
    @property
    def in_use(self) -> int: ...
    @property
    def waiting(self) -> int: ...
    @property
    def limit(self) -> int | None: ...
    @property
    def guarantee(self) -> int: ...
    @property
    def active(self) -> bool: ...


def dues(tenants: Iterable[Claim], capacity: int) -> dict[str, float]:
    """Each active tenant's due permits: the capacity by weight, none more than it wants or may have; first guarantees.

    Who has waiters wants all that it can get; who has none wants what it holds. O(tenants log tenants).
    """
    active = [tenant for tenant in tenants if tenant.active]
    wants = {tenant.name: min(inf if tenant.waiting else tenant.in_use, _most(tenant)) for tenant in active}
    # by weight, from the one that is content first: what it leaves goes to the others
    by_need = sorted(active, key=lambda tenant: wants[tenant.name] / tenant.weight)
    left, weights = float(capacity), sum(tenant.weight for tenant in active)
    due: dict[str, float] = {}
    for tenant in by_need:
        due[tenant.name] = min(wants[tenant.name], left * tenant.weight / weights)
        left -= due[tenant.name]
        weights -= tenant.weight
    return _with_guarantees(active, wants, due, capacity)


def _most(tenant: Claim) -> float:
    return inf if tenant.limit is None else tenant.limit


def _with_guarantees(
    active: list[Claim], wants: Mapping[str, float], due: dict[str, float], capacity: int
) -> dict[str, float]:
    """Raises dues below a wanted guarantee to it, and takes that from the others in proportion."""
    floors = {tenant.name: min(tenant.guarantee, wants[tenant.name]) for tenant in active}
    raised = {name: floor for name, floor in floors.items() if due[name] < floor}
    if not raised:
        return due
    rest = sum(due.values()) - sum(due[name] for name in raised)
    left = max(0.0, min(capacity, sum(due.values())) - sum(raised.values()))
    return {name: raised.get(name, value * left / rest if rest else 0.0) for name, value in due.items()}


def furthest_over(tenants: Iterable[Claim], capacity: int) -> Holder | None:
    """The tenant that holds the most above its due, or else simply the most; None if nobody holds anything."""
    holding = [tenant for tenant in tenants if tenant.active]
    if not any(tenant.in_use for tenant in holding):
        return None
    due = dues(holding, capacity)
    worst = max(holding, key=lambda tenant: (max(0.0, tenant.in_use - due[tenant.name]), tenant.in_use))
    return Holder(worst.name, worst.in_use, int(due[worst.name] + 1e-9))
