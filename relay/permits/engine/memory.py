"""The embedded engine: pools (`core.py`) on one event loop, with a journal. One future per waiter, one timer per pool.

It carries events from the cores to whom they concern: waiting callers, the journal, the meters.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Iterable, Mapping
from itertools import count, islice
from random import Random
from typing import Any, Literal

from relay.permits.engine.base import (
    Ask,
    Caller,
    CallerGone,
    Lease,
    LeaseEnded,
    LeaseView,
    PoolConfig,
    PoolGauges,
    Refused,
    Released,
    WaiterView,
)
from relay.permits.engine.clock import EngineClock
from relay.permits.engine.core import Ended, Existing, Granted, PoolCore, Waiter, lease_not_found
from relay.permits.engine.ended import End, EndedLeases
from relay.permits.engine.journal import (
    EndRecord,
    FenceRecord,
    GrantRecord,
    Journal,
    Record,
    RenewRecord,
)
from relay.permits.engine.ledger import Ledger, unavailable
from relay.permits.engine.views import WallClock, lease_view, pool_gauges, waiter_views
from relay.telemetry.meters import Meters, PoolMeter

FENCING_GAP = 1_000_000  # more than the grants of the one second that an unclean stop may lose
_ABSENT = object()  # owner of a waiter whose connection is lost


class _Slot:
    """A pool and what the loop needs beside it."""

    __slots__ = ("core", "due", "meter", "timer")

    def __init__(self, core: PoolCore, meter: PoolMeter) -> None:
        self.core = core
        self.meter = meter
        self.timer: asyncio.TimerHandle | None = None
        self.due = 1 << 62


class MemoryEngine:
    """Implements `base.Engine`. Everything on the event loop that `start` ran on."""

    kind = "memory"

    def __init__(self, journal: Journal, sync: Literal["second", "always"], clock: EngineClock, meters: Meters) -> None:
        self.now = clock
        self._journal = journal
        self._sync = sync
        self._meters = meters
        self._slots: dict[str, _Slot] = {}
        self._ranks: dict[str, int] = {}
        self._weights: dict[str, float] = {}
        self._fences: dict[str, int] = {}
        self._leases: dict[str, _Slot] = {}
        self._waiters: dict[str, _Slot] = {}
        self._ended = EndedLeases()
        self._rng = Random()
        self._wall = WallClock(self.now)
        self._stopping = False
        prefix, numbers = secrets.token_hex(5), count(1)
        self._new_id = lambda: f"{prefix}{next(numbers):06x}"

    # Life

    async def start(
        self, pools: Mapping[str, PoolConfig], ranks: Mapping[str, int], weights: Mapping[str, float]
    ) -> None:
        """Takes over what the journal tells; each lease gets its full TTL from now (rule 20). Raises JournalRefused, OSError."""
        self._loop = asyncio.get_running_loop()
        self._wall.look()
        found = await asyncio.to_thread(self._journal.recover)
        self.now.continue_from(found.now_us)
        gap = 0 if found.clean else FENCING_GAP
        self._fences = {pool: token + gap for pool, token in found.fences.items()}
        for end in found.ends.values():
            self._ended.add(end.lease_id, End(end.tenant, end.pool, end.reason, end.at_us))
        self._ranks, self._weights = dict(ranks), dict(weights)
        self._ledger = Ledger(
            self._journal,
            self._sync,
            now=self.now,
            state=self._state_records,
            went_down=self._journal_down,
            undeliverable=self.undelivered,
        )
        for config in pools.values():
            self._add(config)
        for lease in found.leases.values():
            self._restore(lease)
        await self._ledger.start()

    def _restore(self, lease: Lease) -> None:
        now = self.now()
        slot = self._slots.get(lease.pool)
        if slot is None:  # its pool was deleted while the service was down
            self._ended.add(lease.lease_id, End(lease.ask.tenant, lease.pool, "revoked", now))
            return
        lease.expires_us = now + lease.ttl_us
        most = slot.core.config.max_lease_us
        if most is not None:
            lease.expires_us = min(lease.expires_us, lease.acquired_us + most)
        slot.core.restore(lease)
        self._leases[lease.lease_id] = slot
        self._arm(slot)

    async def tick(self) -> None:
        """Once a second: the journal's upkeep and the wall clock."""
        self._wall.look()
        await self._ledger.tick()

    @property
    def up(self) -> bool:
        """Whether permits can be given out."""
        return self._ledger.up and not self._stopping

    def shut_down(self) -> None:
        """No new work: every waiter is answered `shutting-down`."""
        self._stopping = True
        for slot in self._slots.values():
            slot.core.turn_away("shutting-down", self.now())
            self._carry(slot)

    async def stop(self) -> None:
        """Ends timers and closes the journal with the mark of a clean stop."""
        for slot in self._slots.values():
            if slot.timer is not None:
                slot.timer.cancel()
        await self._ledger.stop()

    # Acquire

    async def acquire(self, pool: str, ask: Ask, caller: Caller) -> tuple[Lease, bool]:
        """See `base.Engine`."""
        slot = self._slot(pool)
        if not self.up:
            self._count_turned_away(slot, ask)
            raise self._not_up()
        core = slot.core
        try:
            got = core.acquire(ask, self.now())
        except Refused as refused:
            self._count_refused(slot, ask, refused)
            self._carry(slot)
            raise
        if not core.repeated:
            slot.meter.arrived()
        if type(got) is Existing:
            self._carry(slot)
            return got.lease, False
        future: asyncio.Future[Lease] = self._loop.create_future()
        if type(got) is Lease:
            self._record_grant(slot, got, future)
            self._carry(slot)
            return await future, True
        assert isinstance(got, Waiter)
        self._own(slot, got, future)
        self._carry(slot)
        return await self._wait(got, future, caller), True

    def _own(self, slot: _Slot, waiter: Waiter, future: asyncio.Future[Lease]) -> None:
        """Makes this call the one that the waiter's lease will go to (rule 14)."""
        if isinstance(waiter.owner, asyncio.Future) and not waiter.owner.done():
            waiter.owner.set_exception(Refused("superseded", "A repeat with the same Idempotency-Key took over."))
        waiter.owner = future
        self._waiters[waiter.waiter_id] = slot

    async def _wait(self, waiter: Waiter, future: asyncio.Future[Lease], caller: Caller) -> Lease:
        def left(_: Any) -> None:
            self._caller_left(waiter, future)

        watch = caller.watch()
        watch.add_done_callback(left)
        try:
            return await future
        except asyncio.CancelledError:
            self._caller_left(waiter, future)
            raise
        finally:
            watch.remove_done_callback(left)

    def _caller_left(self, waiter: Waiter, future: asyncio.Future[Lease]) -> None:
        """Rule 11. A grant of this very instant is found undelivered when its answer is due."""
        slot = self._waiters.get(waiter.waiter_id)
        if slot is None or waiter.owner is not future:
            return
        waiter.owner = _ABSENT
        slot.core.disconnect(waiter.waiter_id, self.now())
        if not future.done():
            future.set_exception(CallerGone())
        self._carry(slot)

    def delivered(self, lease: Lease) -> None:
        """See `base.Engine`."""
        if not lease.delivered:
            slot = self._leases.get(lease.lease_id)
            if slot is not None:
                slot.core.delivered(lease.lease_id, 0)
                slot.meter.answered(lease.ask.tenant, lease.ask.priority, "granted", lease.waited_us)

    def undelivered(self, lease: Lease) -> None:
        """See `base.Engine`."""
        slot = self._leases.get(lease.lease_id)
        if slot is not None:
            slot.core.undelivered(lease.lease_id, self.now())
            self._carry(slot)

    # Leases

    async def renew(self, lease_id: str, tenant: str, ttl_us: int | None) -> Lease:
        """See `base.Engine`."""
        slot = self._slot_of(lease_id, tenant)
        try:
            lease = slot.core.renew(lease_id, tenant, ttl_us, self.now())
        finally:
            self._carry(slot)
        self.delivered(lease)  # who renews it has had the answer
        self._ledger.write(RenewRecord(lease_id, lease.ttl_us))
        await self._written()
        return lease

    async def release(self, lease_id: str, tenant: str) -> Released:
        """See `base.Engine`."""
        slot = self._leases.get(lease_id)
        if slot is None:
            return Released(reason=self._how_it_ended(lease_id, tenant).reason)
        released = slot.core.release(lease_id, tenant, self.now())
        self._carry(slot)
        await self._written()
        return released

    async def revoke(self, lease_id: str, reason: str) -> bool:
        """See `base.Engine`."""
        slot = self._leases.get(lease_id)
        if slot is None:
            self._how_it_ended(lease_id, None)
            return False
        revoked = slot.core.revoke(lease_id, self.now())
        self._carry(slot)
        await self._written()
        return revoked

    def lease(self, lease_id: str, tenant: str | None) -> LeaseView:
        """See `base.Engine`."""
        slot = self._slot_of(lease_id, tenant)
        slot.core.advance(self.now())
        self._carry(slot)
        return self.view(slot.core.find(lease_id, tenant))

    def view(self, lease: Lease) -> LeaseView:
        """See `base.Engine`."""
        return lease_view(lease, self.now(), self._wall)

    def cancel(self, waiter_id: str) -> None:
        """See `base.Engine`."""
        slot = self._waiters.get(waiter_id)
        if slot is None or not slot.core.cancel(waiter_id, self.now()):
            raise Refused("not-found", "Nobody waits under this id.")
        self._carry(slot)

    def _slot_of(self, lease_id: str, tenant: str | None) -> _Slot:
        slot = self._leases.get(lease_id)
        if slot is None:
            raise LeaseEnded(self._how_it_ended(lease_id, tenant).reason)
        return slot

    def _how_it_ended(self, lease_id: str, tenant: str | None) -> End:
        end = self._ended.get(lease_id, self.now())
        if end is None or (tenant is not None and end.tenant != tenant):
            raise lease_not_found()
        return end

    async def _written(self) -> None:
        """Returns when this turn's records are in the journal, or when it cannot be written."""
        future: asyncio.Future[None] = self._loop.create_future()
        self._ledger.answer(future, None)
        await future

    # From the cores to the world

    def _carry(self, slot: _Slot) -> None:
        """Carries a core's events to whom they concern, and sets its timer."""
        for event in slot.core.take_events():
            if type(event) is Granted:
                waiter, lease = event
                self._waiters.pop(waiter.waiter_id, None)
                self._record_grant(slot, lease, waiter.owner)
            elif type(event) is Ended:
                lease, reason = event
                self._lease_ended(slot, lease, reason)
            else:
                self._waiter_left(slot, event.waiter, event.code)
        self._arm(slot)

    def _record_grant(self, slot: _Slot, lease: Lease, future: asyncio.Future[Lease]) -> None:
        self._leases[lease.lease_id] = slot
        self._ledger.write(GrantRecord.of(lease))
        self._ledger.answer(future, lease, lease)

    def _lease_ended(self, slot: _Slot, lease: Lease, reason: Any) -> None:
        now = self.now()
        ask = lease.ask
        del self._leases[lease.lease_id]
        slot.meter.ended(reason, now - lease.acquired_us)
        if not lease.delivered:
            slot.meter.answered(ask.tenant, ask.priority, "cancelled", lease.waited_us)
        self._ledger.write(EndRecord(lease.lease_id, lease.pool, ask.tenant, reason, now))

    def _waiter_left(self, slot: _Slot, waiter: Waiter, code: str) -> None:
        self._waiters.pop(waiter.waiter_id, None)
        waited_us = self.now() - waiter.enqueued_us
        slot.meter.answered(waiter.ask.tenant, waiter.ask.priority, _OUTCOMES.get(code, "rejected"), waited_us)
        owner = waiter.owner
        if isinstance(owner, asyncio.Future) and not owner.done() and code != "cancelled":
            owner.set_exception(Refused(code, _LEFT[code], slot.core.retry_us(waiter) if code in _RETRY else None))

    def _count_refused(self, slot: _Slot, ask: Ask, refused: Refused) -> None:
        if slot.core.repeated:
            return
        slot.meter.arrived()
        slot.meter.answered(ask.tenant, ask.priority, "rejected", 0)
        if refused.code == "queue-full":
            slot.meter.queue_full()

    def malformed(self, pool: str, tenant: str) -> None:
        """See `base.Engine`."""
        slot = self._slot(pool)
        slot.meter.arrived()
        slot.meter.answered(tenant, slot.core.config.default_priority, "error", 0)

    def _count_turned_away(self, slot: _Slot, ask: Ask) -> None:
        slot.meter.arrived()
        slot.meter.answered(ask.tenant, ask.priority, "error", 0)

    def _not_up(self) -> Refused:
        if self._stopping:
            return Refused("shutting-down", _LEFT["shutting-down"], 1_000_000)
        return unavailable()

    def _arm(self, slot: _Slot) -> None:
        """Makes sure that the pool is looked at when its next thing is due."""
        due = slot.core.next_due()
        if due < slot.due:
            if slot.timer is not None:
                slot.timer.cancel()
            slot.due = due
            slot.timer = self._loop.call_later(max(0, due - self.now()) / 1e6, self._due, slot)

    def _due(self, slot: _Slot) -> None:
        slot.timer, slot.due = None, 1 << 62
        slot.core.advance(self.now())
        self._carry(slot)

    def _journal_down(self, lost: list[Lease]) -> None:
        """Fail closed: waiters are turned away first, so that what comes back is given to nobody."""
        for slot in self._slots.values():
            slot.core.turn_away("engine-unavailable", self.now())
            self._carry(slot)
        for lease in lost:
            slot_ = self._leases.get(lease.lease_id)
            if slot_ is not None:
                slot_.meter.answered(lease.ask.tenant, lease.ask.priority, "error", 0)
                slot_.core.take_back(lease.lease_id)
                self._carry(slot_)

    def _state_records(self) -> list[Record]:
        """All that a restart must know."""
        records: list[Record] = [
            EndRecord(lease_id, end.pool, end.tenant, end.reason, end.at_us) for lease_id, end in self._ended.items()
        ]
        fences = {**self._fences, **{name: slot.core.fencing for name, slot in self._slots.items()}}
        records += [FenceRecord(pool, token) for pool, token in fences.items()]
        for slot in self._slots.values():
            records += [GrantRecord.of(lease) for lease in slot.core.leases.values()]
        return records

    # Configuration

    def _slot(self, pool: str) -> _Slot:
        slot = self._slots.get(pool)
        if slot is None:
            raise Refused("pool-not-found", f"There is no pool {pool!r}.")
        return slot

    def pool(self, name: str) -> PoolConfig | None:
        """See `base.Engine`."""
        slot = self._slots.get(name)
        return None if slot is None else slot.core.config

    def rank(self, priority: str) -> int | None:
        """See `base.Engine`."""
        return self._ranks.get(priority)

    def configure(
        self,
        pools: Mapping[str, PoolConfig | None],
        ranks: Mapping[str, int] | None,
        weights: Mapping[str, float] | None,
    ) -> None:
        """See `base.Engine`."""
        if ranks is not None:
            self._ranks = dict(ranks)
        if weights is not None:
            self._weights = dict(weights)
        for name, config in pools.items():
            if config is None:
                if name in self._slots:
                    self.remove(name, force=True)
            elif name not in self._slots:
                self._add(config)
        everyone = ranks is not None or weights is not None
        for name, slot in self._slots.items():
            config = pools.get(name)
            if config is not None or everyone:
                slot.core.configure(config or slot.core.config, self.now(), ranks, weights)
                self._carry(slot)

    def _add(self, config: PoolConfig) -> None:
        core = PoolCore(
            config,
            self.now(),
            ranks=self._ranks,
            weights=self._weights,
            ids=self._new_id,
            rng=self._rng,
            ended=self._ended,
            fencing=self._fences.get(config.name, 0),
        )
        self._slots[config.name] = _Slot(core, self._meters.pool(config.name))

    def remove(self, pool: str, *, force: bool) -> None:
        """See `base.Engine`."""
        slot = self._slot(pool)
        slot.core.advance(self.now())
        self._carry(slot)
        if not force and (slot.core.leases or slot.core.waiters):
            raise Refused("in-use", f"Pool {pool!r} has leases or waiters. Drain it first, or use ?force=true.")
        slot.core.close(self.now())
        self._carry(slot)
        if slot.timer is not None:
            slot.timer.cancel()
        self._fences[pool] = slot.core.fencing
        self._ledger.write(FenceRecord(pool, slot.core.fencing))
        del self._slots[pool]
        self._meters.drop(pool)

    # What it shows

    def gauges(self) -> Iterable[PoolGauges]:
        """See `base.Engine`."""
        return [pool_gauges(slot.core, self.now()) for slot in self._slots.values()]

    def pool_gauges(self, pool: str) -> PoolGauges:
        """See `base.Engine`."""
        return pool_gauges(self._slot(pool).core, self.now())

    def leases(
        self, pool: str, *, tenant: str | None, priority: str | None, offset: int, limit: int
    ) -> list[LeaseView]:
        """See `base.Engine`."""
        slot = self._slot(pool)
        slot.core.advance(self.now())
        self._carry(slot)
        found = (lease for lease in slot.core.leases.values() if _matches(lease.ask, tenant, priority))
        return [self.view(lease) for lease in islice(found, offset, offset + limit)]

    def waiters(
        self, pool: str, *, tenant: str | None, priority: str | None, offset: int, limit: int
    ) -> list[WaiterView]:
        """See `base.Engine`."""
        slot = self._slot(pool)
        slot.core.advance(self.now())
        self._carry(slot)
        views = waiter_views(slot.core, self.now(), self._wall, lambda waiter: _matches(waiter.ask, tenant, priority))
        return list(islice(views, offset, offset + limit))

    def references(self, *, tenant: str | None = None, priority: str | None = None) -> int:
        """See `base.Engine`."""
        return sum(
            _matches(one.ask, tenant, priority)
            for slot in self._slots.values()
            for held in (slot.core.leases, slot.core.waiters)
            for one in held.values()
        )


def _matches(ask: Ask, tenant: str | None, priority: str | None) -> bool:
    return (tenant is None or ask.tenant == tenant) and (priority is None or ask.priority == priority)


_OUTCOMES = {
    "acquire-timeout": "timeout",
    "cancelled": "cancelled",
    "waiter-cancelled": "cancelled",
    "engine-unavailable": "error",
    "shutting-down": "error",
}
_LEFT = {
    "acquire-timeout": "No permit came free in time.",
    "waiter-cancelled": "An operator ended this wait.",
    "exceeds-capacity": "The pool shrank: this many permits can never be granted.",
    "exceeds-tenant-limit": "The tenant's limit fell: this many permits can never be granted.",
    "pool-not-found": "The pool was deleted.",
    "engine-unavailable": "The journal cannot be written, so no permit can be given out. See the log.",
    "shutting-down": "The relay is shutting down.",
}
_RETRY = {"acquire-timeout", "engine-unavailable", "shutting-down"}
