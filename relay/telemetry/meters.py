"""Plain counters of pools: touched on the event loop only, a few hundred nanoseconds a call."""

from __future__ import annotations

from typing import Any, Literal

from relay.telemetry.gauges import PoolGauges
from relay.telemetry.health import INDEX, health_of
from relay.telemetry.histogram import HELD_BOUNDS_S, SECOND, WAIT_BOUNDS_S, Histogram
from relay.telemetry.history import FIELDS as HISTORY_FIELDS
from relay.telemetry.history import History, Value
from relay.telemetry.recent import WINDOW_S, Clock, Recent
from relay.telemetry.reports import Reports
from relay.telemetry.tenants import Tenants
from relay.telemetry.token_meter import TokenMeter
from relay.telemetry.window import Window

Outcome = Literal["granted", "timeout", "rejected", "cancelled", "error"]

OUTCOMES: tuple[Outcome, ...] = ("granted", "timeout", "rejected", "cancelled", "error")
TIMED_OUTCOMES: tuple[Outcome, ...] = ("granted", "timeout", "cancelled")
END_REASONS = ("released", "expired", "revoked", "dropped")
STANDARD_PRIORITIES = ("critical", "interactive", "batch", "background")

# What a live frame says about a pool, in this order; the part after the history's is about the last 60 s.
FIELDS = (*HISTORY_FIELDS, "window_qps", "window_average_wait_s", "window_timeouts", "window_grants")

_ARRIVED, _QUEUE_FULL, _WAITED_US = 0, 1, 2
_OUTCOME = {outcome: 3 + index for index, outcome in enumerate(OUTCOMES)}
_GRANTED, _TIMEOUT = _OUTCOME["granted"], _OUTCOME["timeout"]
_REJECTED, _CANCELLED = _OUTCOME["rejected"], _OUTCOME["cancelled"]


class PoolMeter:
    """One pool's counters, its last 60 s and its history."""

    __slots__ = (
        "_clock",
        "_recent",
        "_sampled",
        "_sampled_us",
        "ended_by",
        "held",
        "past",
        "rate_limited",
        "reports",
        "requests",
        "resizes",
        "tenants",
        "waits",
    )

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._recent = Recent(3 + len(OUTCOMES), clock)
        self._sampled = [0] * (3 + len(OUTCOMES))
        self._sampled_us = clock()
        self.past = History()
        self.tenants = Tenants()
        self.requests: dict[tuple[str, str, str], int] = {}
        self.waits: dict[tuple[str, str], Histogram] = {}
        self.held = Histogram(HELD_BOUNDS_S)
        self.ended_by = dict.fromkeys(END_REASONS, 0)
        self.resizes = {"up": 0, "down": 0}
        self.rate_limited = 0
        self.reports = Reports()

    def arrived(self, now_us: int | None = None) -> None:
        """An acquire came that is no repeat of one before. `now_us` saves asking the clock."""
        recent = self._recent
        if now_us is None or now_us >= recent.until_us:
            recent.roll(now_us)
        recent.counts[_ARRIVED] += 1

    def answered(self, tenant: str, priority: str, outcome: Outcome, waited_us: int, now_us: int | None = None) -> None:
        """An acquire ended. `waited_us` counts for granted, timeout and cancelled; others never waited."""
        recent = self._recent
        if now_us is None or now_us >= recent.until_us:
            recent.roll(now_us)
        recent.counts[_OUTCOME[outcome]] += 1
        requests = self.requests
        key = (tenant, priority, outcome)
        count = requests.get(key)
        if count is None:
            key = (self.tenants.label(tenant), priority, outcome)
            count = requests.get(key, 0)
        requests[key] = count + 1
        if outcome == "granted":
            recent.counts[_WAITED_US] += waited_us
        histogram = self.waits.get((priority, outcome))
        if histogram is not None:
            histogram.observe(waited_us)
        elif outcome in TIMED_OUTCOMES:
            self.wait(priority, outcome).observe(waited_us)

    def wait(self, priority: str, outcome: Outcome) -> Histogram:
        """The waits of one priority class that ended so."""
        histogram = self.waits.get((priority, outcome))
        if histogram is None:
            histogram = self.waits[(priority, outcome)] = Histogram(WAIT_BOUNDS_S)
        return histogram

    def queue_full(self) -> None:
        """An acquire met a full queue; `answered` counts it as well."""
        self._recent.roll()
        self._recent.counts[_QUEUE_FULL] += 1

    def ended(self, reason: str, held_us: int) -> None:
        """A lease ended: released, expired, revoked or dropped."""
        self.ended_by[reason] += 1
        self.held.observe(held_us)

    def limited_by_rate(self) -> None:
        """An acquire was refused, or waited in vain, because of a rate; `answered` counts it as well."""
        self.rate_limited += 1

    def resized(self, grew: bool) -> None:
        """The sizing set another size."""
        self.resizes["up" if grew else "down"] += 1

    def window(self) -> Window:
        """The last 60 s, the running one included."""
        counts = self._recent.window()
        grants = counts[_GRANTED]
        return Window(
            qps=counts[_ARRIVED] / WINDOW_S,
            average_wait_s=round(counts[_WAITED_US] / grants / SECOND, 9) if grants else None,
            timeouts=counts[_TIMEOUT],
            starved=counts[_TIMEOUT] > 0 or counts[_QUEUE_FULL] > 0,
            active=counts[_ARRIVED] > 0,
            grants=grants,
        )

    def sample(self, at: int, gauges: PoolGauges) -> list[Value]:
        """Takes the sample of the second that ends at `at` (Unix seconds), keeps it, and gives it in FIELDS' order."""
        now_us = self._clock()
        seconds = max(1, round((now_us - self._sampled_us) / SECOND))
        counts = self._recent.counts
        since = [count - past for count, past in zip(counts, self._sampled, strict=True)]
        self._sampled, self._sampled_us = counts.copy(), now_us
        window = self.window()
        grants = since[_GRANTED]
        row: list[Value] = [
            round(since[_ARRIVED] / seconds, 3),
            round(since[_WAITED_US] / grants / SECOND, 6) if grants else None,
            gauges.capacity,
            gauges.in_use,
            gauges.waiting,
            round(gauges.oldest_wait_us / SECOND, 3),
            gauges.over_limit,
            grants,
            since[_TIMEOUT],
            since[_REJECTED],
            since[_CANCELLED],
            INDEX[health_of(gauges, window)],
            round(window.qps, 3),
            None if window.average_wait_s is None else round(window.average_wait_s, 6),
            window.timeouts,
            window.grants,
        ]
        self.past.append(at, row)
        return row

    def history(self, range_s: int) -> dict[str, Any]:
        """`{"step_s", "interval_s", "fields", "rows"}` of the last `range_s` seconds, at most 900; a gap is a missing row."""
        return self.past.document(range_s)


class Meters:
    """All meters of this process. The clock gives the engine's time in whole microseconds."""

    __slots__ = ("_clock", "_pools", "priorities", "tokens")

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._pools: dict[str, PoolMeter] = {}
        self.tokens = TokenMeter(clock)
        self.priorities: tuple[str, ...] = STANDARD_PRIORITIES

    def pool(self, name: str) -> PoolMeter:
        """A pool's meter, made on first use."""
        meter = self._pools.get(name)
        if meter is None:
            meter = self._pools[name] = PoolMeter(self._clock)
        return meter

    def drop(self, name: str) -> None:
        """Forgets a pool that is gone."""
        self._pools.pop(name, None)

    def names(self) -> list[str]:
        """The pools that have a meter."""
        return list(self._pools)
