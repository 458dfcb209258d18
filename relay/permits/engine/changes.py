"""What a live lease holds becomes another: inner steps of `PoolCore`, of which this module is a friend."""

from __future__ import annotations

from msgspec import structs

from relay.permits.engine.base import Ask, Lease
from relay.permits.engine.core import PoolCore


def resize(core: PoolCore, lease_id: str, tenant: str, permits: int, now: int) -> Lease:
    """Fewer permits go to the waiters at once; more must be free, with nobody in front by rule 5, or it is refused.

    Nobody waits for more while holding some: that is how deadlocks are made. The fencing token stays. Raises as an acquire
    of the difference that is a try would, `lease-not-found`, LeaseEnded.
    """
    core.advance(now)
    lease = core.find(lease_id, tenant)
    if permits > lease.ask.permits:
        _check_growth(core, lease, permits)
    if permits != lease.ask.permits:
        _set(core, lease, permits)
        core._serve()
    return lease


def _check_growth(core: PoolCore, lease: Lease, permits: int) -> None:
    tenant = core.tenants[lease.ask.tenant]
    core._refuse_impossible(tenant, structs.replace(lease.ask, permits=permits, tokens=0))
    more = structs.replace(lease.ask, permits=permits - lease.ask.permits, tokens=0)
    if core.config.state == "draining":
        raise core._draining(more)
    if core.config.state == "paused" or not _may_have(core, more):
        raise core._found_nothing(more)


def _may_have(core: PoolCore, more: Ask) -> bool:
    """As an acquire, but for the rates: growing is no request."""
    tenant, order = core.tenants[more.tenant], core._order
    if core.in_use + more.permits > core.room or tenant.blocked(more.permits):
        return False
    rank = order.ranks[more.priority]
    return order.goes_first(tenant, more.permits, rank, core._queue.arrivals + 1, tenant.vtime, core._age())


def _set(core: PoolCore, lease: Lease, permits: int) -> None:
    tenant, more = core.tenants[lease.ask.tenant], permits - lease.ask.permits
    lease.asked = lease.asked or lease.ask.permits
    lease.ask = structs.replace(lease.ask, permits=permits)
    core._held.in_use += more
    tenant.in_use += more
    if tenant.waiting:
        core._order.mark_use(tenant)
    if more > 0:
        core._order.charge(tenant, more)
