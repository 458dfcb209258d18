"""One pool's sizing: a policy kept in its bounds, with a cooldown, a pin by hand that always wins, and dry runs."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, Struct

from relay.permits.engine.base import SECOND
from relay.permits.sizing.adaptive import Adaptive, AdaptivePolicy
from relay.permits.sizing.base import Completion, Decision, Policy, Proposal, Sample
from relay.permits.sizing.load import ByLoad, LoadPolicy
from relay.permits.sizing.schedule import BySchedule, SchedulePolicy

Size = Annotated[int, Meta(ge=1, le=1_000_000)]


class Sizing(Struct, frozen=True, forbid_unknown_fields=True):
    """How a pool is sized. `pin`: a size set by hand, which holds until it is taken away.

    Between two decisions at least `cooldown_s` pass; null: 30 s by load, 1 s by schedule, 0.25 s adaptive. `dry_run`: decides and says so, but changes nothing.
    """

    policy: ByLoad | BySchedule | Adaptive
    minimum: Size
    maximum: Size
    cooldown_s: Annotated[float, Meta(ge=0, le=86_400)] | None = None
    pin: Size | None = None
    dry_run: bool = False

    def fault(self) -> tuple[str, str] | None:
        """The field that contradicts another, and how; None if all is well."""
        if self.maximum < self.minimum:
            return "maximum", f"must be at least the minimum, {self.minimum}"
        found = self.policy.fault()
        return None if found is None else (f"policy.{found[0]}", found[1])


class Sizer:
    """Turns what happens to a pool into decisions. Pure: the caller sets the size, and tells it with the next sample."""

    def __init__(self, settings: Sizing) -> None:
        self.settings = settings
        self._policy, usual_s = _policy(settings)
        self._cooldown_us = int((usual_s if settings.cooldown_s is None else settings.cooldown_s) * SECOND)
        self._decided_us: int | None = None
        self._capacity: int | None = None

    def look(self, sample: Sample) -> Decision | None:
        """Once a second: whether the size should change now."""
        self._notice(sample.capacity, sample.now_us)
        settings = self.settings
        if settings.pin is not None:
            return self._pinned(sample.capacity, settings.pin)
        proposal = self._policy.look(sample) or self._bounds(sample.capacity)
        return self._decide(proposal, sample.capacity, sample.now_us)

    def completed(self, completion: Completion) -> Decision | None:
        """At a release that reports an outcome: whether the size should change at once."""
        if self.settings.pin is not None:
            return None
        self._notice(completion.capacity, completion.now_us)
        return self._decide(self._policy.completed(completion), completion.capacity, completion.now_us)

    def _notice(self, capacity: int, now_us: int) -> None:
        """Somebody else may have set the size."""
        if self._capacity is not None and capacity != self._capacity:
            self._policy.resized(now_us, shrunk=capacity < self._capacity)
        self._capacity = capacity

    def _pinned(self, capacity: int, pin: int) -> Decision | None:
        if capacity == pin:
            return None
        if not self.settings.dry_run:
            self._capacity = pin
        return Decision(capacity, pin, f"pinned by hand: {capacity} to {pin}", not self.settings.dry_run)

    def _bounds(self, capacity: int) -> Proposal | None:
        settings = self.settings
        if capacity < settings.minimum:
            return Proposal(settings.minimum, f"below the minimum of {settings.minimum}")
        if capacity > settings.maximum:
            return Proposal(settings.maximum, f"above the maximum of {settings.maximum}")
        return None

    def _decide(self, proposal: Proposal | None, capacity: int, now_us: int) -> Decision | None:
        if proposal is None:
            return None
        settings = self.settings
        target = min(max(proposal.capacity, settings.minimum), settings.maximum)
        if target == capacity:
            return None
        if self._decided_us is not None and now_us - self._decided_us < self._cooldown_us:
            return None
        self._decided_us = now_us
        self._policy.resized(now_us, shrunk=target < capacity)
        if not settings.dry_run:
            self._capacity = target
        return Decision(capacity, target, f"{proposal.reason}: {capacity} to {target}", not settings.dry_run)


def _policy(settings: Sizing) -> tuple[Policy, float]:
    """The policy, and its usual cooldown in seconds."""
    policy = settings.policy
    if isinstance(policy, ByLoad):
        return LoadPolicy(policy), 30.0
    return (SchedulePolicy(policy), 1.0) if isinstance(policy, BySchedule) else (AdaptivePolicy(policy), 0.25)
