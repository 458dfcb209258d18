"""ONE pool as a pure state machine: no I/O, no clock of its own, no asyncio. Time comes in as `now` (whole µs).

The same code serves requests, property tests with a fake clock, and what-if replay. Rules are cited by their number in
the scheduling rules. Each operation costs O(log waiters + log tenants + ranks in use), amortised. What it consists of:
`holdings.py` the leases, `queue.py` the waiters, `order.py` whose turn it is; here is how they play together.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Mapping
from random import Random
from typing import Any

from relay.permits.engine.base import Ask, EndReason, Lease, LeaseEnded, PoolConfig, Refused, Released, Share
from relay.permits.engine.ended import EndedLeases
from relay.permits.engine.events import Ended, Event, Existing, Granted, Left, LeftCode
from relay.permits.engine.hints import Hints
from relay.permits.engine.holdings import Holdings
from relay.permits.engine.order import Order
from relay.permits.engine.preview import serving_order
from relay.permits.engine.queue import Queue
from relay.permits.engine.rates import Rates
from relay.permits.engine.timeline import NEVER
from relay.permits.engine.waiting import TenantQueue, Waiter

CULLED_PER_SLICE = 500  # waiters looked at in one slice after a shrink: below 2 ms
_NO_SHARE = Share()


class PoolCore:
    """One pool. Effects on others than the caller of an operation are in `take_events()` after it.

    `used_up`: its rates begin empty, as after a restart, when nobody knows what was taken just before.
    """

    def __init__(
        self,
        config: PoolConfig,
        now: int,
        *,
        ranks: Mapping[str, int],
        weights: Mapping[str, float],
        ids: Callable[[], str],
        rng: Random,
        ended: EndedLeases | None = None,
        fencing: int = 0,
        used_up: bool = False,
    ) -> None:
        self.config = config
        self.fencing = fencing
        self.repeated = False  # whether the last acquire was a repeat (rule 14)
        self.tenants: dict[str, TenantQueue] = {}
        self.hints = Hints(rng)
        self.rates: Rates | None = None
        self.room = config.capacity  # what is not kept back for a joint waiter (several.py)
        self.reserved = 0
        self.serve_joint: Callable[[PoolCore], None] | None = None  # set while joint waiters have parts here
        self.rate_due = NEVER  # when its rates let the next waiter through, if they are all that it waits for
        self._order = Order(config.capacity, config.aging_us, dict(ranks))
        self._held = Holdings(config.name, EndedLeases() if ended is None else ended)
        self._queue = Queue(self._order)
        self._weights = weights
        self._ids = ids
        self._keys: dict[tuple[str, str], Lease | Waiter] = {}
        self._culls: deque[Iterator[Waiter]] = deque()
        self.resuming: dict[str, Waiter] = {}  # yielded leases that wait to come back (changes.py)
        self.resumed: set[str] = set()  # those that are back, while their callers have not been told
        self.events: list[Event] = []  # effects since the last `take_events`
        self._now = now
        self._paused_at = now if config.state == "paused" else None
        self._paused_us = 0
        self._set_rates(empty=used_up)

    # Time

    def advance(self, now: int) -> None:
        """Rule 8: leases that are due end, then waiters past their deadline, then grants. `now` never goes back."""
        if now > self._now:
            self._now = now
        if self._queue.waiters or self._now >= self._held.dues.soonest:
            self._catch_up()

    def _catch_up(self) -> None:
        now, order, queue = self._now, self._order, self._queue
        changed = False
        if now >= self._held.dues.soonest:
            for lease in self._held.dues.pop_due(now):
                dropped = lease.drop_us is not None and lease.drop_us < lease.expires_us
                self._end(lease, "dropped" if dropped else "expired", timed=False)
                changed = True
        if now >= queue.dues.soonest:
            for waiter in queue.dues.pop_due(now):
                self._leave(waiter, "acquire-timeout" if waiter.stays else "cancelled", timed=False)
                changed = True
        if order.next_alarm() <= self._age():
            order.ring_alarms(self._age())
            changed = True
        if self._culls:
            self._cull()
            changed = True
        if changed or now >= self.rate_due:
            self._serve()

    def next_due(self) -> int:
        """When something will happen by itself, at the earliest; NEVER if nothing will."""
        due = self._held.dues.soonest
        if not self._queue.waiters:
            if self._culls:
                self._culls.clear()
            return due
        if self._culls:
            return self._now
        due = min(due, self._queue.dues.soonest, self.rate_due)
        alarm = self._order.next_alarm()
        if alarm < NEVER and self._paused_at is None:
            due = min(due, alarm + self._paused_us)
        return due

    def _age(self) -> int:
        """Un-paused time (rule 5 b)."""
        return (self._now if self._paused_at is None else self._paused_at) - self._paused_us

    def take_events(self) -> list[Event]:
        """The effects since the last call, in their order."""
        events = self.events
        if events:
            self.events = []
        return events

    # Acquire

    def acquire(self, ask: Ask, now: int) -> Lease | Waiter | Existing:
        """A lease granted by this call, a waiter (new or taken over), or the lease that the key has. Raises Refused."""
        if self._queue.waiters or now >= self._held.dues.soonest or now < self._now:
            self.advance(now)
        else:
            self._now = now
        self.repeated = False
        if ask.key is not None:
            found = self._keys.get((ask.tenant, ask.key))
            if found is not None:
                self.repeated = True
                return self._repeat(found, ask)
        tenant = self.tenants.get(ask.tenant) or self._new_tenant(ask.tenant)
        if ask.permits > self.config.capacity or tenant.limit is not None or ask.tokens > self._most_tokens:
            self._refuse_impossible(tenant, ask)
        state = self.config.state
        if state == "draining":
            raise self._draining(ask)
        if state == "active" and self._fits_first(tenant, ask):
            lease = self._grant(tenant, ask, 0)
            if self._queue.waiting:  # the grant may have brought its tenant to its limit: its turns are kept no more
                self._serve()
            return lease
        if not ask.timeout_us:
            raise self._found_nothing(ask)
        if self._queue_full(tenant):
            raise Refused("queue-full", "The queue is full.", self._retry_us(ask))
        waiter = self._enqueue(tenant, ask)
        self._serve()
        return waiter

    def _refuse_impossible(self, tenant: TenantQueue, ask: Ask) -> None:
        """Rule 9."""
        if ask.tokens > self._most_tokens:
            detail = f"tokens: at most {self._most_tokens} at once in this pool (tokens_burst); ask for less"
            raise Refused("invalid", detail)
        if ask.permits > self._ceiling():
            raise Refused(
                "exceeds-capacity", f"permits: {ask.permits} can never be granted, the pool has {self._ceiling()}."
            )
        if tenant.limit is not None and ask.permits > tenant.limit:
            raise Refused(
                "exceeds-tenant-limit", f"permits: {ask.permits} can never be granted, the limit is {tenant.limit}."
            )

    def _ceiling(self) -> int:
        return max(self.config.capacity, self.config.ceiling or 0)

    def _fits_first(self, tenant: TenantQueue, ask: Ask, waiter: Waiter | None = None) -> bool:
        """Whether this can be granted at once, with nobody in front of it by rule 5 (rule 8)."""
        if self._held.in_use + ask.permits > self.room or tenant.blocked(ask.permits):
            return False
        if self.rates is not None and self.rates.ready(ask.tokens, self._now) > self._now:
            return False
        if not self._queue.waiting:
            return True
        order, age = self._order, self._age()
        vtime = tenant.vtime if tenant.active else order.vtime_on_return(tenant)
        if waiter is None:
            rank, arrival = order.ranks[ask.priority], self._queue.arrivals + 1
        else:
            rank, arrival = order.rank_now(waiter, age), waiter.arrival
        return order.goes_first(tenant, ask.permits, rank, arrival, vtime, age)

    def _queue_full(self, tenant: TenantQueue) -> bool:
        """Rule 12; absent waiters count."""
        if len(self._queue.waiters) >= self.config.max_waiters:
            return True
        return tenant.max_waiters is not None and tenant.queued >= tenant.max_waiters

    def _enqueue(self, tenant: TenantQueue, ask: Ask, joint: Any = None) -> Waiter:
        arrivals = self._now << 10  # even numbers that tell the time, so that a yielded lease comes back between them
        self._queue.arrivals = arrivals if arrivals > self._queue.arrivals else self._queue.arrivals + 2
        waiter = Waiter(self._ids(), ask, tenant, self._queue.arrivals, self._now, self._age(), joint)
        if ask.key is not None:
            self._keys[ask.tenant, ask.key] = waiter
        self._queue.enter(waiter)
        return waiter

    def _draining(self, ask: Ask) -> Refused:
        return Refused("pool-draining", "The pool is draining and takes no new work.", self._retry_us(ask))

    def _found_nothing(self, ask: Ask) -> Refused:
        if self.config.state == "paused":
            return Refused("pool-paused", "The pool is paused.", self._retry_us(ask))
        if self.rates is not None and self._held_up_by_rate(self.rates, ask):
            retry_us = self._rate_retry_us(self.rates, ask)
            kind = self.rates.scarcer(ask.tokens, self._now)
            detail = (
                f"The pool's {kind} a minute are used up for now. Try again in {retry_us / 1e6:.3f} s, or wait for it."
            )
            return Refused("rate-limited", detail, retry_us)
        return Refused("acquire-timeout", "No permit is free for this right now.", self._retry_us(ask))

    def _held_up_by_rate(self, rates: Rates, ask: Ask) -> bool:
        """Whether the permits are there, and only a rate says no: to this one, or to the waiter in front of it."""
        if self._held.in_use + ask.permits > self.room or self.tenants[ask.tenant].blocked(ask.permits):
            return False
        return self.rate_due < NEVER or rates.ready(ask.tokens, self._now) > self._now

    def _rate_retry_us(self, rates: Rates, ask: Ask) -> int:
        tokens = self._queue.tokens + ask.tokens
        ready_us = rates.ready(tokens, self._now, self._queue.waiting + 1) - self._now
        return self.hints.rate_retry_us(ready_us, rates.gap_us(ask.tokens))

    def _retry_us(self, ask: Ask) -> int:
        missing = self._queue.permits + ask.permits + self._held.in_use - self.config.capacity
        retry_us = self.hints.retry_us(missing, ask.permits, self.config.capacity, self._now)
        return retry_us if self.rates is None else max(retry_us, self._rate_retry_us(self.rates, ask))

    def retry_us(self, waiter: Waiter) -> int:
        """The hint for a waiter that left in vain (rule 13)."""
        return self._retry_us(waiter.ask)

    # Idempotency (rule 14)

    def _repeat(self, found: Lease | Waiter, ask: Ask) -> Lease | Waiter | Existing:
        if not found.same_body(ask):
            raise Refused("idempotency-conflict", "This Idempotency-Key is in use with another body.")
        if isinstance(found, Lease):
            if found.drop_us is not None:  # its answer is on the way again
                self._held.reschedule(found, found.expires_us, None)
            return Existing(found)
        if not ask.timeout_us:
            return self._repeat_try(found, ask)
        if not found.connected:
            self._queue.stand(found)
        found.ask = ask
        found.deadline_us = self._now + ask.timeout_us
        self._queue.reschedule(found, found.deadline_us)
        self._serve()
        return self._granted_just_now(found) or found

    def _repeat_try(self, waiter: Waiter, ask: Ask) -> Lease:
        """Leaves a connected waiter alone; an absent one is granted in its place, or stays absent."""
        if waiter.connected or self.config.state == "paused" or not self._fits_first(waiter.tenant, ask, waiter):
            raise self._found_nothing(ask)
        self._remove(waiter)
        lease = self._grant(waiter.tenant, ask, self._now - waiter.enqueued_us, active=True)
        self._serve()
        return lease

    def _granted_just_now(self, waiter: Waiter) -> Lease | None:
        """The lease of a taken-over waiter that its return made grantable: the caller's own, so no event."""
        for index, event in enumerate(self.events):
            if isinstance(event, Granted) and event.waiter is waiter:
                del self.events[index]
                return event.lease
        return None

    # Leaving the queue

    def disconnect(self, waiter_id: str, now: int) -> None:
        """The caller is gone (rule 11): the wait ends, or with a key the place is kept for a while (rule 14)."""
        self.advance(now)
        waiter = self._queue.waiters.get(waiter_id)
        if waiter is None or not waiter.stays:
            return
        grace_us = self.config.reconnect_grace_us
        if waiter.ask.key is None or not grace_us or waiter.joint is not None:
            self._leave(waiter, "cancelled")
        else:
            self._queue.reschedule(waiter, min(waiter.deadline_us, self._now + grace_us))
            self._queue.step_out(waiter)
        self._serve()

    def cancel(self, waiter_id: str, now: int) -> bool:
        """An operator ends a wait; False if nobody waits under this id."""
        self.advance(now)
        waiter = self._queue.waiters.get(waiter_id)
        if waiter is None:
            return False
        self._leave(waiter, "waiter-cancelled")
        self._serve()
        return True

    def turn_away(self, code: LeftCode, now: int) -> None:
        """Ends all waits, absent ones too."""
        self.advance(now)
        for waiter in list(self._queue.waiters.values()):
            self._leave(waiter, code)
        self.rate_due = NEVER

    def _leave(self, waiter: Waiter, code: LeftCode, *, timed: bool = True) -> None:
        self._remove(waiter, timed=timed)
        self._settle(waiter.tenant)
        by_rate = code == "acquire-timeout" and self.rate_due < NEVER and waiter.tenant.entry is not None
        self.events.append(Left(waiter, code, by_rate))
        if waiter.joint is not None:
            waiter.joint.part_left(waiter, code)
        elif waiter.lease is not None:
            del self.resuming[waiter.lease.lease_id]

    def _remove(self, waiter: Waiter, *, timed: bool = True) -> None:
        self._queue.leave(waiter, timed=timed)
        if waiter.ask.key is not None:
            del self._keys[waiter.ask.tenant, waiter.ask.key]

    def _settle(self, tenant: TenantQueue) -> None:
        if not tenant.active:
            self._order.deactivate()

    # Grants

    def _serve(self, *, once: bool = False) -> bool:
        """Serves those whose turn it is, and holds free permits back for the one that needs more (rules 5 to 7).

        Who waits for a rate alone holds no permit; its turn is kept in the same way, so that nobody slips past.
        `once`: one waiter; whether there was one.
        """
        if self.serve_joint is not None and not once:
            self.serve_joint(self)
            return False
        self.rate_due = NEVER
        while self._queue.waiting and self._paused_at is None:
            waiter = self._order.first(self._age())
            if waiter is None:
                return False
            free = self.room - self._held.in_use
            if waiter.ask.permits > free or (self.rates is not None and self._wait_for_rate(self.rates, waiter.ask)):
                if free > 0 and not waiter.saved:
                    self.rate_due = NEVER
                    self._order.keep_turn(waiter)
                    continue
                return False
            self._remove(waiter)
            if waiter.lease is None:
                lease = self._grant(waiter.tenant, waiter.ask, self._now - waiter.enqueued_us, active=True)
            else:
                lease = self._regain(waiter.tenant, waiter.lease, active=True)
            self.events.append(Granted(waiter, lease))
            if once:
                return True
        return False

    def _wait_for_rate(self, rates: Rates, ask: Ask) -> bool:
        """Whether a rate is what the next waiter waits for; notes until when."""
        ready = rates.ready(ask.tokens, self._now)
        if ready <= self._now:
            return False
        self.rate_due = ready
        return True

    def _grant(self, tenant: TenantQueue, ask: Ask, waited_us: int, *, active: bool = False) -> Lease:
        """A new lease. `active`: the tenant's last waiter was just taken out for it."""
        if not (active or tenant.in_use or tenant.queued):
            self._order.activate(tenant)
        now = self._now
        self.fencing += 1
        ttl = ask.ttl_us
        if self.config.max_lease_us is not None:
            ttl = min(ttl, self.config.max_lease_us)  # rule 18
        lease = Lease(self._ids(), self.config.name, ask, self.fencing, waited_us, now, now + ttl, ttl)
        self._hold(tenant, lease)
        self._order.charge(tenant, ask.permits)
        if self.rates is not None:
            self.rates.take(ask.tokens, now, lease.fencing_token)
            if self.hints.refused:
                self.hints.served()
        return lease

    def _hold(self, tenant: TenantQueue, lease: Lease) -> None:
        ask = lease.ask
        self._held.add(lease)
        if ask.key is not None:
            self._keys[ask.tenant, ask.key] = lease
        tenant.in_use += ask.permits
        if tenant.waiting:
            self._order.mark_use(tenant)

    def _regain(self, tenant: TenantQueue, lease: Lease, *, active: bool = False) -> Lease:
        """A yielded lease is back: a grant by the order, with a fencing token above those given out meanwhile."""
        self.fencing += 1
        lease.fencing_token = self.fencing
        self.resuming.pop(lease.lease_id, None)
        self.resumed.add(lease.lease_id)
        self._count_again(tenant, lease, active=active)
        self._order.charge(tenant, lease.ask.permits)
        return lease

    def _count_again(self, tenant: TenantQueue, lease: Lease, *, active: bool = False) -> None:
        if not (active or tenant.in_use or tenant.queued):
            self._order.activate(tenant)
        lease.yielded = False
        self._held.in_use += lease.ask.permits
        tenant.in_use += lease.ask.permits
        if tenant.waiting:
            self._order.mark_use(tenant)

    def give_back(self, lease: Lease) -> None:
        """A lease yields: its permits come free. Serves nobody."""
        tenant = self.tenants[lease.ask.tenant]
        lease.yielded = True
        self.resumed.discard(lease.lease_id)
        self._held.in_use -= lease.ask.permits
        tenant.in_use -= lease.ask.permits
        if tenant.waiting:
            self._order.mark_use(tenant)
        else:
            self._settle(tenant)

    def restore(self, lease: Lease) -> None:
        """Takes back a lease that was answered before a restart (rule 20), whatever the capacity is now."""
        tenant = self.tenants.get(lease.ask.tenant) or self._new_tenant(lease.ask.tenant)
        if not tenant.active:
            self._order.activate(tenant)
        lease.delivered, lease.drop_us = True, None
        self._hold(tenant, lease)
        if lease.yielded:
            self.give_back(lease)

    # Leases

    def find(self, lease_id: str, tenant: str | None) -> Lease:
        """A live lease; `tenant` None sees all (rule 17). Raises `lease-not-found`, LeaseEnded."""
        return self._held.find(lease_id, tenant, self._now)

    def renew(self, lease_id: str, tenant: str, ttl_us: int | None, now: int) -> Lease:
        """Rule 18. `ttl_us` None: the lease's own. Raises `lease-not-found`, LeaseEnded."""
        self.advance(now)
        lease = self.find(lease_id, tenant)
        ttl = lease.ttl_us if ttl_us is None else ttl_us
        expires = self._now + ttl
        if self.config.max_lease_us is not None:
            ttl = min(ttl, self.config.max_lease_us)
            expires = min(expires, lease.acquired_us + self.config.max_lease_us)
        lease.ttl_us = ttl
        self._held.reschedule(lease, max(expires, lease.expires_us), lease.drop_us)
        return lease

    def release(self, lease_id: str, tenant: str, now: int, tokens: int | None = None) -> Released:
        """Ends a lease, or tells how it ended before (rule 17). `tokens`: what it used in truth. Raises `lease-not-found`."""
        if self._queue.waiters or now >= self._held.dues.soonest or now < self._now:
            self.advance(now)
        else:
            self._now = now
        lease = self._held.leases.get(lease_id)
        if lease is None or lease.ask.tenant != tenant:
            try:
                lease = self.find(lease_id, tenant)
            except LeaseEnded as end:
                return Released(reason=end.reason)
        if tokens is not None and self.rates is not None:
            self.rates.settle(lease.ask.tokens, tokens, self._now, lease.fencing_token)
        self._end(lease, "released")
        if self._queue.waiting:
            self._serve()
        return Released(held_us=self._now - lease.acquired_us, pool=self.config.name)

    def revoke(self, lease_id: str, now: int) -> bool:
        """Ends anybody's lease; False if it had ended. Raises `lease-not-found`."""
        self.advance(now)
        try:
            lease = self.find(lease_id, None)
        except LeaseEnded:
            return False
        self._end(lease, "revoked")
        self._serve()
        return True

    def delivered(self, lease_id: str, now: int) -> None:
        """The answer with this lease reached a connection that stood."""
        lease = self.leases.get(lease_id)
        if lease is not None and not lease.delivered:
            lease.delivered = True
            if lease.drop_us is not None:
                self._held.reschedule(lease, lease.expires_us, None)

    def undelivered(self, lease_id: str, now: int) -> None:
        """The answer could not be written: the grant goes back (rule 4), with a key after a while (rule 14)."""
        self.advance(now)
        lease = self.leases.get(lease_id)
        if lease is not None and lease_id in self.resumed:
            self.give_back(lease)
            self._serve()
            return
        if lease is None or lease.delivered:
            return
        grace_us = self.config.reconnect_grace_us
        if lease.ask.key is None or not grace_us:
            self._end(lease, "dropped")
            self._serve()
        else:
            self._held.reschedule(lease, lease.expires_us, self._now + grace_us)

    def take_back(self, lease_id: str) -> None:
        """A grant that could not be recorded never happened for its caller. Serves nobody."""
        lease = self.leases.get(lease_id)
        if lease is not None:
            lease.delivered = True  # its outcome is told by whoever takes it back
            self._end(lease, "dropped")

    def _end(self, lease: Lease, reason: EndReason, *, timed: bool = True) -> None:
        """Rule 2: a lease ends exactly once. The caller serves the waiters then."""
        ask = lease.ask
        if lease.yielded:
            self._end_resume(lease)
        end = self._held.end(lease, reason, self._now, timed=timed)
        if ask.key is not None:
            del self._keys[ask.tenant, ask.key]
        tenant = self.tenants[ask.tenant]
        tenant.in_use -= ask.permits
        if tenant.waiting:
            self._order.mark_use(tenant)
        elif not (tenant.in_use or tenant.queued):
            self._order.deactivate()
        if reason == "released":
            self.hints.held(self._now - lease.acquired_us)
        elif reason == "dropped" and self.rates is not None:
            self.rates.give_back(ask.tokens, self._now, lease.fencing_token)
        self.events.append(Ended(lease, end))

    def _end_resume(self, lease: Lease) -> None:
        """A yielded lease ends: so does its wait to come back; it counts again for the moment of its end."""
        waiter = self.resuming.get(lease.lease_id)
        if waiter is not None:
            self._leave(waiter, "lease-ended")
        self._count_again(self.tenants[lease.ask.tenant], lease)

    # Configuration

    def configure(
        self,
        config: PoolConfig,
        now: int,
        ranks: Mapping[str, int] | None = None,
        weights: Mapping[str, float] | None = None,
    ) -> None:
        """Takes a new configuration over, live (rules 3, 6, 19)."""
        self.advance(now)
        before, self.config = self.config, config
        self.room = config.capacity - self.reserved
        self._set_paused(config.state == "paused")
        if weights is not None:
            self._weights = weights
        lowered = [tenant for tenant in self.tenants.values() if self._apply_share(tenant)]
        if ranks is not None:
            self._order.ranks = {**self._order.ranks, **ranks}  # somebody may still wait in a class that was deleted
            for tenant in self.tenants.values():
                for priority, queue in tenant.queues.items():
                    queue.rank = ranks.get(priority, queue.rank)
        if ranks is not None or config.aging_us != before.aging_us:
            self._order.rerank(config.aging_us, list(self.tenants.values()))
            self._order.ring_alarms(self._age())
        if config.capacity != before.capacity:
            self._order.resize(config.capacity)
        if (config.requests, config.tokens) != (before.requests, before.tokens):
            self._set_rates()
        shrunk = self._ceiling() < max(before.capacity, before.ceiling or 0) or config.tokens != before.tokens
        if self.waiters and (lowered or shrunk):
            self._culls.append(iter(list(self.waiters.values())))
            self._cull()
        self._serve()

    def _set_rates(self, *, empty: bool = False) -> None:
        """Takes the configured rates over, live."""
        requests, tokens = self.config.requests, self.config.tokens
        self._most_tokens = NEVER if tokens is None else tokens.burst
        if requests is None and tokens is None:
            self.rates = None
        elif self.rates is None:
            self.rates = Rates(requests, tokens, self._now, empty=empty)
        else:
            self.rates.change(requests, tokens, self._now)

    def _set_paused(self, paused: bool) -> None:
        """Time while paused does not age (rule 5 b)."""
        if paused and self._paused_at is None:
            self._paused_at = self._now
        elif not paused and self._paused_at is not None:
            self._paused_us += self._now - self._paused_at
            self._paused_at = None

    def _new_tenant(self, name: str) -> TenantQueue:
        tenant = self.tenants[name] = TenantQueue(name, len(self.tenants))
        self._apply_share(tenant)
        return tenant

    def _apply_share(self, tenant: TenantQueue) -> bool:
        """Gives a tenant its share; True if its limit came down."""
        share = self.config.shares.get(tenant.name, _NO_SHARE)
        weight = self._weights.get(tenant.name, 1.0) if share.weight is None else share.weight
        before = tenant.limit
        changed = (weight, share.limit) != (tenant.weight, before)
        tenant.weight, tenant.limit, tenant.max_waiters = weight, share.limit, share.max_waiters
        if share.guarantee != tenant.guarantee:
            tenant.set_guarantee(share.guarantee)
            changed = True
        if changed and tenant.waiting:
            self._order.mark(tenant)
        return share.limit is not None and (before is None or share.limit < before)

    def _cull(self) -> None:
        """One slice of a shrink: waiters that can never be served end at once, with the reason (rules 3, 9)."""
        ceiling = self._ceiling()
        for _ in range(CULLED_PER_SLICE):
            waiter = next(self._culls[0], None)
            if waiter is None:
                self._culls.popleft()
                return
            if waiter.waiter_id not in self.waiters:
                continue
            limit = waiter.tenant.limit
            if waiter.ask.permits > ceiling:
                self._leave(waiter, "exceeds-capacity")
            elif waiter.ask.tokens > self._most_tokens:
                self._leave(waiter, "invalid")
            elif limit is not None and waiter.ask.permits > limit:
                self._leave(waiter, "exceeds-tenant-limit")

    def close(self, now: int) -> None:
        """The pool is removed: its leases end revoked, its waiters get `pool-not-found`."""
        self.turn_away("pool-not-found", now)
        for lease in list(self.leases.values()):
            self._end(lease, "revoked")

    # What it shows

    @property
    def now(self) -> int:
        """The time of its last operation."""
        return self._now

    @property
    def leases(self) -> Mapping[str, Lease]:
        """The live leases, the oldest first."""
        return self._held.leases

    @property
    def waiters(self) -> Mapping[str, Waiter]:
        """All waiters by arrival, absent ones too."""
        return self._queue.waiters

    @property
    def in_use(self) -> int:
        """Permits that are held."""
        return self._held.in_use

    @property
    def waiting(self) -> int:
        """Connected waiters."""
        return self._queue.waiting

    def tenant_in_use(self, tenant: str) -> int:
        """Permits that a tenant holds."""
        found = self.tenants.get(tenant)
        return 0 if found is None else found.in_use

    def drift(self) -> int:
        """Permits in use less the sum over the leases: anything but 0 is a fault (rule 1)."""
        return self._held.drift()

    def expected_wait_us(self, permits: int, requests: int, tokens: int) -> int:
        """How long until so many permits have come free, and the rates have let through what stands before them."""
        wait = self.hints.wait_us(permits, self.config.capacity)
        return wait if self.rates is None else max(wait, self.rates.ready(tokens, self._now, requests) - self._now)

    def queue(self, limit: int) -> Iterator[tuple[Waiter, int | None]]:
        """The waiters as they would be served if permits came free one by one: positions for the first `limit`.

        The rest follow by arrival, those who are passed over or absent last, without a position.
        """
        self._order.first(self._age())
        served = serving_order(self._order, self._age(), limit)
        for place, waiter in enumerate(served, 1):
            yield waiter, place
        placed = {waiter.waiter_id for waiter in served}
        last: list[Waiter] = []
        for waiter in self.waiters.values():
            if waiter.waiter_id not in placed:
                if waiter.connected and waiter.tenant.entry is not None and len(served) == limit:
                    yield waiter, None
                else:
                    last.append(waiter)
        for waiter in last:
            yield waiter, None
