"""Limits from latency alone, after Netflix's concurrency-limits (Apache-2.0), with its constants. For short uniform calls.

Both look at windows of samples: the mean of a window for Gradient2, its minimum for Vegas.
"""

from __future__ import annotations

import math
from typing import Protocol

from relay.permits.sizing.base import Proposal


class Estimator(Protocol):
    """A limit that follows latency."""

    def observe(self, held_us: int) -> None:
        """A call that went well took so long."""

    def propose(self, capacity: int, in_use: int) -> Proposal | None:
        """The limit after the window that ends now."""


class Gradient2:
    """Compares a window's mean latency with its slow average (600 windows): queueing behind us shows as their ratio.

    limit <- 0.8 limit + 0.2 (limit * gradient + 4), gradient = 1.5 long / short within 0.5 to 1.
    """

    TOLERANCE = 1.5
    QUEUE = 4
    SMOOTHING = 0.2
    LONG_WINDOW = 600
    WARM_UP = 10

    def __init__(self) -> None:
        self._sum = self._count = 0
        self._long = 0.0
        self._windows = 0
        self._limit: float | None = None

    def observe(self, held_us: int) -> None:
        """Adds a sample to the running window."""
        self._sum += held_us
        self._count += 1

    def propose(self, capacity: int, in_use: int) -> Proposal | None:
        """The smoothed limit; None without samples, or while less than half is in use."""
        if not self._count:
            return None
        short = self._sum / self._count
        self._sum = self._count = 0
        self._average(short)
        if self._long / short > 2:  # latency fell for good: let the slow average follow sooner
            self._long *= 0.95
        if in_use < capacity / 2:
            return None
        limit = capacity if self._limit is None or round(self._limit) != capacity else self._limit
        gradient = max(0.5, min(1.0, self.TOLERANCE * self._long / max(short, 1.0)))
        self._limit = limit * (1 - self.SMOOTHING) + (limit * gradient + self.QUEUE) * self.SMOOTHING
        reason = f"latency {short / 1e6:.3f} s beside {self._long / 1e6:.3f} s in the long run, gradient {gradient:.2f}"
        return Proposal(max(1, round(self._limit)), reason)

    def _average(self, short: float) -> None:
        self._windows += 1
        if self._windows <= self.WARM_UP:
            self._long += (short - self._long) / self._windows
        else:
            self._long += (short - self._long) * 2 / (self.LONG_WINDOW + 1)


class Vegas:
    """Estimates the queue behind us from the least latency ever seen: limit * (1 - least / now).

    alpha 3 log10 limit, beta 6 log10 limit, threshold log10 limit; the least is looked for anew every 30 limits' windows.
    """

    PROBE = 30

    def __init__(self) -> None:
        self._least = 0
        self._now = 0
        self._windows = 0

    def observe(self, held_us: int) -> None:
        """Keeps the window's least."""
        if not self._now or held_us < self._now:
            self._now = held_us

    def propose(self, capacity: int, in_use: int) -> Proposal | None:
        """The limit by the estimated queue; None without samples, or while less than half is in use."""
        now, self._now = self._now, 0
        if not now:
            return None
        self._windows += 1
        if not self._least or now < self._least or self._windows >= self.PROBE * capacity:
            self._least, self._windows = now, 0
            return None
        if in_use * 2 < capacity:
            return None
        step = max(1.0, math.log10(capacity))
        queue = math.ceil(capacity * (1 - self._least / now))
        if queue <= step:
            target = capacity + 6 * step
        elif queue < 3 * step:
            target = capacity + step
        elif queue > 6 * step:
            target = capacity - step
        else:
            return None
        reason = f"about {queue} calls queue behind it (least latency {self._least / 1e6:.3f} s, now {now / 1e6:.3f} s)"
        return Proposal(max(1, int(target)), reason)
