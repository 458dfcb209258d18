"""A histogram with fixed bounds, in whole microseconds: one bisection and three additions a value."""

from __future__ import annotations

from bisect import bisect_left

SECOND = 1_000_000

WAIT_BOUNDS_S = (0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0, 1800.0)
HELD_BOUNDS_S = (0.01, 0.05, 0.1, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0, 1800.0, 3600.0, 21600.0, 86400.0)
TOKENIZE_BOUNDS_S = (0.00001, 0.000025, 0.00005, 0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.01, 0.05, 0.25, 1.0, 5.0)


class Histogram:
    """How many values fell into each bucket (the last one has no bound), and their sum."""

    __slots__ = ("_bounds_us", "bounds_s", "buckets", "count", "sum_us")

    def __init__(self, bounds_s: tuple[float, ...]) -> None:
        self.bounds_s = bounds_s
        self._bounds_us = [round(bound * SECOND) for bound in bounds_s]
        self.buckets = [0] * (len(bounds_s) + 1)
        self.count = 0
        self.sum_us: float = 0

    def observe(self, value_us: float) -> None:
        """Counts one value, in microseconds."""
        self.buckets[bisect_left(self._bounds_us, value_us)] += 1
        self.count += 1
        self.sum_us += value_us
