"""A cache of token counts and ids, bounded by bytes: S3-FIFO.

Yang, Zhang, Qiu, Yue, Vinayak: "FIFO queues are all you need for cache eviction", SOSP 2023. New entries go through a
small queue (a tenth of the bytes); what is asked for again there moves to the main queue, the rest leaves and is
remembered as a ghost for a while, so that its return goes straight to the main queue. A hit only raises a counter: nothing
moves, so a hit costs one dict lookup. It is used on the event loop only, hence without a lock.
"""

from __future__ import annotations

from collections import OrderedDict, deque

from msgspec import Struct

ENTRY_OVERHEAD = 200  # key, dict slot, queue slot and entry beside the value, in bytes
GHOST_BYTES = 120
MAX_FREQUENCY = 3
MIN_BYTES = 4096


class Entry(Struct, gc=False):
    """A cached value, its size in bytes, and how often it was asked for since it was last looked at (0 to 3)."""

    value: object
    size: int
    frequency: int = 0


class Cache:
    """Values by 16-byte keys. `bound` is in bytes; entries above an eighth of it are not taken."""

    def __init__(self, bound: int) -> None:
        self.bound = max(bound, MIN_BYTES)
        self.largest = self.bound // 8
        self.bytes = 0
        self._small_bytes = 0
        self._small_bound = self.bound // 10
        self._ghost_bound = self.bound // 10 // GHOST_BYTES
        self._entries: dict[bytes, Entry] = {}
        self._small: deque[bytes] = deque()
        self._main: deque[bytes] = deque()
        self._ghosts: OrderedDict[bytes, None] = OrderedDict()  # a dict's first key is not O(1) after deletions

    def __len__(self) -> int:
        return len(self._entries)

    def get(self, key: bytes) -> object | None:
        """The value, or None."""
        entry = self._entries.get(key)
        if entry is None:
            return None
        if entry.frequency < MAX_FREQUENCY:
            entry.frequency += 1
        return entry.value

    def put(self, key: bytes, value: object, value_bytes: int) -> bool:
        """Keeps a value of `value_bytes` bytes; False if it is too large to be kept."""
        size = value_bytes + ENTRY_OVERHEAD
        if size > self.largest:
            return False
        if key in self._entries:
            return True
        while self.bytes + size + len(self._ghosts) * GHOST_BYTES > self.bound:
            self._evict()
        self._entries[key] = Entry(value, size)
        self.bytes += size
        if key in self._ghosts:
            del self._ghosts[key]
            self._main.append(key)
        else:
            self._small.append(key)
            self._small_bytes += size
        return True

    def clear(self) -> None:
        """Forgets everything."""
        self._entries.clear()
        self._small.clear()
        self._main.clear()
        self._ghosts.clear()
        self.bytes = self._small_bytes = 0

    def _evict(self) -> None:
        """Makes room: one entry leaves, or moves from the small queue to the main one."""
        if self._small and (self._small_bytes > self._small_bound or not self._main):
            self._evict_small()
        elif self._main:
            self._evict_main()
        else:
            self._forget_ghost()

    def _evict_small(self) -> None:
        key = self._small.popleft()
        entry = self._entries[key]
        self._small_bytes -= entry.size
        if entry.frequency > 0:
            entry.frequency = 0
            self._main.append(key)
            return
        del self._entries[key]
        self.bytes -= entry.size
        self._ghosts[key] = None
        if len(self._ghosts) > self._ghost_bound:
            self._forget_ghost()

    def _evict_main(self) -> None:
        key = self._main.popleft()
        entry = self._entries[key]
        if entry.frequency > 0:
            entry.frequency -= 1
            self._main.append(key)
            return
        del self._entries[key]
        self.bytes -= entry.size

    def _forget_ghost(self) -> None:
        self._ghosts.popitem(last=False)
