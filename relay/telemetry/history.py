"""The last 15 minutes of a pool in one-second samples, and the last 5 minutes in steps of 5 s for small pictures."""

from __future__ import annotations

import math
from array import array
from collections import deque
from collections.abc import Sequence
from typing import Any

SAMPLES = 900
STEP_S = 5
STEPS = 60

# Over the sample's own second, or at its end; what a sample says about the last 60 s is not kept.
FIELDS = (
    "qps",
    "average_wait_s",
    "capacity",
    "in_use",
    "waiting",
    "oldest_wait_s",
    "over_limit",
    "granted",
    "timeouts",
    "rejected",
    "cancelled",
    "health",
)
_WIDTH = len(FIELDS)
_WHOLE = frozenset(range(_WIDTH)) - {FIELDS.index(name) for name in ("qps", "average_wait_s", "oldest_wait_s")}

Value = float | int | None


class History:
    """A ring of samples, each under the Unix second at which it was taken: a second without a sample is a gap."""

    __slots__ = ("_last", "_step", "_times", "_values", "steps")

    def __init__(self) -> None:
        self._times = array("q", [-1]) * SAMPLES
        self._values = array("d", [0.0]) * (SAMPLES * _WIDTH)
        self._last = -1
        self._step: list[tuple[float, int, float]] = []
        self.steps: deque[tuple[int, float, float | None]] = deque(maxlen=STEPS)

    def append(self, at: int, row: Sequence[Value]) -> None:
        """Keeps the sample of the second that ended at `at` (Unix seconds); `row` begins with FIELDS."""
        slot = at % SAMPLES
        self._times[slot] = at
        base = slot * _WIDTH
        for offset in range(_WIDTH):
            value = row[offset]
            self._values[base + offset] = math.nan if value is None else value
        self._into_step(at, row)
        self._last = at

    def _into_step(self, at: int, row: Sequence[Value]) -> None:
        if self._step and self._last // STEP_S != at // STEP_S:
            grants = sum(granted for _, granted, _ in self._step)
            self.steps.append(
                (
                    self._last // STEP_S * STEP_S,
                    round(sum(qps for qps, _, _ in self._step) / len(self._step), 2),
                    round(sum(waited for _, _, waited in self._step) / grants, 6) if grants else None,
                )
            )
            self._step.clear()
        granted = int(row[7] or 0)
        self._step.append((float(row[0] or 0), granted, float(row[1] or 0) * granted))

    def rows(self, range_s: int) -> list[list[Value]]:
        """The samples of the last `range_s` seconds, the oldest first: `[t, *FIELDS]`."""
        newest = self._last
        times = sorted(at for at in self._times if newest - range_s < at <= newest and at >= 0)
        return [self._row(at) for at in times]

    def _row(self, at: int) -> list[Value]:
        base = at % SAMPLES * _WIDTH
        row: list[Value] = [at]
        for offset, value in enumerate(self._values[base : base + _WIDTH]):
            if math.isnan(value):
                row.append(None)
            else:
                row.append(int(value) if offset in _WHOLE else value)
        return row

    def document(self, range_s: int) -> dict[str, Any]:
        """The samples as the API shows them."""
        return {"step_s": 1, "interval_s": 1, "fields": ["t", *FIELDS], "rows": self.rows(range_s)}
