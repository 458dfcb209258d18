"""What a sizing would have done to a pool's last minutes: its samples again, through the real policy. Pure.

An estimate. Demand is what was in use and waiting then; a smaller size makes callers wait, a larger one serves them, but
nobody knows what the backend would have said at another size: what callers reported is replayed as it was.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from msgspec import Struct, structs

from relay.permits.engine.base import SECOND
from relay.permits.sizing.adaptive import Adaptive
from relay.permits.sizing.base import Completion, Decision, Outcome, Sample
from relay.permits.sizing.sizer import Sizer, Sizing

CALLS_A_SECOND = 50  # replayed at most: what a policy looks at is their share and their order


class Second(Struct, frozen=True):
    """A pool in one second (Unix seconds). `bad`: the calls that ended otherwise than well; `held_us`: their mean time."""

    at: int
    capacity: int
    in_use: int
    waiting: int = 0
    oldest_wait_us: int = 0
    granted: int = 0
    bad: Mapping[Outcome, int] = {}
    held_us: int = 0


class Replay(Struct, frozen=True):
    """What would have been: the size after each second, and the decisions with their second."""

    sizes: list[int]
    decisions: list[tuple[int, Decision]]


def replay(sizing: Sizing, seconds: Sequence[Second]) -> Replay:
    """Replays the seconds, the oldest first, beginning at the size that the pool had."""
    found = Replay([], [])
    if not seconds:
        return found
    run = _Run(sizing, seconds[0].capacity)
    for second in seconds:
        found.decisions.extend((second.at, decision) for decision in run.pass_through(second))
        found.sizes.append(run.size)
    return found


class _Run:
    """The pool as it would be."""

    def __init__(self, sizing: Sizing, size: int) -> None:
        self._sizer = Sizer(structs.replace(sizing, dry_run=False))
        self._hears = isinstance(sizing.policy, Adaptive)
        self._waiting_since: int | None = None
        self.size = size

    def pass_through(self, second: Second) -> Iterator[Decision]:
        """One second: what callers report, then the look at its end."""
        for completion in self._completions(second) if self._hears else ():
            yield from self._taken(self._sizer.completed(completion))
        yield from self._taken(self._sizer.look(self._sample(second)))

    def _taken(self, decision: Decision | None) -> Iterator[Decision]:
        if decision is not None:
            self.size = decision.after
            yield decision

    def _sample(self, second: Second) -> Sample:
        demand = second.in_use + second.waiting
        in_use = min(demand, self.size)
        waiting = demand - in_use
        now_us = second.at * SECOND
        if not waiting:
            self._waiting_since = None
        elif self._waiting_since is None:
            self._waiting_since = now_us - second.oldest_wait_us
        # as long as then; at a size that is smaller than then, since it became too small
        oldest_us = second.oldest_wait_us or now_us - (self._waiting_since or now_us)
        return Sample(now_us, second.at, self.size, in_use, waiting, oldest_us if waiting else 0)

    def _completions(self, second: Second) -> Iterator[Completion]:
        wrong = [outcome for outcome, count in second.bad.items() for _ in range(count)]
        calls = max(second.granted, len(wrong))
        shown = min(calls, CALLS_A_SECOND)
        for index in range(shown):
            now_us = (second.at - 1) * SECOND + (index + 1) * SECOND // shown
            at = index * len(wrong) // shown
            bad = at != (index + 1) * len(wrong) // shown
            yield Completion(now_us, wrong[at] if bad else "ok", second.held_us, self.size)
