"""Whose turn it is in one pool: the tenants in the order of rules 5 to 7. No I/O, no clock.

A heap holds one valid entry for each tenant whose next waiter may be served; others are passed over (rule 6). What
changes a tenant marks it; `first` brings the marked ones up to date before it looks.
"""

from __future__ import annotations

from heapq import heapify, heappop, heappush, heapreplace

from relay.permits.engine.timeline import NEVER
from relay.permits.engine.waiting import GROUP, UNSAVED, Entry, TenantQueue, Waiter, aged, next_of

ALARMS_PER_SLICE = 128  # tenants whose ranks are looked at again in one slice: about 1 ms


class Order:
    """The tenants of one pool that wait. Ages are un-paused µs (`age`); set `aging_us` and `capacity` to the pool's."""

    __slots__ = (
        "_active",
        "_alarms",
        "_heap",
        "_marked",
        "_oversized",
        "_turns",
        "_vtimes",
        "aging_us",
        "capacity",
        "highest",
        "ranks",
    )

    def __init__(self, capacity: int, aging_us: int | None, ranks: dict[str, int]) -> None:
        self.capacity = capacity
        self.aging_us = aging_us
        self.ranks = ranks
        self.highest = 0.0  # the highest virtual time that any tenant has had
        self._heap: list[Entry] = []
        self._marked: dict[TenantQueue, bool] = {}  # whether its next waiter may be another
        self._oversized: dict[TenantQueue, None] = {}  # passed over because of the present capacity
        self._alarms: list[tuple[int, int, TenantQueue]] = []
        self._vtimes: list[tuple[float, int, TenantQueue]] = []  # lower bounds of active tenants' virtual times
        self._active = 0
        self._turns = 0

    # Who is next

    def mark(self, tenant: TenantQueue) -> None:
        """Something of this tenant changed: its next waiter may be another."""
        self._marked[tenant] = True

    def mark_use(self, tenant: TenantQueue) -> None:
        """What the tenant holds changed. Without a guarantee its next waiter is the same."""
        if tenant.guarantee:
            self._marked[tenant] = True
        else:
            self._marked.setdefault(tenant, False)

    def first(self, age: int) -> Waiter | None:
        """The waiter whose turn it is. O(log tenants + ranks) amortised."""
        while self._marked:
            self._place(*self._marked.popitem(), age)
        heap = self._heap
        while heap and heap[0][4].entry is not heap[0]:
            heappop(heap)
        return heap[0][4].next if heap else None

    def goes_first(self, tenant: TenantQueue, permits: int, rank: int, arrival: int, vtime: float, age: int) -> bool:
        """Whether a waiter like this, if it stood in the queue, would be the first. Changes nobody's turn."""
        group = 0 if tenant.in_use + permits <= tenant.guarantee else GROUP
        place = group + rank * 2 + UNSAVED
        head = self.first(age)
        if tenant.waiting and tenant.next is not None and (tenant.place, tenant.next.arrival) < (place, arrival):
            return False
        if head is None:
            return True
        assert head.tenant.entry is not None
        return (place, tenant.in_use / tenant.weight, vtime, arrival) < head.tenant.entry[:4]

    def keep_turn(self, waiter: Waiter) -> None:
        """Permits are held back for this waiter from now on (rule 7)."""
        self._turns += 1
        waiter.saved = self._turns
        waiter.tenant.saved.append(waiter)
        self.mark(waiter.tenant)

    def give_up_turn(self, waiter: Waiter) -> None:
        """The waiter was served, is gone, or was passed over."""
        waiter.saved = 0
        waiter.tenant.saved.remove(waiter)

    def _place(self, tenant: TenantQueue, anew: bool, age: int) -> None:
        """Finds the tenant's place. `anew`: and its next waiter first."""
        self._oversized.pop(tenant, None)
        if not tenant.waiting:
            tenant.next = tenant.entry = None
            tenant.place = NEVER
            return
        if anew or tenant.next is None:
            self._find_next(tenant, age)
        waiter = tenant.next
        assert waiter is not None
        if tenant.blocked(waiter.ask.permits) or waiter.ask.permits > self.capacity:
            self._pass_over(tenant)
        elif waiter.saved:
            self._enter((tenant.place, float(waiter.saved), 0.0, waiter.arrival, tenant))
        else:
            self._enter((tenant.place, tenant.in_use / tenant.weight, tenant.vtime, waiter.arrival, tenant))

    def _find_next(self, tenant: TenantQueue, age: int) -> None:
        slack = tenant.guarantee - tenant.in_use
        queues = tenant.queues.values()
        tenant.next, tenant.place, step = next_of(queues, tenant.saved, self.ranks, slack, age, self.aging_us)
        if step < tenant.alarm:
            tenant.alarm = step
            heappush(self._alarms, (step, tenant.number, tenant))

    def _enter(self, entry: Entry) -> None:
        tenant = entry[4]
        if tenant.entry is not None and tenant.entry[:4] == entry[:4]:
            return
        tenant.entry = entry
        heappush(self._heap, entry)
        if len(self._heap) > 2 * self._active + 64:
            self._heap = [entry for entry in self._heap if entry[4].entry is entry]
            heapify(self._heap)

    def _pass_over(self, tenant: TenantQueue) -> None:
        """Rule 6: the tenant with all its waiters; turns kept for them are lost (rule 7)."""
        tenant.entry = None
        waiter = tenant.next
        if waiter is not None and waiter.ask.permits > self.capacity:
            self._oversized[tenant] = None
        if tenant.saved:
            for saved in list(tenant.saved):
                self.give_up_turn(saved)
            self.mark(tenant)  # without the kept turns another of its waiters may be next

    # What changes for many

    def resize(self, capacity: int) -> None:
        """A new capacity: who waited for it stands again, who has no room in it is passed over."""
        self.capacity = capacity
        for tenant in self._oversized:
            self.mark(tenant)
        for _, _, _, _, tenant in self._heap:
            if tenant.next is not None and tenant.next.ask.permits > capacity:
                self.mark(tenant)

    def rerank(self, aging_us: int | None, tenants: list[TenantQueue]) -> None:
        """Ranks or ageing changed: these tenants are looked at again, in slices."""
        self.aging_us = aging_us
        for tenant in tenants:
            if tenant.waiting:
                tenant.alarm = -1
                heappush(self._alarms, (-1, tenant.number, tenant))

    def next_alarm(self) -> int:
        """Age time at which some rank may change, NEVER if none will."""
        return self._alarms[0][0] if self._alarms else NEVER

    def ring_alarms(self, age: int) -> None:
        """Marks the tenants with ranks that change by now: at most one slice of them."""
        alarms = self._alarms
        for _ in range(ALARMS_PER_SLICE):
            if not alarms or alarms[0][0] > age:
                return
            at, _, tenant = heappop(alarms)
            if tenant.alarm == at:
                tenant.alarm = NEVER
                self.mark(tenant)

    def rank_now(self, waiter: Waiter, age: int) -> int:
        """A waiter's effective rank."""
        return aged(self.ranks[waiter.ask.priority], waiter, age, self.aging_us)[0]

    def entries(self) -> list[Entry]:
        """The valid entries: one for each tenant that is not passed over."""
        return [entry for entry in self._heap if entry[4].entry is entry]

    # Virtual time (rule 5 c)

    def vtime_on_return(self, tenant: TenantQueue) -> float:
        """The virtual time with which a tenant that holds and waits for nothing comes back."""
        if not self._active:
            return max(tenant.vtime, self.highest)
        heap = self._vtimes
        while True:
            bound, number, other = heap[0]
            if not other.active:
                heappop(heap)
                other.in_vtimes = False
            elif other.vtime > bound:
                heapreplace(heap, (other.vtime, number, other))
            else:
                return max(tenant.vtime, bound)

    def activate(self, tenant: TenantQueue) -> None:
        """A tenant that held and waited for nothing is about to hold or wait. Call before its counts change."""
        tenant.vtime = self.vtime_on_return(tenant)
        self._active += 1
        if not tenant.in_vtimes:
            tenant.in_vtimes = True
            heappush(self._vtimes, (tenant.vtime, tenant.number, tenant))

    def deactivate(self) -> None:
        """A tenant came to hold and wait for nothing."""
        self._active -= 1

    def charge(self, tenant: TenantQueue, permits: int) -> None:
        """A grant: adds permits / weight to the tenant's virtual time."""
        tenant.vtime += permits / tenant.weight
        if tenant.vtime > self.highest:
            self.highest = tenant.vtime
