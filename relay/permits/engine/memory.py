"""The embedded engine: pools (`core.py`) on one event loop, with a journal. One future per waiter, no polling."""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import count
from random import Random
from typing import Any, Literal

from relay.permits.engine import changes, views
from relay.permits.engine.base import (
    Ask,
    Caller,
    CallerGone,
    End,
    Lease,
    LeaseAnswer,
    LeaseEnded,
    PoolConfig,
    PoolGauges,
    Refused,
    Released,
    WaiterView,
)
from relay.permits.engine.clock import EngineClock
from relay.permits.engine.core import PoolCore
from relay.permits.engine.courier import Courier, Slot
from relay.permits.engine.holdings import lease_not_found
from relay.permits.engine.joint_calls import JointCalls
from relay.permits.engine.journal import Changed, Journal, Renewal
from relay.permits.engine.ledger import WaitingCall, unavailable
from relay.permits.engine.waiting import Waiter
from relay.telemetry.meters import Meters

# After a restart fencing tokens go on above the time in µs (as on Redis), and by more than the grants of the one second
# that a power cut may lose: so they rise even if the data folder is an older copy of itself.
FENCING_GAP = 1_000_000
_ABSENT = object()  # owner of a waiter whose connection is lost


class MemoryEngine:
    """Implements `base.Engine`, whose docstrings hold here too. Everything on the event loop that `start` ran on."""

    kind = "memory"

    def __init__(self, journal: Journal, sync: Literal["second", "always"], clock: EngineClock, meters: Meters) -> None:
        self.now = clock
        self._journal = journal
        self._sync = sync
        self._meters = meters
        self._ranks: dict[str, int] = {}
        self._weights: dict[str, float] = {}
        self._rng = Random()
        self._wall = views.WallClock(clock)
        self._stopping = False
        self._fence_floor = 0
        self._new_id = map(f"{secrets.token_hex(5)}%d".__mod__, count(1)).__next__

    # Life

    async def start(
        self, pools: Mapping[str, PoolConfig], ranks: Mapping[str, int], weights: Mapping[str, float]
    ) -> None:
        """Takes over what the journal tells; each lease gets its full TTL from now (rule 20).

        Raises JournalRefused, OSError.
        """
        self._courier = Courier(self._journal, self._sync, self.now, self._wall)
        self._joint_calls = JointCalls(self._courier, self.now, self._own, self._count_refused)
        self._ranks, self._weights = dict(ranks), dict(weights)
        found = await asyncio.to_thread(self._journal.recover)
        self.now.continue_from(found.now_us)
        self._wall.look()
        if not found.empty:
            self._fence_floor = time.time_ns() // 1000
        self._courier.fences = {pool: token + FENCING_GAP for pool, token in found.fences.items()}
        for end in found.ends.values():
            self._courier.ended.add(end)
        for config in pools.values():
            self._add(config, used_up=not found.empty)
        for lease in found.leases.values():
            self._restore(lease)
        await self._courier.ledger.start()

    def _restore(self, lease: Lease) -> None:
        now, courier = self.now(), self._courier
        slot = courier.slots.get(lease.pool)
        if slot is None:  # its pool was deleted while the service was down
            courier.ended.add(End(lease.lease_id, lease.pool, lease.ask.tenant, "revoked", now))
            return
        lease.expires_us = max(lease.expires_us, now + lease.ttl_us)  # a promise that reached further still holds
        most = slot.core.config.max_lease_us
        if most is not None:
            lease.expires_us = min(lease.expires_us, lease.acquired_us + most)
        slot.core.restore(lease)
        courier.leases[lease.lease_id] = slot
        courier.carry(slot)

    async def tick(self) -> None:
        """Once a second: the journal's upkeep and the wall clock."""
        self._wall.look()
        self._courier.tick()
        await self._courier.ledger.tick()

    @property
    def up(self) -> bool:
        """Whether permits can be given out."""
        return self._courier.ledger.up and not self._stopping

    @property
    def alive(self) -> int:
        """How many leases and waiters there are."""
        return sum(len(slot.core.leases) + len(slot.core.waiters) for slot in self._courier.slots.values())

    def shut_down(self) -> None:
        """No new work: every waiter is answered `shutting-down`."""
        self._stopping = True
        self._courier.turn_away("shutting-down")

    async def stop(self) -> None:
        """Ends timers and closes the journal."""
        await self._courier.stop()

    # Acquire

    async def acquire(
        self, pool: str, ask: Ask, caller: Caller, hand: Callable[[Lease], bool] | None = None
    ) -> tuple[Lease, bool]:
        courier = self._courier
        slot = courier.slots.get(pool) or self._slot(pool)
        if self._stopping or not courier.ledger.up:
            raise self._turn_away(slot, ask)
        core, now = slot.core, self.now()
        try:
            got = core.acquire(ask, now) if ask.parent is None else courier.nesting.acquire(core, ask, now)
        except Refused as refused:
            if not core.repeated:
                self._count_refused(slot, ask, refused)
            courier.carry(slot)
            raise
        if not core.repeated:
            slot.meter.arrived(now)
        if isinstance(got, Lease):
            turn = courier.record_grant(slot, got)
            try:
                await turn
            except asyncio.CancelledError:
                self.undelivered(got)
                raise
            if turn.refused:
                raise unavailable()
            return self._checked(got, caller), True
        if isinstance(got, Waiter):
            future = self._own(got, hand)
            courier.carry(slot)
            return await self._wait(slot, got, future, caller), True
        courier.carry(slot)
        await courier.ledger.turn()  # the first answer may still be on its way to the journal
        if got.lease.lease_id not in courier.leases:
            raise unavailable()
        return self._checked(got.lease, caller), False

    async def acquire_several(self, wanted: Sequence[tuple[str, Ask]], caller: Caller) -> tuple[list[Lease], bool]:
        slots = [(self._slot(pool), ask) for pool, ask in wanted]
        if self._stopping or not self._courier.ledger.up:
            refusals = [self._turn_away(slot, ask) for slot, ask in slots]
            raise refusals[0]
        return await self._joint_calls.acquire(slots, caller)

    def _checked(self, lease: Lease, caller: Caller) -> Lease:
        """A lease on its way out: is its caller still there?"""
        if caller.gone():
            self.undelivered(lease)
            raise CallerGone
        return lease

    def _own(self, waiter: Waiter, hand: Callable[[Lease], bool] | None = None) -> WaitingCall:
        """Makes this call the one that the waiter's lease will go to (rule 14)."""
        if isinstance(waiter.owner, asyncio.Future) and not waiter.owner.done():
            waiter.owner.set_exception(Refused("superseded", "A repeat with the same Idempotency-Key took over."))
        future = WaitingCall(self._courier.loop, hand)
        waiter.owner = future
        return future

    async def _wait(self, slot: Slot, waiter: Waiter, future: WaitingCall, caller: Caller) -> Lease:
        def left(_: Any) -> None:
            self._caller_left(slot, waiter, future)

        watch = caller.watch()
        watch.add_done_callback(left)
        try:
            lease = await future
        except asyncio.CancelledError:
            if future.done() and not future.cancelled() and future.exception() is None:
                if not future.answered:
                    self.undelivered(future.result())
            else:
                self._caller_left(slot, waiter, future)
            raise
        finally:
            watch.remove_done_callback(left)
        return lease if future.answered else self._checked(lease, caller)

    def _caller_left(self, slot: Slot, waiter: Waiter, future: asyncio.Future[Lease]) -> None:
        """Rule 11. A grant of this very instant is found undelivered when its answer is due."""
        if waiter.owner is not future or waiter.waiter_id not in slot.core.waiters:
            return
        waiter.owner = _ABSENT
        slot.core.disconnect(waiter.waiter_id, self.now())
        if not future.done():
            future.set_exception(CallerGone())
        self._courier.carry(slot)

    def delivered(self, lease: Lease) -> None:
        if not lease.delivered:
            slot = self._courier.leases.get(lease.lease_id)
            if slot is not None:
                if lease.drop_us is None:
                    lease.delivered = True
                else:
                    slot.core.delivered(lease.lease_id, self.now())
                ask = lease.ask
                slot.meter.answered(ask.tenant, ask.priority, "granted", lease.waited_us, lease.acquired_us)

    def undelivered(self, lease: Lease) -> None:
        self._courier.undelivered(lease)

    def _count_refused(self, slot: Slot, ask: Ask, refused: Refused) -> None:
        slot.meter.arrived()
        slot.meter.answered(ask.tenant, ask.priority, "rejected", 0)
        if refused.code == "queue-full":
            slot.meter.queue_full()
        elif refused.code == "rate-limited":
            slot.meter.limited_by_rate()

    def _turn_away(self, slot: Slot, ask: Ask) -> Refused:
        slot.meter.arrived()
        slot.meter.answered(ask.tenant, ask.priority, "error", 0)
        if self._stopping:
            return Refused("shutting-down", "The relay is shutting down.", 1_000_000)
        return unavailable()

    def malformed(self, pool: str, tenant: str) -> None:
        slot = self._courier.slots.get(pool)
        if slot is not None:  # else it was deleted while the body came
            slot.meter.arrived()
            slot.meter.answered(tenant, slot.core.config.default_priority, "error", 0)

    # Leases

    async def renew(self, lease_id: str, tenant: str, ttl_us: int | None) -> Lease:
        slot = self._slot_of(lease_id, tenant)
        try:
            lease = slot.core.renew(lease_id, tenant, ttl_us, self.now())
        finally:
            self._courier.carry(slot)
        self.delivered(lease)  # who renews it has had the answer
        turn = self._courier.ledger.write(Renewal(lease_id, lease.ttl_us, lease.expires_us))
        self._courier.carry(slot)
        await turn
        return lease

    async def resize(self, lease_id: str, tenant: str, permits: int) -> Lease:
        slot = self._slot_of(lease_id, tenant)
        before = slot.core.find(lease_id, tenant).ask.permits
        if permits > before and not self.up:
            raise unavailable()
        try:
            lease = changes.resize(slot.core, lease_id, tenant, permits, self.now())
            turn = self._courier.ledger.write(Changed.of(lease))  # before the grants that it makes possible
        finally:
            self._courier.carry(slot)
        self.delivered(lease)
        await turn
        if permits > before and turn.refused:  # nothing is given out that a restart would not know of
            if lease_id in slot.core.leases and lease.ask.permits == permits:
                changes.resize(slot.core, lease_id, tenant, before, self.now())
                self._courier.carry(slot)
            raise unavailable()
        return lease

    async def yield_lease(self, lease_id: str, tenant: str) -> Lease:
        slot = self._slot_of(lease_id, tenant)
        try:
            lease = changes.yield_lease(slot.core, lease_id, tenant, self.now())
            turn = self._courier.ledger.write(Changed.of(lease))
        finally:
            self._courier.carry(slot)
        self.delivered(lease)
        await turn
        return lease

    async def resume_lease(self, lease_id: str, tenant: str, timeout_us: int, caller: Caller) -> Lease:
        slot = self._slot_of(lease_id, tenant)
        if self._stopping:
            raise Refused("shutting-down", "The relay is shutting down.", 1_000_000)
        if not self._courier.ledger.up:
            raise unavailable()
        try:
            got = self._courier.nesting.resume(slot.core, lease_id, tenant, timeout_us, self.now())
            if isinstance(got, Waiter):
                future = self._own(got)
            else:
                turn = self._courier.ledger.write(Changed.of(got))
        finally:
            self._courier.carry(slot)
        lease = got if isinstance(got, Lease) else slot.core.leases[lease_id]
        try:
            if isinstance(got, Waiter):
                lease = await self._wait(slot, got, future, caller)
            else:
                await turn
                if turn.refused:
                    raise unavailable()
                lease = self._checked(got, caller)
        except asyncio.CancelledError:
            self.undelivered(lease)
            raise
        except Refused as refused:
            if refused.code == "lease-ended":
                raise LeaseEnded(self._how_it_ended(lease_id, tenant).reason) from None
            if refused.code == "engine-unavailable":  # it is back in memory only
                self.undelivered(lease)
            raise
        slot.core.resumed.discard(lease_id)
        return lease

    async def release(self, lease_id: str, tenant: str, tokens: int | None = None) -> Released:
        slot = self._courier.leases.get(lease_id)
        if slot is None:
            return Released(reason=self._how_it_ended(lease_id, tenant).reason)
        try:
            released = slot.core.release(lease_id, tenant, self.now(), tokens)
        finally:
            self._courier.carry(slot)
        await self._courier.ledger.turn()
        return released

    async def revoke(self, lease_id: str) -> bool:
        slot = self._courier.leases.get(lease_id)
        if slot is None:
            self._how_it_ended(lease_id, None)
            return False
        revoked = slot.core.revoke(lease_id, self.now())
        self._courier.carry(slot)
        await self._courier.ledger.turn()
        return revoked

    def lease(self, lease_id: str, tenant: str | None) -> LeaseAnswer:
        slot = self._slot_of(lease_id, tenant)
        self._bring_up_to_now(slot)
        return self.view(slot.core.find(lease_id, tenant))

    def view(self, lease: Lease) -> LeaseAnswer:
        return views.lease_view(lease, self.now(), self._wall)

    def cancel(self, waiter_id: str) -> tuple[str, Ask]:
        for name, slot in self._courier.slots.items():
            waiter = slot.core.waiters.get(waiter_id)
            if waiter is not None:
                found = slot.core.cancel(waiter_id, self.now())
                self._courier.carry(slot)
                if found:
                    return name, waiter.ask
        raise Refused("not-found", "Nobody waits under this id.")

    def _slot_of(self, lease_id: str, tenant: str | None) -> Slot:
        slot = self._courier.leases.get(lease_id)
        if slot is None:
            raise LeaseEnded(self._how_it_ended(lease_id, tenant).reason)
        return slot

    def _how_it_ended(self, lease_id: str, tenant: str | None) -> End:
        end = self._courier.ended.get(lease_id, self.now())
        if end is None or (tenant is not None and end.tenant != tenant):
            raise lease_not_found()
        return end

    # Configuration

    def _slot(self, pool: str) -> Slot:
        slot = self._courier.slots.get(pool)
        if slot is None:
            raise Refused("pool-not-found", f"There is no pool {pool!r}.")
        return slot

    def _bring_up_to_now(self, slot: Slot) -> None:
        slot.core.advance(self.now())
        self._courier.carry(slot)

    def pool(self, name: str) -> PoolConfig | None:
        slot = self._courier.slots.get(name)
        return None if slot is None else slot.core.config

    def pool_of(self, lease_id: str, tenant: str) -> PoolConfig:
        slot = self._slot_of(lease_id, tenant)
        self._bring_up_to_now(slot)
        slot.core.find(lease_id, tenant)
        return slot.core.config

    def priorities(self) -> list[str]:
        return sorted(self._ranks, key=lambda name: (self._ranks[name], name))

    def rank(self, priority: str) -> int | None:
        return self._ranks.get(priority)

    def configure(
        self,
        pools: Mapping[str, PoolConfig | None],
        ranks: Mapping[str, int] | None,
        weights: Mapping[str, float] | None,
    ) -> None:
        if ranks is not None:
            self._ranks = dict(ranks)
        if weights is not None:
            self._weights = dict(weights)
        for name, config in pools.items():
            if config is None:
                if name in self._courier.slots:
                    self.remove(name, force=True)
            elif name not in self._courier.slots:
                self._add(config)
        everyone = ranks is not None or weights is not None
        for name, slot in self._courier.slots.items():
            config = pools.get(name)
            if config is not None or everyone:
                slot.core.configure(config or slot.core.config, self.now(), ranks, weights)
                self._courier.carry(slot)

    def _add(self, config: PoolConfig, *, used_up: bool = False) -> None:
        core = PoolCore(
            config,
            self.now(),
            ranks=self._ranks,
            weights=self._weights,
            ids=self._new_id,
            rng=self._rng,
            ended=self._courier.ended,
            fencing=max(self._courier.fences.get(config.name, 0), self._fence_floor),
            used_up=used_up,
        )
        self._courier.slots[config.name] = Slot(core, self._meters.pool(config.name))

    def remove(self, pool: str, *, force: bool) -> None:
        slot = self._slot(pool)
        self._bring_up_to_now(slot)
        if not force and (slot.core.leases or slot.core.waiters):
            raise Refused("in-use", f"Pool {pool!r} has leases or waiters. Drain it first, or use ?force=true.")
        self._courier.drop(pool)
        self._meters.drop(pool)

    # What it shows

    def gauges(self) -> Iterable[PoolGauges]:
        return [views.pool_gauges(slot.core, self.now()) for slot in self._courier.slots.values()]

    def names(self) -> list[str]:
        return list(self._courier.slots)

    def pool_gauges(self, pool: str) -> PoolGauges | None:
        slot = self._courier.slots.get(pool)
        return None if slot is None else views.pool_gauges(slot.core, self.now())

    def leases(
        self, pool: str, *, tenant: str | None, priority: str | None, offset: int, limit: int
    ) -> list[LeaseAnswer]:
        slot = self._slot(pool)
        self._bring_up_to_now(slot)
        return views.lease_views(slot.core, self.now(), self._wall, views.Filter(tenant, priority, offset, limit))

    def waiters(
        self, pool: str, *, tenant: str | None, priority: str | None, offset: int, limit: int
    ) -> list[WaiterView]:
        slot = self._slot(pool)
        self._bring_up_to_now(slot)
        return views.waiter_views(slot.core, self.now(), self._wall, views.Filter(tenant, priority, offset, limit))

    def references(self, *, tenant: str | None = None, priority: str | None = None) -> int:
        wanted = views.Filter(tenant, priority)
        return sum(views.count_matches(slot.core, wanted) for slot in self._courier.slots.values())
