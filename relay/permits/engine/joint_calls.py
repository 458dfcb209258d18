"""The calls that acquire from several pools at once, on the event loop: one future a part, all resolved by one write."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

from relay.permits.engine.base import Ask, Caller, CallerGone, Lease, Refused
from relay.permits.engine.courier import Courier, Slot
from relay.permits.engine.ledger import unavailable
from relay.permits.engine.several import Joint, Repeated
from relay.permits.engine.waiting import Waiter

Wanted = Sequence[tuple[Slot, Ask]]


class JointCalls:
    """`own` makes this call the one that a waiter's lease will go to; `refused` counts a refusal."""

    def __init__(
        self,
        courier: Courier,
        now: Callable[[], int],
        own: Callable[[Waiter], asyncio.Future[Lease]],
        refused: Callable[[Slot, Ask, Refused], None],
    ) -> None:
        self._courier = courier
        self._now = now
        self._own = own
        self._refused = refused

    async def acquire(self, wanted: Wanted, caller: Caller) -> tuple[list[Lease], bool]:
        """Leases of all these pools, durable, and whether this call granted them. Raises Refused, CallerGone."""
        courier, now, first = self._courier, self._now(), wanted[0][0]
        try:
            got = courier.several.acquire([(slot.core, ask) for slot, ask in wanted], now)
        except Refused as refused:
            if refused.code != "idempotency-conflict":
                for slot, ask in wanted:
                    self._refused(slot, ask, refused)
            courier.carry(first)
            raise
        if isinstance(got, Repeated):
            courier.carry(first)
            await courier.ledger.turn()  # the first answer may still be on its way to the journal
            if not all(lease.lease_id in courier.leases for lease in got.leases):
                raise unavailable()
            return self._checked(got.leases, caller), False
        if isinstance(got, Joint):
            if got.parts[0][1].owner is None:  # new, no repeat
                self._arrived(wanted, now)
            futures = [self._own(waiter) for _, waiter in got.parts]
            courier.carry(first)
            return await self._wait(got, futures, caller), True
        self._arrived(wanted, now)
        turns = [courier.record(slot, lease) for (slot, _), lease in zip(wanted, got, strict=True)]
        courier.carry(first)
        try:
            await turns[-1]
        except asyncio.CancelledError:
            self._give_back(got)
            raise
        if turns[-1].refused:
            raise unavailable()
        return self._checked(got, caller), True

    def _arrived(self, wanted: Wanted, now: int) -> None:
        for slot, _ in wanted:
            slot.meter.arrived(now)

    async def _wait(self, joint: Joint, futures: list[asyncio.Future[Lease]], caller: Caller) -> list[Lease]:
        def left(_: Any) -> None:
            self._caller_left(joint, futures)

        watch = caller.watch()
        watch.add_done_callback(left)
        try:
            ends = await asyncio.gather(*futures, return_exceptions=True)
        except asyncio.CancelledError:
            self._give_back([future.result() for future in futures if _granted(future)])
            self._caller_left(joint, futures)
            raise
        finally:
            watch.remove_done_callback(left)
        leases = [end for end in ends if isinstance(end, Lease)]
        for end in ends:
            if isinstance(end, BaseException):
                self._give_back(leases)
                raise end
        return self._checked(leases, caller)

    def _caller_left(self, joint: Joint, futures: list[asyncio.Future[Lease]]) -> None:
        """Rule 11. A grant of this very instant is found undelivered when its answer is due."""
        core, waiter = joint.parts[0]
        if waiter.owner is futures[0] and joint.open:
            self._courier.several.leave(joint, self._now())
            for future in futures:
                if not future.done():
                    future.set_exception(CallerGone())
            slot = self._courier.slots.get(core.config.name)
            if slot is not None:
                self._courier.carry(slot)

    def _checked(self, leases: list[Lease], caller: Caller) -> list[Lease]:
        """Leases on their way out: is their caller still there?"""
        if caller.gone():
            self._give_back(leases)
            raise CallerGone
        return leases

    def _give_back(self, leases: list[Lease]) -> None:
        for lease in leases:
            self._courier.undelivered(lease)


def _granted(future: asyncio.Future[Lease]) -> bool:
    return future.done() and not future.cancelled() and future.exception() is None
