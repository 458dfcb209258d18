"""Carries what happens in the pools to whom it concerns: waiting callers, the journal, the meters. One timer per pool."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Literal

from relay.permits.engine.base import End, Lease, Refused
from relay.permits.engine.core import PoolCore
from relay.permits.engine.ended import EndedLeases
from relay.permits.engine.events import Ended, Granted, Left, LeftCode
from relay.permits.engine.journal import Changed, Clock, Fence, Journal, Record
from relay.permits.engine.ledger import Ledger, Turn
from relay.permits.engine.nesting import Holding, Nesting
from relay.permits.engine.several import Several
from relay.permits.engine.timeline import NEVER
from relay.permits.engine.views import WallClock
from relay.telemetry.meters import Outcome, PoolMeter


class Slot:
    """A pool and what the loop needs beside it."""

    __slots__ = ("core", "due", "meter", "timer")

    def __init__(self, core: PoolCore, meter: PoolMeter) -> None:
        self.core = core
        self.meter = meter
        self.timer: asyncio.TimerHandle | None = None
        self.due = NEVER


class Courier:
    """Knows all pools, and which lease is in which."""

    def __init__(
        self, journal: Journal, sync: Literal["second", "always"], now: Callable[[], int], wall: WallClock
    ) -> None:
        self.slots: dict[str, Slot] = {}
        self.several = Several()
        self.nesting = Nesting(self._live)
        self.leases: dict[str, Slot] = {}
        self.ended = EndedLeases()
        self.fences: dict[str, int] = {}  # last fencing tokens of names whose pool is gone
        self.loop = asyncio.get_running_loop()
        self._now = now
        self._wall = wall
        self.ledger = Ledger(
            journal,
            sync,
            now=now,
            state=self._state,
            went_down=self._journal_down,
            undeliverable=self.undelivered,
        )

    def carry(self, slot: Slot) -> None:
        """After an operation on a pool: carries its events, sets its timer."""
        core = slot.core
        handed_over = self._carry_events(slot) if core.events else False
        if self.several.touched:  # first all parts of a joint grant, then the one write
            handed_over = self._carry_touched() or handed_over
        if handed_over:
            self.ledger.flush()  # to a waiter each turn of the loop counts
        due = core.next_due()
        if due < slot.due:
            self._set_timer(slot, due)

    def _carry_touched(self) -> bool:
        """The same for the pools in which joint waiters were served or left; in one write with the rest."""
        handed_over = False
        self.several.settle()
        while self.several.touched:
            core, _ = self.several.touched.popitem()
            slot = self.slots.get(core.config.name)
            if slot is not None and slot.core is core:
                handed_over = self._carry_events(slot) or handed_over
                due = core.next_due()
                if due < slot.due:
                    self._set_timer(slot, due)
        return handed_over

    def _carry_events(self, slot: Slot) -> bool:
        """True if a waiter was granted."""
        handed_over = False
        events, slot.core.events = slot.core.events, []
        for event in events:
            if isinstance(event, Ended):
                self._lease_ended(slot, event.lease, event.end)
            elif isinstance(event, Granted):
                handed_over = True
                lease, waiter = event.lease, event.waiter
                if waiter.lease is None:
                    self.leases[lease.lease_id] = slot
                    lease.acquired_at_us = lease.acquired_us + self._wall.offset_us
                    self.ledger.hand_over(lease, waiter.owner)
                else:  # it had yielded it, and is back
                    self.ledger.hand_over(lease, waiter.owner, Changed.of(lease))
            else:
                self._waiter_left(slot, event)
        return handed_over

    def record_grant(self, slot: Slot, lease: Lease) -> Turn:
        """A grant at once goes to the journal; its call awaits the turn."""
        turn = self.record(slot, lease)
        self.carry(slot)
        return turn

    def record(self, slot: Slot, lease: Lease) -> Turn:
        """The same without what the grant did to others."""
        self.leases[lease.lease_id] = slot
        lease.acquired_at_us = lease.acquired_us + self._wall.offset_us
        return self.ledger.write(lease)

    def _live(self, lease_id: str) -> Holding | None:
        slot = self.leases.get(lease_id)
        lease = None if slot is None else slot.core.leases.get(lease_id)
        return None if slot is None or lease is None else (slot.core, lease)

    def _lease_ended(self, slot: Slot, lease: Lease, end: End) -> None:
        del self.leases[lease.lease_id]
        slot.meter.ended(end.reason, end.at_us - lease.acquired_us)
        if not lease.delivered:
            slot.meter.answered(end.tenant, lease.ask.priority, "cancelled", lease.waited_us)
        self.ledger.write(end)

    def _waiter_left(self, slot: Slot, left: Left) -> None:
        waiter, code = left.waiter, left.code
        outcome, detail, retry = _LEFT[code]
        ask = waiter.ask
        if left.by_rate:
            detail = _LEFT_BY_RATE
            slot.meter.limited_by_rate()
        if waiter.lease is None:  # coming back is no acquire
            slot.meter.answered(ask.tenant, ask.priority, outcome, self._now() - waiter.enqueued_us)
        owner = waiter.owner
        if isinstance(owner, asyncio.Future) and not owner.done():
            owner.set_exception(Refused(code, detail, slot.core.retry_us(waiter) if retry else None))

    def undelivered(self, lease: Lease) -> None:
        """The caller was gone when the answer was ready (rules 4 and 14)."""
        slot = self.leases.get(lease.lease_id)
        if slot is not None:
            slot.core.undelivered(lease.lease_id, self._now())
            if lease.yielded:  # it had come back, and nobody was told
                self.ledger.write(Changed.of(lease))
            self.carry(slot)

    def _set_timer(self, slot: Slot, due: int) -> None:
        """Makes sure that the pool is looked at when its next thing is due."""
        if slot.timer is not None:
            slot.timer.cancel()
        slot.due = due
        slot.timer = self.loop.call_later(max(0, due - self._now()) / 1e6, self._due, slot)

    def _due(self, slot: Slot) -> None:
        slot.timer, slot.due = None, NEVER
        slot.core.advance(self._now())
        self.carry(slot)

    def tick(self) -> None:
        """Once a second: joint waiters that have waited for long are looked at (`several.py`)."""
        self.several.tick(self._now())
        if self.several.touched and self._carry_touched():
            self.ledger.flush()

    def turn_away(self, code: LeftCode) -> None:
        """Answers all waiters of all pools."""
        for slot in self.slots.values():
            slot.core.turn_away(code, self._now())
            self.carry(slot)

    def _journal_down(self, lost: list[Lease]) -> None:
        """Fail closed: waiters are turned away first, so that what comes back is given to nobody."""
        self.turn_away("engine-unavailable")
        for lease in lost:
            slot = self.leases.get(lease.lease_id)
            if slot is not None:
                slot.meter.answered(lease.ask.tenant, lease.ask.priority, "error", 0)
                slot.core.take_back(lease.lease_id)
                self.carry(slot)

    def drop(self, name: str) -> None:
        """Removes a pool: its leases end revoked, its waiters get `pool-not-found`; its fencing token is kept."""
        slot = self.slots[name]
        slot.core.close(self._now())
        self.fences[name] = slot.core.fencing
        self.ledger.write(Fence(name, slot.core.fencing))
        self.carry(slot)
        if slot.timer is not None:
            slot.timer.cancel()
        del self.slots[name]

    def _state(self) -> list[Record]:
        """All that a restart must know."""
        records: list[Record] = [Clock(self._now()), *self.ended.all()]
        fences = {**self.fences, **{name: slot.core.fencing for name, slot in self.slots.items()}}
        records += [Fence(pool, token) for pool, token in fences.items()]
        for slot in self.slots.values():
            records += slot.core.leases.values()
        return records

    async def stop(self) -> None:
        """Ends the timers and closes the journal."""
        for slot in self.slots.values():
            if slot.timer is not None:
                slot.timer.cancel()
        await self.ledger.stop()


_LEFT_BY_RATE = "Permits were free, but the pool's rate (requests or tokens a minute) let nobody through in time."

# how a waiter's leaving is counted, what its caller is told, and whether another try may succeed
_LEFT: dict[LeftCode, tuple[Outcome, str, bool]] = {
    "acquire-timeout": ("timeout", "No permit came free in time.", True),
    "cancelled": ("cancelled", "The caller left.", False),
    "waiter-cancelled": ("cancelled", "An operator ended this wait.", False),
    "exceeds-capacity": ("rejected", "The pool shrank: this many permits can never be granted.", False),
    "exceeds-tenant-limit": ("rejected", "The tenant's limit fell: this many permits can never be granted.", False),
    "invalid": ("rejected", "tokens: more than the pool's new tokens_burst; ask for less", False),
    "pool-not-found": ("rejected", "The pool was deleted.", False),
    "engine-unavailable": ("error", "The journal cannot be written, so no permit can be given out. See the log.", True),
    "shutting-down": ("error", "The relay is shutting down.", True),
    "lease-ended": ("cancelled", "The lease has ended meanwhile. Acquire a new one.", False),
}
