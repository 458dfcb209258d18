"""What is due when, with exact removal: neither a scan nor stale entries that pile up.

Far items lie in buckets of 65.5 ms, each a dict, so that adding and removing is O(1); only the bucket that time has
reached becomes a heap (a timing wheel after Varghese & Lauck 1987, with a heap of bucket numbers instead of a ring).
"""

from __future__ import annotations

from heapq import heapify, heappop, heappush
from typing import Generic, TypeVar

T = TypeVar("T")

NEVER = 1 << 62
_SHIFT = 16  # a bucket is 2**16 µs
_EMPTY_BUCKETS = 1024


class Timeline(Generic[T]):
    """Items with a due time in µs. An item has one due time at a time; its key is unique here.

    `soonest` is a lower bound of the next due time (NEVER if there is none): it may be early, never late.
    """

    __slots__ = ("_empty", "_far", "_heads", "_near", "_near_items", "_opened", "_order", "soonest")

    def __init__(self) -> None:
        self._far: dict[int, dict[str, tuple[int, int, T]]] = {}
        self._heads: list[int] = []
        self._near: list[tuple[int, int, str]] = []
        self._near_items: dict[str, tuple[int, T]] = {}
        self._opened = -1
        self._empty = 0
        self._order = 0
        self.soonest = NEVER

    def add(self, due: int, key: str, item: T) -> None:
        """Adds an item. O(1), or O(log n) if it is due within the bucket that time has reached."""
        self._order += 1
        if due < self.soonest:
            self.soonest = due
        number = due >> _SHIFT
        if number <= self._opened:
            heappush(self._near, (due, self._order, key))
            self._near_items[key] = (due, item)
            return
        bucket = self._far.get(number)
        if bucket is None:
            bucket = self._far[number] = {}
            heappush(self._heads, number)
        elif not bucket:
            self._empty -= 1
        bucket[key] = (due, self._order, item)

    def remove(self, due: int, key: str) -> None:
        """Removes an item that is here with this due time."""
        number = due >> _SHIFT
        if number <= self._opened:
            del self._near_items[key]  # its heap entry is skipped when it comes up, within a bucket's length
            return
        bucket = self._far[number]
        del bucket[key]
        if not bucket:
            self._empty += 1
            if self._empty > _EMPTY_BUCKETS + len(self._far) // 2:
                self._drop_empty_buckets()

    def pop_due(self, now: int) -> list[T]:
        """Removes and returns what is due at `now`, the earliest first, then in the order added."""
        number = now >> _SHIFT
        if number > self._opened:
            self._open(number)
        due: list[T] = []
        near, items = self._near, self._near_items
        while near and near[0][0] <= now:
            at, _, key = heappop(near)
            found = items.get(key)
            if found is not None and found[0] == at:
                del items[key]
                due.append(found[1])
        while near:
            found = items.get(near[0][2])
            if found is not None and found[0] == near[0][0]:
                break
            heappop(near)
        if near:
            self.soonest = near[0][0]
        else:
            self.soonest = self._heads[0] << _SHIFT if self._heads else NEVER
        return due

    def _open(self, number: int) -> None:
        """Moves the buckets up to this number onto the heap."""
        while self._heads and self._heads[0] <= number:
            bucket = self._far.pop(heappop(self._heads))
            if not bucket:
                self._empty -= 1
            for key, (due, order, item) in bucket.items():
                heappush(self._near, (due, order, key))
                self._near_items[key] = (due, item)
        while self._heads and not self._far[self._heads[0]]:
            del self._far[heappop(self._heads)]
            self._empty -= 1
        self._opened = number

    def _drop_empty_buckets(self) -> None:
        self._far = {number: bucket for number, bucket in self._far.items() if bucket}
        self._heads = list(self._far)
        heapify(self._heads)
        self._empty = 0
