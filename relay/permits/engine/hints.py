"""How long the refused should wait before the next try (rule 13). No clock; the random numbers are given."""

from __future__ import annotations

from random import Random

from relay.permits.engine.base import SECOND

_SMOOTHING = 1 / 16  # weight of the newest hold time
_FIRST_HOLD_US = SECOND  # assumed until a lease has ended
_LEAST_US = SECOND // 10
_MOST_US = 60 * SECOND


class Hints:
    """Estimates waits from an exponentially weighted mean of the hold time of one permit."""

    __slots__ = ("_rng", "hold_us")

    def __init__(self, rng: Random) -> None:
        self._rng = rng
        self.hold_us: float | None = None

    def held(self, held_us: int) -> None:
        """A lease ended after this time."""
        if self.hold_us is None:
            self.hold_us = float(held_us)
        else:
            self.hold_us += (held_us - self.hold_us) * _SMOOTHING

    def wait_us(self, missing: int, capacity: int) -> int:
        """How long until `missing` permits have come free, if all of the capacity is held."""
        hold = _FIRST_HOLD_US if self.hold_us is None else self.hold_us
        return int(max(0, missing) * hold / capacity)

    def retry_us(self, missing: int, capacity: int) -> int:
        """That time, bounded, with jitter of a half both ways so that the refused do not come back together."""
        wait = min(max(self.wait_us(missing, capacity), _LEAST_US), _MOST_US)
        return int(wait * self._rng.uniform(0.5, 1.5))
