"""What a live lease holds becomes another: resized, yielded, resumed. Inner steps of `PoolCore`, a friend of which this is."""

from __future__ import annotations

from msgspec import structs

from relay.permits.engine.base import Ask, Lease, Refused
from relay.permits.engine.core import PoolCore
from relay.permits.engine.waiting import Waiter


def resize(core: PoolCore, lease_id: str, tenant: str, permits: int, now: int) -> Lease:
    """Fewer permits go to the waiters at once; more must be free, with nobody in front by rule 5, or it is refused.

    Nobody waits for more while holding some: that is how deadlocks are made. The fencing token stays. Raises as an acquire
    of the difference that is a try would, `lease-not-found`, LeaseEnded.
    """
    core.advance(now)
    lease = core.find(lease_id, tenant)
    if lease.yielded:
        raise Refused("invalid", "permits: the lease is yielded; resume it first")
    if permits > lease.ask.permits:
        _check_growth(core, lease, permits)
    if permits != lease.ask.permits:
        _set(core, lease, permits)
        core._serve()
    return lease


def yield_lease(core: PoolCore, lease_id: str, tenant: str, now: int) -> Lease:
    """Gives the permits back while the holder waits for something else; its time to live goes on. Again: nothing happens.

    Raises `lease-not-found`, LeaseEnded.
    """
    core.advance(now)
    lease = core.find(lease_id, tenant)
    if not lease.yielded:
        core.give_back(lease)
        core._serve()
    return lease


def comes_back(core: PoolCore, lease: Lease, timeout_us: int) -> Ask:
    """What a yielded lease asks for to come back. Raises `exceeds-capacity`, `exceeds-tenant-limit`."""
    ask = structs.replace(lease.ask, timeout_us=timeout_us, key=None, tokens=0)
    core._refuse_impossible(core.tenants[ask.tenant], ask)
    return ask


def resume_lease(core: PoolCore, lease: Lease, ask: Ask) -> Lease | Waiter:
    """A yielded lease, at its original place and age: back at once, or a waiter (taken over, if it waits already).

    `ask` is what `comes_back` says. Raises Refused where a try finds nothing.
    """
    found = core.resuming.get(lease.lease_id)
    if found is not None:
        return _take_over(core, found, ask)
    waiter = _returning(core, lease, ask)
    if core.config.state != "paused" and core._fits_first(waiter.tenant, ask, waiter):
        core._regain(waiter.tenant, lease)
        core._serve()
        return lease
    if not ask.timeout_us:
        raise core._found_nothing(ask)
    core.resuming[lease.lease_id] = waiter
    core._queue.arrivals = max(core._queue.arrivals, waiter.arrival + 1)  # who comes now is behind it
    core._queue.enter(waiter)
    core._serve()
    return waiter


def _returning(core: PoolCore, lease: Lease, ask: Ask) -> Waiter:
    """Its original place: between those who came before and after it. A pause in between counts as waiting."""
    came_us = lease.acquired_us - lease.waited_us
    place = came_us << 10 | 1
    taken = {waiter.arrival for waiter in core.resuming.values()}
    while place in taken:
        place += 2
    age = min(came_us - core._paused_us, core._age())
    waiter = Waiter(core._ids(), ask, core.tenants[ask.tenant], place, core.now, age)
    waiter.lease = lease
    return waiter


def _take_over(core: PoolCore, waiter: Waiter, ask: Ask) -> Waiter:
    if not ask.timeout_us:
        raise core._found_nothing(ask)
    waiter.ask = ask
    waiter.deadline_us = core.now + ask.timeout_us
    core._queue.reschedule(waiter, waiter.deadline_us)
    return waiter


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
