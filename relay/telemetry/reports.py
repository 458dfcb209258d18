"""What callers reported of calls that went wrong, by the second, for the last 15 minutes. What went well is in the history."""

from __future__ import annotations

from collections import Counter, deque

from relay.telemetry.history import SAMPLES


class Second:
    """The calls that went wrong in the second that ends at `at` (Unix seconds), by outcome, and how long they were held in all."""

    __slots__ = ("at", "counts", "held_us")

    def __init__(self, at: int) -> None:
        self.at = at
        self.counts: Counter[str] = Counter()
        self.held_us = 0


class Reports:
    """The seconds with such calls, at most as many as the history has samples."""

    __slots__ = ("_seconds",)

    def __init__(self) -> None:
        self._seconds: deque[Second] = deque(maxlen=SAMPLES)

    def add(self, at: int, outcome: str, held_us: int) -> None:
        """A call ended so in the second that ends at `at`, as the history's samples do."""
        seconds = self._seconds
        if not seconds or seconds[-1].at < at:
            seconds.append(Second(at))
        newest = seconds[-1]
        newest.counts[outcome] += 1
        newest.held_us += held_us

    def since(self, at: int) -> dict[int, tuple[dict[str, int], int]]:
        """From the second `at` on: the counts by outcome, and the µs held by all of them."""
        return {second.at: (dict(second.counts), second.held_us) for second in self._seconds if second.at >= at}
