"""A backend with a true capacity that nobody is told, callers in a closed loop, and a pool core between them."""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable
from itertools import count
from random import Random

from msgspec import Struct, field

from relay.permits.engine.base import SECOND, Ask, Lease, PoolConfig
from relay.permits.engine.core import PoolCore
from relay.permits.engine.events import Granted
from relay.permits.engine.waiting import Waiter
from relay.permits.sizing.base import Completion, Decision, Outcome, Sample

THROTTLED_S = 0.05  # a refusal is quick
TIMEOUT_FACTOR = 5.0  # callers of a slow backend give up after so many usual latencies
RANKS = {"interactive": 1}


class Scenario(Struct, frozen=True):
    """What the backend can do (`capacity` by the second), how long its calls take, and how many callers there are.

    `rejects`: beyond its capacity it refuses at once; else it slows down, as shared processors do.
    """

    name: str
    seconds: int
    capacity: Callable[[float], float]
    latency_s: Callable[[Random], float]
    callers: Callable[[float], int]
    rejects: bool = True
    steps: tuple[tuple[int, float], ...] = ()  # when the capacity jumps, and to what
    usual_s: float = 0.5


class Sized(Struct):
    """Whoever sets the size: both give the size to set, or None. `completed` is told how much was in use as well."""

    look: Callable[[Sample], int | None]
    completed: Callable[[Completion, int], int | None]


class Tally(Struct):
    """What came of one run. `sizes` has the pool's size at every second."""

    ok: int = 0
    bad: int = 0
    sizes: list[int] = field(default_factory=list)
    decisions: list[Decision] = field(default_factory=list)

    @property
    def bad_share(self) -> float:
        """The share of calls that were throttled or timed out."""
        return self.bad / max(1, self.ok + self.bad)


class World:
    """One run. Callers acquire, call, report and come again; the size follows whoever sets it."""

    def __init__(self, scenario: Scenario, sized: Sized, start: int, seed: int) -> None:
        self._scenario = scenario
        self._sized = sized
        self._random = Random(seed)
        self._config = PoolConfig("backend", start, max_waiters=1_000_000, aging_us=None)
        ids = count(1)
        self._core = PoolCore(self._config, 0, ranks=RANKS, weights={}, ids=lambda: str(next(ids)), rng=Random(seed))
        self._now = 0
        self._events: list[tuple[int, int, Callable[[], None]]] = []
        self._order = count()
        self._running = 0
        self._callers = 0
        self.tally = Tally()

    def run(self) -> Tally:
        """Plays the scenario to its end."""
        for second in range(self._scenario.seconds):
            self._at(second * SECOND, self._tick)
        while self._events:
            self._now, _, happens = heapq.heappop(self._events)
            if self._now >= self._scenario.seconds * SECOND:
                break
            happens()
            self._hand_out()
        return self.tally

    def _at(self, when: int, happens: Callable[[], None]) -> None:
        heapq.heappush(self._events, (when, next(self._order), happens))

    def _tick(self) -> None:
        core = self._core
        core.advance(self._now)
        self.tally.sizes.append(self._config.capacity)
        oldest = max((self._now - waiter.enqueued_us for waiter in list(core.waiters.values())[:1]), default=0)
        second = self._now / SECOND
        sample = Sample(self._now, second, self._config.capacity, core.in_use, len(core.waiters), oldest)
        self._resize(self._sized.look(sample))
        while self._callers < self._scenario.callers(second):
            self._callers += 1
            self._at(self._now + self._random.randrange(SECOND), self._ask)

    def _ask(self) -> None:
        if self._callers > self._scenario.callers(self._now / SECOND):
            self._callers -= 1
            return
        got = self._core.acquire(Ask("t", 1, "interactive", 3600 * SECOND, 3600 * SECOND), self._now)
        if not isinstance(got, Waiter) and isinstance(got, Lease):
            self._call(got)

    def _hand_out(self) -> None:
        for event in self._core.take_events():
            if isinstance(event, Granted):
                self._call(event.lease)

    def _call(self, lease: Lease) -> None:
        scenario = self._scenario
        capacity = scenario.capacity(self._now / SECOND)
        self._running += 1
        outcome: Outcome = "ok"
        seconds = scenario.latency_s(self._random)
        if self._running > capacity:
            if scenario.rejects:
                outcome, seconds = "throttled", THROTTLED_S
            else:
                seconds *= self._running / max(capacity, 0.1)
                if seconds > scenario.usual_s * TIMEOUT_FACTOR:
                    outcome, seconds = "timeout", scenario.usual_s * TIMEOUT_FACTOR
        self._at(self._now + int(seconds * SECOND), lambda: self._done(lease, outcome))

    def _done(self, lease: Lease, outcome: Outcome) -> None:
        self._running -= 1
        if outcome == "ok":
            self.tally.ok += 1
        else:
            self.tally.bad += 1
        completion = Completion(self._now, outcome, self._now - lease.acquired_us, self._config.capacity)
        in_use = self._core.in_use
        self._core.release(lease.lease_id, "t", self._now)
        self._resize(self._sized.completed(completion, in_use))
        self._at(self._now + self._random.randrange(1, 2000), self._ask)

    def _resize(self, size: int | None) -> None:
        if size is None or size == self._config.capacity:
            return
        self._config = PoolConfig("backend", size, max_waiters=1_000_000, aging_us=None)
        self._core.configure(self._config, self._now, None, None)


def lognormal(mean_s: float, sigma: float = 0.3) -> Callable[[Random], float]:
    """Latencies around a mean, as services have them."""
    mu = math.log(mean_s) - sigma * sigma / 2
    return lambda random: random.lognormvariate(mu, sigma)
