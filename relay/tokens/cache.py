"""Caches of token counts and ids that share a bound in bytes: S3-FIFO.

Yang, Zhang, Qiu, Yue, Vinayak: "FIFO queues are all you need for cache eviction", SOSP 2023. New entries go through a
small queue (a tenth of the bytes); what is asked for again there moves to the main queue, the rest leaves and is
remembered as a ghost for a while, so that its return goes straight to the main queue. A hit only raises a counter: nothing
moves, so a hit costs one dict lookup. It is used on the event loop only, hence without a lock.
"""

from __future__ import annotations

from array import array
from collections import deque
from collections.abc import Iterable
from typing import Any

from msgspec import Struct

ENTRY_OVERHEAD = 230  # key, dict slot (a full dict, and its copy while it grows), queue slot and entry, in bytes
MAX_FREQUENCY = 3
MIN_BYTES = 4096
BYTES_A_GHOST = 512  # of the bound; a slot takes 8 bytes


class Entry(Struct, gc=False):
    """A cached value, its size in bytes, how often it was asked for since it was last looked at (0 to 3), its queue."""

    value: object
    size: int
    frequency: int = 0
    main: bool = False


class Room:
    """So many bytes for several caches. Each is sure of its equal share, and may use what the others leave free.

    A fixed split would waste a half on traffic of one kind (short texts have no segments); this needs no tuning.
    """

    def __init__(self, bound: int) -> None:
        self.bound = max(bound, MIN_BYTES)
        self.caches: list[Cache] = []

    def make(self, size: int) -> None:
        """Makes room for `size` bytes, at the cost of whoever has the most."""
        while sum(cache.bytes for cache in self.caches) + size > self.bound:
            max(self.caches, key=_held).evict()


class Cache:
    """Values by 16-byte keys, in a room. Entries above an eighth of the room are not taken."""

    def __init__(self, room: Room) -> None:
        self._room = room
        self._largest = room.bound // 8
        self._ghosts = Ghosts(room.bound // BYTES_A_GHOST)
        self._entries: dict[bytes, Entry] = {}
        self._small: deque[bytes] = deque()
        self._main: deque[bytes] = deque()
        self._small_bytes = 0
        self.bytes = self._ghosts.bytes
        room.caches.append(self)

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

    def get_all(self, keys: Iterable[bytes]) -> list[Any]:
        """The values, or None, in the order of the keys."""
        found: list[Any] = []
        for entry in map(self._entries.get, keys):
            if entry is None:
                found.append(None)
                continue
            if entry.frequency < MAX_FREQUENCY:
                entry.frequency += 1
            found.append(entry.value)
        return found

    def put(self, key: bytes, value: object, value_bytes: int) -> bool:
        """Keeps a value of `value_bytes` bytes, in place of what the key had; False if it is too large to be kept."""
        size = value_bytes + ENTRY_OVERHEAD
        if size > self._largest:
            return False
        known = self._entries.get(key)
        if known is not None:
            self._replace(known, value, size)
            return True
        self._room.make(size)
        main = self._ghosts.take(key, len(self._main))
        self._entries[key] = Entry(value, size, main=main)
        self.bytes += size
        if main:
            self._main.append(key)
        else:
            self._small.append(key)
            self._small_bytes += size
        return True

    def _replace(self, entry: Entry, value: object, size: int) -> None:
        grown = size - entry.size
        entry.value, entry.size = value, size
        self.bytes += grown
        if not entry.main:
            self._small_bytes += grown
        self._room.make(0)

    def evict(self) -> None:
        """Makes room: one entry leaves, or moves from the small queue to the main one."""
        if self._small and (self._small_bytes * 10 > self.bytes or not self._main):
            self._evict_small()
        else:
            self._evict_main()

    def _evict_small(self) -> None:
        key = self._small.popleft()
        entry = self._entries[key]
        self._small_bytes -= entry.size
        if entry.frequency > 0:
            entry.frequency = 0
            entry.main = True
            self._main.append(key)
            return
        del self._entries[key]
        self.bytes -= entry.size
        self._ghosts.add(key)

    def _evict_main(self) -> None:
        key = self._main.popleft()
        entry = self._entries[key]
        if entry.frequency > 0:
            entry.frequency -= 1
            self._main.append(key)
            return
        del self._entries[key]
        self.bytes -= entry.size


class Ghosts:
    """Keys that left not long ago: 32 bits of each, and when it left, in a table that never grows.

    A key that falls on another's slot takes it. A false match (1 in 4 billion) only puts an entry into the main queue.
    """

    def __init__(self, most: int) -> None:
        self._slots = 1 << max(3, most.bit_length() - 1)
        self._marks = array("I", bytes(4 * self._slots))
        self._left = array("I", bytes(4 * self._slots))
        self._count = 0
        self.bytes = 8 * self._slots

    def add(self, key: bytes) -> None:
        """A key left."""
        place = int.from_bytes(key[:4], "little") & (self._slots - 1)
        self._count = (self._count + 1) & 0xFFFFFFFF
        self._marks[place] = int.from_bytes(key[4:8], "little")
        self._left[place] = self._count

    def take(self, key: bytes, lately: int) -> bool:
        """Whether the key was among the last `lately` that left; it is forgotten by that."""
        place = int.from_bytes(key[:4], "little") & (self._slots - 1)
        if self._marks[place] != int.from_bytes(key[4:8], "little"):
            return False
        self._marks[place] = 0
        return (self._count - self._left[place]) & 0xFFFFFFFF < lately


def _held(cache: Cache) -> int:
    return cache.bytes
