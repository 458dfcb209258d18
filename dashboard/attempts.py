"""How often somebody may try a wrong password: counted in memory, by address, and by address and name."""

from __future__ import annotations

import math
import threading
import time
from collections import OrderedDict, deque
from collections.abc import Callable

WINDOW_S = 300
MAX_BY_NAME = 5
MAX_BY_ADDRESS = 30
_MAX_KEYS = 10_000


class Attempts:
    """Tries of the last five minutes that were not right. A name alone is not counted: nobody can lock somebody else out.

    A try counts from its beginning: hashing a password takes a while, and many tries at once are many tries.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._tries: OrderedDict[tuple[str, ...], deque[float]] = OrderedDict()

    def begin(self, address: str, name: str) -> int:
        """Counts a try, and gives 0; or the seconds until one is allowed, and counts nothing."""
        with self._lock:
            by_name = self._wait((address, name), MAX_BY_NAME)
            wait_s = math.ceil(max(by_name, self._wait((address,), MAX_BY_ADDRESS)))
            if not wait_s:
                for key, most in (((address, name), MAX_BY_NAME), ((address,), MAX_BY_ADDRESS)):
                    if key not in self._tries and len(self._tries) >= _MAX_KEYS:
                        self._tries.popitem(last=False)
                    self._tries.setdefault(key, deque(maxlen=most)).append(self._clock())
            return wait_s

    def succeeded(self, address: str, name: str) -> None:
        """The password was right: this name's tries from there are forgotten, and this one of the address."""
        with self._lock:
            self._tries.pop((address, name), None)
            by_address = self._tries.get((address,))
            if by_address:
                by_address.pop()

    def _wait(self, key: tuple[str, ...], most: int) -> float:
        tries = self._tries.get(key)
        if tries is None or len(tries) < most:
            return 0
        return max(0.0, tries[0] + WINDOW_S - self._clock())
