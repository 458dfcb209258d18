"""Counts over the last 60 seconds, the running one included: O(1) for a count, O(1) amortised for a second."""

from __future__ import annotations

from collections.abc import Callable

from relay.telemetry.histogram import SECOND

WINDOW_S = 60

Clock = Callable[[], int]


class Recent:
    """Rising counts, with what they were at the start of each of the last 60 seconds.

    The window is a difference of two snapshots, so that counting touches nothing but `counts`. The holder calls `roll`
    before it counts.
    """

    __slots__ = ("_clock", "_second", "_starts", "counts", "until_us")

    def __init__(self, columns: int, clock: Clock) -> None:
        self.counts = [0] * columns
        self._clock = clock
        self._second = clock() // SECOND
        self.until_us = (self._second + 1) * SECOND  # before this moment there is nothing to roll
        self._starts: list[tuple[int, ...]] = [tuple(self.counts)] * WINDOW_S

    def roll(self, now_us: int | None = None) -> None:
        """Brings the window to the present second: the clock's, or that of `now_us` where the caller has just asked it."""
        second = (self._clock() if now_us is None else now_us) // SECOND
        if second > self._second:
            start = tuple(self.counts)
            for past in range(max(self._second, second - WINDOW_S) + 1, second + 1):
                self._starts[past % WINDOW_S] = start
            self._second = second
            self.until_us = (second + 1) * SECOND

    def window(self) -> list[int]:
        """How much each count rose in the last 60 s."""
        self.roll()
        start = self._starts[(self._second + 1) % WINDOW_S]
        return [count - past for count, past in zip(self.counts, start, strict=True)]
