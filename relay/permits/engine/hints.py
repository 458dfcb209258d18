"""How long the refused should wait before the next try (rule 13). No clock; the random numbers are given.

Who was refused comes back, so the refused are a queue that nobody sees. It is counted here: each refusal adds to it, each
service takes an eighth away, and a hint waits for it as for the queue that is seen. So hints grow while many are refused
for one that is served, and recover as permits flow. While nothing is served at all, a hint also is never less than the
time for which that has gone on: a lone caller's tries come at half the pace each time.
"""

from __future__ import annotations

from random import Random

from relay.permits.engine.base import SECOND

_SMOOTHING = 1 / 16  # weight of the newest hold time
_FIRST_HOLD_US = SECOND  # assumed until a lease has ended
_LEAST_US = SECOND // 10
MOST_US = 60 * SECOND


class Hints:
    """Estimates waits from an exponentially weighted mean of the hold time of one permit."""

    __slots__ = ("_rng", "_since", "hold_us", "refused")

    def __init__(self, rng: Random) -> None:
        self._rng = rng
        self.refused = 0  # permits for which somebody will come back
        self._since: int | None = None  # the first refusal after the last service
        self.hold_us: float | None = None

    def held(self, held_us: int) -> None:
        """A lease ended after this time."""
        if self.hold_us is None:
            self.hold_us = float(held_us)
        else:
            self.hold_us += (held_us - self.hold_us) * _SMOOTHING
        if self._since is not None or self.refused:
            self.served()

    def served(self) -> None:
        """Permits flow: of those who were refused fewer are left to come back."""
        self.refused = self.refused * 7 // 8
        self._since = None

    def wait_us(self, missing: int, capacity: int) -> int:
        """How long until `missing` permits have come free, if all of the capacity is held."""
        hold = _FIRST_HOLD_US if self.hold_us is None else self.hold_us
        return int(max(0, missing) * hold / capacity)

    def retry_us(self, missing: int, permits: int, capacity: int, now: int) -> int:
        """When to come back after a refusal of `permits`, with `missing` to come free until they are.

        Bounded, with jitter of a half both ways so that the refused do not come back together.
        """
        if self._since is None:
            self._since = now
        wait = max(self.wait_us(missing + self.refused, capacity), now - self._since, _LEAST_US)
        if wait < MOST_US:
            self.refused += permits
        return int(min(wait, MOST_US) * self._rng.uniform(0.5, 1.5))

    def rate_retry_us(self, ready_us: int, gap_us: int) -> int:
        """When to come back after a refusal by a rate that is ready in `ready_us` and lets one through every `gap_us`.

        Exact for the first; those after it are spread over the time that the rate needs for them, `MOST_US` at most.
        """
        spread = min(self.refused * gap_us, MOST_US)
        if spread < MOST_US:
            self.refused += 1
        return ready_us + int(spread * self._rng.random())
