"""How often somebody may try a wrong password: counted in memory, by address, and by address and name."""

from __future__ import annotations

import math
import threading
import time
from collections import deque
from collections.abc import Callable

WINDOW_S = 300
MAX_BY_NAME = 5
MAX_BY_ADDRESS = 30
_MAX_KEYS = 10_000


class Attempts:
    """Failed sign-ins of the last five minutes. A name alone is not counted: nobody can lock somebody else out."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._failures: dict[tuple[str, ...], deque[float]] = {}

    def wait_s(self, address: str, name: str) -> int:
        """Seconds until the next try is allowed; 0 if it is now."""
        with self._lock:
            by_name = self._wait((address, name), MAX_BY_NAME)
            return math.ceil(max(by_name, self._wait((address,), MAX_BY_ADDRESS)))

    def failed(self, address: str, name: str) -> None:
        """A password was wrong."""
        with self._lock:
            for key, most in (((address, name), MAX_BY_NAME), ((address,), MAX_BY_ADDRESS)):
                if key not in self._failures and len(self._failures) >= _MAX_KEYS:
                    del self._failures[next(iter(self._failures))]
                self._failures.setdefault(key, deque(maxlen=most)).append(self._clock())

    def succeeded(self, address: str, name: str) -> None:
        """The password was right: this name's failures from there are forgotten."""
        with self._lock:
            self._failures.pop((address, name), None)

    def _wait(self, key: tuple[str, ...], most: int) -> float:
        failures = self._failures.get(key)
        if failures is None or len(failures) < most:
            return 0
        return max(0.0, failures[0] + WINDOW_S - self._clock())
