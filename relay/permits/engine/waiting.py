"""One tenant's waiters in one pool, and which of them is next (rules 5 to 7). No I/O, no clock.

A tenant's waiters stand in one queue per priority class, by arrival. All of a queue age alike, so its first waiter has
the lowest effective rank of the queue as well: ageing moves nobody, and only the few heads have to be compared.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping
from heapq import merge
from operator import attrgetter
from typing import Any, Protocol

from sortedcontainers import SortedDict, SortedList

from relay.permits.engine.base import Ask, Lease
from relay.permits.engine.timeline import NEVER

UNSAVED = 1
GROUP = 256  # a place's first figure: group * GROUP + effective rank * 2 + (0 saved, UNSAVED not)


class Waiter:
    """A queued acquire. `saved` numbers the turn that is kept for it (rule 7), 0: none. `owner` is the engine's.

    `joint`: the acquire over several pools that it is a part of (`several.py`). A part stands in no class queue, and only
    the first one has a due time. `lease`: the yielded lease that waits to come back (`changes.py`).
    """

    __slots__ = (
        "arrival",
        "ask",
        "connected",
        "deadline_us",
        "due_us",
        "enqueued_age",
        "enqueued_us",
        "joint",
        "lease",
        "owner",
        "saved",
        "tenant",
        "waiter_id",
    )

    def __init__(
        self, waiter_id: str, ask: Ask, tenant: TenantQueue, arrival: int, now: int, age: int, joint: Any = None
    ) -> None:
        self.waiter_id = waiter_id
        self.ask = ask
        self.tenant = tenant
        self.arrival = arrival
        self.enqueued_us = now
        self.enqueued_age = age
        self.deadline_us = now + ask.timeout_us
        self.due_us = self.deadline_us  # deadline, or while absent the end of the kept place
        self.connected = joint is None
        self.joint = joint
        self.lease: Lease | None = None
        self.saved = 0
        self.owner: Any = None

    def same_body(self, ask: Ask) -> bool:
        """Rule 14: whether a repeat asks for the same."""
        return self.ask.same_body(ask)

    @property
    def stays(self) -> bool:
        """Whether its caller is there."""
        return self.connected or self.joint is not None


class SizeIndex:
    """The earliest arrival among waiters of at most n permits: a tournament tree over sizes, O(log largest)."""

    __slots__ = ("_arrivals", "_leaves", "_tree")

    def __init__(self, largest: int) -> None:
        self._leaves = 1 << largest.bit_length()
        self._arrivals: dict[int, SortedList] = {}
        self._tree: dict[int, int] = {}

    def add(self, size: int, arrival: int) -> None:
        """Adds a waiter; sizes above the largest are not indexed."""
        if size < self._leaves:
            self._arrivals.setdefault(size, SortedList()).add(arrival)
            self._update(size)

    def remove(self, size: int, arrival: int) -> None:
        """Removes a waiter that was added."""
        if size < self._leaves:
            self._arrivals[size].remove(arrival)
            self._update(size)

    def _update(self, size: int) -> None:
        tree, arrivals, node = self._tree, self._arrivals[size], self._leaves + size
        value = arrivals[0] if arrivals else NEVER
        while node and tree.get(node, NEVER) != value:
            tree[node] = value
            value = min(value, tree.get(node ^ 1, NEVER))
            node >>= 1
        if not arrivals:
            del self._arrivals[size]

    def first(self, at_most: int) -> int | None:
        """The earliest arrival with a size up to `at_most`, None if there is none."""
        left, right, best = self._leaves, self._leaves + min(at_most, self._leaves - 1) + 1, NEVER
        while left < right:
            if left & 1:
                best = min(best, self._tree.get(left, NEVER))
                left += 1
            if right & 1:
                right -= 1
                best = min(best, self._tree.get(right, NEVER))
            left >>= 1
            right >>= 1
        return None if best == NEVER else best

    def sizes(self) -> dict[int, SortedList]:
        """The arrivals of each size that waits."""
        return self._arrivals


class Heads(Protocol):
    """A class queue as `next_of` sees it."""

    rank: int

    @property
    def head(self) -> Waiter | None:
        """Its first waiter."""

    def first(self, slack: int) -> Waiter | None:
        """Its first waiter of at most `slack` permits."""


class ClassQueue:
    """The connected waiters of one tenant and class, by arrival; `head` is the first.

    New ones come last, so an ordered dict serves them in O(1); only those who come back after an absence need sorting.
    """

    __slots__ = ("_new", "_returned", "head", "rank", "sizes")

    def __init__(self, rank: int, guarantee: int) -> None:
        self.rank = rank
        self.head: Waiter | None = None
        self._new: OrderedDict[int, Waiter] = OrderedDict()  # a dict's first key is not O(1) after deletions
        self._returned: SortedDict = SortedDict()
        self.sizes = SizeIndex(guarantee) if guarantee else None

    def __len__(self) -> int:
        return len(self._new) + len(self._returned)

    def __iter__(self) -> Iterator[Waiter]:
        return merge(self._new.values(), self._returned.values(), key=attrgetter("arrival"))

    def add(self, waiter: Waiter, *, new: bool) -> None:
        """Puts a waiter at its place: the last if it is `new`, else perhaps in the middle, O(log n)."""
        if new:
            self._new[waiter.arrival] = waiter
        else:
            self._returned[waiter.arrival] = waiter
        if self.head is None or waiter.arrival < self.head.arrival:
            self.head = waiter
        if self.sizes is not None:
            self.sizes.add(waiter.ask.permits, waiter.arrival)

    def remove(self, waiter: Waiter) -> None:
        """Takes a waiter out. O(1), O(log n) for one that came back."""
        if self._new.pop(waiter.arrival, None) is None:
            del self._returned[waiter.arrival]
        if waiter is self.head:
            self.head = self._first()
        if self.sizes is not None:
            self.sizes.remove(waiter.ask.permits, waiter.arrival)

    def _first(self) -> Waiter | None:
        first: Waiter | None = next(iter(self._new.values())) if self._new else None
        if self._returned:
            back: Waiter = self._returned.peekitem(0)[1]
            if first is None or back.arrival < first.arrival:
                return back
        return first

    def guarantee(self, permits: int) -> None:
        """Indexes by size for a new guarantee. O(n log n), when an operator changes it."""
        self.sizes = None
        if permits:
            self.sizes = SizeIndex(permits)
            for waiter in self:
                self.sizes.add(waiter.ask.permits, waiter.arrival)

    def first(self, slack: int) -> Waiter | None:
        """The first waiter of at most `slack` permits, which must not exceed the guarantee."""
        arrival = self.sizes.first(slack) if self.sizes is not None else None
        return None if arrival is None else self.at(arrival)

    def at(self, arrival: int) -> Waiter:
        """The waiter that came as this number."""
        waiter: Waiter = self._new.get(arrival) or self._returned[arrival]
        return waiter


class TenantQueue:
    """What one tenant holds and waits for in one pool."""

    __slots__ = (
        "alarm",
        "entry",
        "guarantee",
        "in_use",
        "in_vtimes",
        "limit",
        "max_waiters",
        "name",
        "next",
        "number",
        "place",
        "queued",
        "queues",
        "saved",
        "vtime",
        "waiting",
        "weight",
    )

    def __init__(self, name: str, number: int) -> None:
        self.name = name
        self.number = number  # parts equal alarms in heaps
        self.weight = 1.0
        self.limit: int | None = None
        self.guarantee = 0
        self.max_waiters: int | None = None
        self.in_use = 0
        self.waiting = 0  # connected waiters
        self.queued = 0  # all waiters, absent ones too
        self.vtime = 0.0
        self.in_vtimes = False
        self.queues: dict[str, ClassQueue] = {}
        self.saved: list[Waiter] = []
        self.next: Waiter | None = None  # also while passed over
        self.place = NEVER  # first figure of the next waiter's place
        self.entry: Entry | None = None  # the valid entry in the pool's heap; None while passed over
        self.alarm = NEVER  # age time at which a rank may change

    @property
    def active(self) -> bool:
        """Whether it holds or waits for anything (rule 5 c); an absent waiter keeps its place, so it counts."""
        return self.in_use > 0 or self.queued > 0

    def blocked(self, permits: int) -> bool:
        """Whether this many more would exceed the limit (rule 6)."""
        return self.limit is not None and self.in_use + permits > self.limit

    def set_guarantee(self, permits: int) -> None:
        """Takes a new guarantee over."""
        self.guarantee = permits
        for queue in self.queues.values():
            queue.guarantee(permits)


# place, then share and virtual time (saved: number of the kept turn and 0), arrival, tenant
Entry = tuple[int, float, float, int, TenantQueue]


def aged(rank: int, waiter: Waiter, age: int, aging_us: int | None) -> tuple[int, int]:
    """Rule 5 (b): the effective rank of a waiter of this rank, and the age time of its next step (NEVER: the last)."""
    if aging_us is None or not rank:
        return rank, NEVER
    steps = (age - waiter.enqueued_age) // aging_us
    if steps >= rank:
        return 0, NEVER
    return rank - steps, waiter.enqueued_age + (steps + 1) * aging_us


def next_of(
    queues: Iterable[Heads],
    saved: Iterable[Waiter],
    ranks: Mapping[str, int],
    slack: int,
    age: int,
    aging_us: int | None,
) -> tuple[Waiter | None, int, int]:
    """A tenant's next waiter by rules 5 and 7, the first figure of its place, and when (age time) a rank changes next.

    `slack` is what the tenant may still take within its guarantee.
    """
    best: Waiter | None = None
    best_place = best_order = step = NEVER
    for queue in queues:
        head = queue.head
        if head is None:
            continue
        rank, change = aged(queue.rank, head, age, aging_us)
        step = min(step, change)
        place = GROUP + rank * 2 + UNSAVED
        if slack > 0 and (within := queue.first(slack)) is not None:
            head = within
            rank, change = aged(queue.rank, head, age, aging_us)
            step = min(step, change)
            place = rank * 2 + UNSAVED
        if place < best_place or (place == best_place and head.arrival < best_order):
            best, best_place, best_order = head, place, head.arrival
    for waiter in saved:
        rank, change = aged(ranks[waiter.ask.priority], waiter, age, aging_us)
        step = min(step, change)
        if rank * 2 < best_place or (rank * 2 == best_place and waiter.saved < best_order):
            best, best_place, best_order = waiter, rank * 2, waiter.saved
    return best, best_place, step
