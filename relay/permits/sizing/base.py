"""What a sizing policy sees and says. Times are whole microseconds of the engine's clock (`*_us`)."""

from __future__ import annotations

from typing import Literal, Protocol

from msgspec import Struct

Outcome = Literal["ok", "error", "throttled", "timeout"]


class Sample(Struct, frozen=True):
    """A pool at one moment, taken once a second. `at` is Unix seconds: schedules follow the wall clock."""

    now_us: int
    at: float
    capacity: int
    in_use: int
    waiting: int = 0
    oldest_wait_us: int = 0

    @property
    def full(self) -> bool:
        """Whether the size holds somebody back."""
        return self.in_use >= self.capacity or self.waiting > 0


class Completion(Struct, frozen=True):
    """A lease that its caller released, and what the caller reported."""

    now_us: int
    outcome: Outcome
    held_us: int
    capacity: int

    @property
    def acquired_us(self) -> int:
        """When it was granted."""
        return self.now_us - self.held_us


class Proposal(Struct, frozen=True):
    """A size that a policy wants, before bounds and cooldown, and why, in words."""

    capacity: int
    reason: str


class Decision(Struct, frozen=True):
    """A size to set now. `applied` is False in a dry run."""

    before: int
    after: int
    reason: str
    applied: bool = True


class Policy(Protocol):
    """Proposes sizes. Pure: what it knows came in through these calls."""

    def look(self, sample: Sample) -> Proposal | None:
        """Once a second."""

    def completed(self, completion: Completion) -> Proposal | None:
        """At every release that reports an outcome."""

    def resized(self, now_us: int, *, shrunk: bool) -> None:
        """The pool has another size from now on: what was seen before tells nothing about it."""
