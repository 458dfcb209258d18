"""The order in which a pool's waiters would be served, without serving anybody. Used by lists, not on the hot path."""

from __future__ import annotations

from collections.abc import Iterator
from heapq import heapify, heappop, heappush

from relay.permits.engine.order import Order
from relay.permits.engine.waiting import ClassQueue, Entry, TenantQueue, Waiter, next_of


def serving_order(order: Order, age: int, limit: int) -> list[Waiter]:
    """The first `limit` waiters, as permits come free one by one. O(limit * (log tenants + ranks))."""
    heap: list[Entry] = order.entries()
    heapify(heap)
    trials: dict[str, _Trial] = {}
    served: list[Waiter] = []
    while heap and len(served) < limit:
        _, _, _, _, tenant = heappop(heap)
        trial = trials.get(tenant.name)
        if trial is None:
            trial = trials[tenant.name] = _Trial(tenant)
        waiter = trial.next(order, age)
        if waiter is None:
            continue
        trial.serve(waiter)
        served.append(waiter)
        entry = trial.entry(order, age)
        if entry is not None:
            heappush(heap, entry)
    return served


class _Trial:
    """A tenant as it would be after some of its waiters were served."""

    def __init__(self, tenant: TenantQueue) -> None:
        self.tenant = tenant
        self.in_use = tenant.in_use
        self.vtime = tenant.vtime
        self.served: set[int] = set()
        self.queues = [_TrialQueue(queue, self.served) for queue in tenant.queues.values()]

    def next(self, order: Order, age: int) -> Waiter | None:
        """Its next waiter."""
        return self._next(order, age)[0]

    def _next(self, order: Order, age: int) -> tuple[Waiter | None, int, int]:
        saved = [waiter for waiter in self.tenant.saved if waiter.arrival not in self.served]
        slack = self.tenant.guarantee - self.in_use
        return next_of(self.queues, saved, order.ranks, slack, age, order.aging_us)

    def serve(self, waiter: Waiter) -> None:
        """Counts a waiter as served."""
        self.served.add(waiter.arrival)
        self.in_use += waiter.ask.permits
        self.vtime += waiter.ask.permits / self.tenant.weight

    def entry(self, order: Order, age: int) -> Entry | None:
        """Its place among the tenants now, None if it would be passed over."""
        waiter, place, _ = self._next(order, age)
        tenant = self.tenant
        if waiter is None or waiter.ask.permits > order.capacity:
            return None
        if tenant.limit is not None and self.in_use + waiter.ask.permits > tenant.limit:
            return None
        if waiter.saved:
            return (place, float(waiter.saved), 0.0, waiter.arrival, tenant)
        return (place, self.in_use / tenant.weight, self.vtime, waiter.arrival, tenant)


class _TrialQueue:
    """A class queue less those who were served: heads are pulled as they are needed."""

    def __init__(self, queue: ClassQueue, served: set[int]) -> None:
        self.rank = queue.rank
        self._queue = queue
        self._served = served
        self._rest: Iterator[Waiter] = iter(queue)
        self._head: Waiter | None = next(self._rest, None)

    @property
    def head(self) -> Waiter | None:
        """Its first waiter that was not served."""
        while self._head is not None and self._head.arrival in self._served:
            self._head = next(self._rest, None)
        return self._head

    def first(self, slack: int) -> Waiter | None:
        """Its first waiter of at most `slack` permits that was not served."""
        if self._queue.sizes is None:
            return None
        arrivals = [
            arrival
            for size, by_arrival in self._queue.sizes.sizes().items()
            if size <= slack
            for arrival in [next((one for one in by_arrival if one not in self._served), None)]
            if arrival is not None
        ]
        return self._queue.at(min(arrivals)) if arrivals else None
