"""Sizing by load: grows while the pool is busy or callers wait too long, shrinks while it is idle."""

from __future__ import annotations

from collections import deque
from typing import Annotated

from msgspec import Meta, Struct

from relay.permits.engine.base import SECOND
from relay.permits.sizing.base import Completion, Proposal, Sample


class ByLoad(Struct, frozen=True, forbid_unknown_fields=True, tag_field="kind", tag="load"):
    """In use over capacity, as the mean over `window_s`: above `grow_above` a step up, below `shrink_below` a step down.

    A waiter older than `max_wait_s` means a step up as well. A step is `step` of the size, at least one permit.
    """

    grow_above: Annotated[float, Meta(gt=0, lt=1)] = 0.8
    shrink_below: Annotated[float, Meta(ge=0, lt=1)] = 0.5
    window_s: Annotated[float, Meta(ge=1, le=3600)] = 30.0
    max_wait_s: Annotated[float, Meta(gt=0, le=3600)] | None = 5.0
    step: Annotated[float, Meta(gt=0, le=1)] = 0.1

    def fault(self) -> tuple[str, str] | None:
        """The field that contradicts another, and how."""
        if self.shrink_below * (1 + self.step) >= self.grow_above:
            most = self.grow_above / (1 + self.step)
            return "shrink_below", f"must be below {most:.2f}, or a step up would be followed by a step down"
        return None


class LoadPolicy:
    """See ByLoad."""

    def __init__(self, settings: ByLoad) -> None:
        self._settings = settings
        self._loads: deque[tuple[int, float]] = deque()
        self._since: int | None = None
        self._total = 0.0

    def look(self, sample: Sample) -> Proposal | None:
        """A step up or down, when the window is full of the same size."""
        settings = self._settings
        if self._since is None:
            self._since = sample.now_us
        self._remember(sample)
        step = max(1, int(sample.capacity * settings.step))
        oldest_s = sample.oldest_wait_us / SECOND
        if settings.max_wait_s is not None and sample.waiting and oldest_s > settings.max_wait_s:
            reason = f"oldest waiter {oldest_s:.1f} s, over {settings.max_wait_s:g} s"
            return Proposal(sample.capacity + step, reason)
        if sample.now_us - self._since < settings.window_s * SECOND:
            return None
        load = self._total / len(self._loads)
        if load > settings.grow_above:
            reason = f"load {load:.2f} over {settings.grow_above:.2f} for {settings.window_s:g} s"
            return Proposal(sample.capacity + step, reason)
        if load < settings.shrink_below and not sample.waiting:
            reason = f"load {load:.2f} under {settings.shrink_below:.2f} for {settings.window_s:g} s"
            # at the new size the load stays clear of the threshold to grow: no swinging to and fro
            least = int(load * sample.capacity / settings.grow_above) + 1
            target = max(sample.capacity - step, least)
            return Proposal(target, reason) if target < sample.capacity else None
        return None

    def completed(self, completion: Completion) -> Proposal | None:
        """Outcomes do not count here."""
        return None

    def resized(self, now_us: int, *, shrunk: bool) -> None:
        """The window begins anew."""
        self._loads.clear()
        self._total = 0.0
        self._since = now_us

    def _remember(self, sample: Sample) -> None:
        load = sample.in_use / sample.capacity
        self._loads.append((sample.now_us, load))
        self._total += load
        oldest = sample.now_us - self._settings.window_s * SECOND
        while self._loads[0][0] < oldest:
            self._total -= self._loads.popleft()[1]
