"""The waiters of one pool, connected and absent, and when each has to leave (rules 10 to 12). No I/O, no clock.

Whose turn it is, is `order.py`'s to know.
"""

from __future__ import annotations

from relay.permits.engine.order import Order
from relay.permits.engine.timeline import NEVER, Timeline
from relay.permits.engine.waiting import ClassQueue, Waiter


class Queue:
    """Waiters by id, in the order of their arrival. `waiting`, `permits` and `tokens` count the connected ones, parts too."""

    __slots__ = ("_order", "arrivals", "dues", "permits", "tokens", "waiters", "waiting")

    def __init__(self, order: Order) -> None:
        self._order = order
        self.arrivals = 0
        self.waiting = 0
        self.permits = 0
        self.tokens = 0
        self.waiters: dict[str, Waiter] = {}
        self.dues: Timeline[Waiter] = Timeline()

    def enter(self, waiter: Waiter) -> None:
        """A new waiter, with the newest arrival number."""
        tenant = waiter.tenant
        if not tenant.active:
            self._order.activate(tenant)
        tenant.queued += 1
        self.waiters[waiter.waiter_id] = waiter
        if waiter.joint is None:
            self.dues.add(waiter.due_us, waiter.waiter_id, waiter)
            self.stand(waiter, new=waiter.lease is None)
        else:
            if waiter.joint.parts:
                waiter.due_us = NEVER
            self.dues.add(waiter.due_us, waiter.waiter_id, waiter)
            self._count(waiter, 1)

    def leave(self, waiter: Waiter, *, timed: bool = True) -> None:
        """A waiter is served or gone. `timed`: it is still among the dues. Its tenant may be left with nothing."""
        if timed:
            self.dues.remove(waiter.due_us, waiter.waiter_id)
        if waiter.connected:
            self.step_out(waiter)
        elif waiter.joint is not None:
            self._count(waiter, -1)
        waiter.tenant.queued -= 1
        del self.waiters[waiter.waiter_id]

    def _count(self, part: Waiter, sign: int) -> None:
        self.waiting += sign
        self.permits += sign * part.ask.permits
        self.tokens += sign * part.ask.tokens

    def stand(self, waiter: Waiter, *, new: bool = False) -> None:
        """Puts a waiter into its place: a new one, or an absent one that is back."""
        tenant, ask = waiter.tenant, waiter.ask
        queue = tenant.queues.get(ask.priority)
        if queue is None:
            queue = tenant.queues[ask.priority] = ClassQueue(self._order.ranks[ask.priority], tenant.guarantee)
        behind = new and queue.head is not None and tenant.guarantee <= tenant.in_use
        queue.add(waiter, new=new)
        waiter.connected = True
        tenant.waiting += 1
        self.waiting += 1
        self.permits += ask.permits
        self.tokens += ask.tokens
        if not behind:  # else it cannot be its tenant's next
            self._order.mark(tenant)

    def step_out(self, waiter: Waiter) -> None:
        """Takes a waiter out of its place; a turn that was kept for it is given up."""
        tenant = waiter.tenant
        tenant.queues[waiter.ask.priority].remove(waiter)
        waiter.connected = False
        tenant.waiting -= 1
        self.waiting -= 1
        self.permits -= waiter.ask.permits
        self.tokens -= waiter.ask.tokens
        if waiter.saved:
            self._order.give_up_turn(waiter)
        self._order.mark(tenant)

    def reschedule(self, waiter: Waiter, due_us: int) -> None:
        """Sets when a waiter has to leave."""
        self.dues.remove(waiter.due_us, waiter.waiter_id)
        waiter.due_us = due_us
        self.dues.add(due_us, waiter.waiter_id, waiter)
