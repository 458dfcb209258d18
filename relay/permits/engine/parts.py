"""One pool's side of a joint acquire (`several.py`): the inner steps of `PoolCore`, of which this module is a friend.

A part is a waiter that stands in no class queue: it has its place, its age and its deadline, but nobody waits behind it.
Whether its turn has come is asked, as of an absent waiter that is back (rule 14).
"""

from __future__ import annotations

from typing import Any

from relay.permits.engine.base import Ask, Lease, Refused
from relay.permits.engine.core import PoolCore
from relay.permits.engine.events import Existing, Granted, Left, LeftCode
from relay.permits.engine.waiting import Waiter


def known(core: PoolCore, ask: Ask) -> Lease | Waiter | None:
    """What the pool has under the key of this ask."""
    return None if ask.key is None else core._keys.get((ask.tenant, ask.key))


def check(core: PoolCore, ask: Ask) -> None:
    """Raises Refused where an acquire of this pool would be, but for permits that are not free and a full queue."""
    core._refuse_impossible(core.tenants.get(ask.tenant) or core._new_tenant(ask.tenant), ask)
    if core.config.state == "draining":
        raise core._draining(ask)


def fits(core: PoolCore, ask: Ask, waiter: Waiter | None = None) -> bool:
    """Whether this pool would grant it now: free, within the rates, and nobody in front of it."""
    tenant = core.tenants[ask.tenant]
    if core._paused_at is not None:
        return False
    if waiter is None or not waiter.joint.reserving:
        return core._fits_first(tenant, ask, waiter)
    if core.in_use + ask.permits > core.config.capacity or tenant.blocked(ask.permits):
        return False
    return core.rates is None or core.rates.ready(ask.tokens, core.now) <= core.now


def is_first(core: PoolCore, waiter: Waiter) -> bool:
    """Whether it is this waiter's turn by rule 5, be its permits free or not; False while it would be passed over."""
    tenant, permits, order, age = waiter.tenant, waiter.ask.permits, core._order, core._age()
    if not is_able(core, waiter):
        return False
    return order.goes_first(tenant, permits, order.rank_now(waiter, age), waiter.arrival, tenant.vtime, age)


def is_able(core: PoolCore, waiter: Waiter) -> bool:
    """Whether the pool as it is could serve it once permits came free (rule 6)."""
    permits = waiter.ask.permits
    return core._paused_at is None and permits <= core.config.capacity and not waiter.tenant.blocked(permits)


def turn(core: PoolCore, waiter: Waiter) -> tuple[bool, int, float, float, int]:
    """The order among parts: rule 5."""
    tenant = waiter.tenant
    beyond = tenant.in_use + waiter.ask.permits > tenant.guarantee
    rank = core._order.rank_now(waiter, core._age())
    return beyond, rank, tenant.in_use / tenant.weight, tenant.vtime, waiter.arrival


def ahead_of(core: PoolCore, ask: Ask, standing: list[Waiter]) -> list[Waiter]:
    """Those of the pool's waiters, in serving order, behind whom one that comes now would stand."""
    tenant, order, age = core.tenants[ask.tenant], core._order, core._age()
    vtime = tenant.vtime if tenant.active else order.vtime_on_return(tenant)
    rank = order.ranks[ask.priority]
    if order.goes_first(tenant, ask.permits, rank, core._queue.arrivals + 1, vtime, age):
        return []
    return [waiter for waiter in standing if waiter.saved or order.rank_now(waiter, age) <= rank]


def capacity(core: PoolCore) -> int:
    """What the pool has, or may grow to."""
    return core._ceiling()


def most(core: PoolCore, ask: Ask) -> int:
    """The most permits that this ask's tenant can ever hold here."""
    limit = core.tenants[ask.tenant].limit
    return core._ceiling() if limit is None else min(limit, core._ceiling())


def queue_full(core: PoolCore, ask: Ask) -> bool:
    """Rule 12."""
    return core._queue_full(core.tenants[ask.tenant])


def found_nothing(core: PoolCore, ask: Ask) -> Refused:
    """The refusal of a try."""
    return core._found_nothing(ask)


def full(core: PoolCore, ask: Ask) -> Refused:
    """The refusal where the queue is full."""
    return Refused("queue-full", "The queue is full.", core._retry_us(ask))


def enter(core: PoolCore, ask: Ask, joint: Any) -> Waiter:
    """A new part. The first one of a joint waiter keeps the deadline of all."""
    return core._enqueue(core.tenants[ask.tenant], ask, joint)


def serve_next(core: PoolCore) -> bool:
    """Serves one ordinary waiter; False if none can be."""
    return core._serve(once=True)


def take_at_once(core: PoolCore, ask: Ask) -> Lease:
    """Grants what `fits`."""
    return core._grant(core.tenants[ask.tenant], ask, 0)


def take(core: PoolCore, waiter: Waiter) -> None:
    """Grants a part that `fits`."""
    core._remove(waiter)
    lease = core._grant(waiter.tenant, waiter.ask, core.now - waiter.enqueued_us, active=True)
    core.events.append(Granted(waiter, lease))


def leave(core: PoolCore, waiter: Waiter, code: LeftCode) -> None:
    """A part leaves because another one did."""
    core._remove(waiter)
    core._settle(waiter.tenant)
    core.events.append(Left(waiter, code))


def take_over(core: PoolCore, waiter: Waiter, ask: Ask) -> None:
    """A repeat stands in the part's place, with its own deadline (rule 14)."""
    waiter.ask = ask
    waiter.deadline_us = core.now + ask.timeout_us
    if waiter.joint.parts[0][1] is waiter:
        core._queue.reschedule(waiter, waiter.deadline_us)


def existing(core: PoolCore, lease: Lease, ask: Ask) -> Lease:
    """The lease that a repeat gets. Raises `idempotency-conflict`."""
    found = core._repeat(lease, ask)
    assert isinstance(found, Existing)
    return found.lease


def reserve(core: PoolCore, permits: int) -> None:
    """Keeps so many permits back from everybody else; 0 ends it."""
    core.reserved = permits
    core.room = core.config.capacity - permits
