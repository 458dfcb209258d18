"""Plain counters of pools and of token counting: touched on the event loop only, a few hundred nanoseconds a call."""

from __future__ import annotations

from typing import Any, Literal

from relay.telemetry.gauges import PoolGauges
from relay.telemetry.health import INDEX, health_of
from relay.telemetry.histogram import HELD_BOUNDS_S, SECOND, TOKENIZE_BOUNDS_S, WAIT_BOUNDS_S, Histogram
from relay.telemetry.history import FIELDS as HISTORY_FIELDS
from relay.telemetry.history import History, Value
from relay.telemetry.recent import WINDOW_S, Clock, Recent
from relay.telemetry.window import Window

Outcome = Literal["granted", "timeout", "rejected", "cancelled", "error"]

OUTCOMES: tuple[Outcome, ...] = ("granted", "timeout", "rejected", "cancelled", "error")
TIMED_OUTCOMES: tuple[Outcome, ...] = ("granted", "timeout", "cancelled")
END_REASONS = ("released", "expired", "revoked", "dropped")
SOURCES = ("cache", "partial", "computed")
TIERS = ("text", "segment", "shared")
STANDARD_PRIORITIES = ("critical", "interactive", "batch", "background")

MAX_TENANTS = 200
OTHER = "other"

# What a live frame says about a pool, in this order; the part after the history's is about the last 60 s.
FIELDS = (*HISTORY_FIELDS, "window_qps", "window_average_wait_s", "window_timeouts", "window_grants")

_ARRIVED, _QUEUE_FULL, _WAITED_US = 0, 1, 2
_OUTCOME = {outcome: 3 + index for index, outcome in enumerate(OUTCOMES)}
_GRANTED, _TIMEOUT = _OUTCOME["granted"], _OUTCOME["timeout"]
_REJECTED, _CANCELLED = _OUTCOME["rejected"], _OUTCOME["cancelled"]


class Tenants:
    """The tenants that get a label of their own: the first 200; all others are `other`."""

    __slots__ = ("labels",)

    def __init__(self) -> None:
        self.labels: set[str] = set()

    def label(self, tenant: str) -> str:
        """The label under which a tenant is counted."""
        if tenant in self.labels:
            return tenant
        if len(self.labels) < MAX_TENANTS:
            self.labels.add(tenant)
            return tenant
        return OTHER


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
        "requests",
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

    def arrived(self, now_us: int | None = None) -> None:
        """An acquire came that is no repeat of one before. `now_us` saves asking the clock."""
        self._recent.roll(now_us)
        self._recent.counts[_ARRIVED] += 1

    def answered(self, tenant: str, priority: str, outcome: Outcome, waited_us: int) -> None:
        """An acquire ended. `waited_us` counts for granted, timeout and cancelled; others never waited."""
        recent = self._recent
        recent.roll()
        recent.counts[_OUTCOME[outcome]] += 1
        key = (tenant, priority, outcome)
        if key in self.requests:
            self.requests[key] += 1
        else:
            key = (self.tenants.label(tenant), priority, outcome)
            self.requests[key] = self.requests.get(key, 0) + 1
        if outcome == "granted":
            recent.counts[_WAITED_US] += waited_us
        histogram = self.waits.get((priority, outcome))
        if histogram is not None or outcome in TIMED_OUTCOMES:
            (histogram or self.wait(priority, outcome)).observe(waited_us)

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


class TokenMeter:
    """Counts of token counting, over all models."""

    __slots__ = ("_recent", "caches", "requests", "tenants", "times", "tokens")

    def __init__(self, clock: Clock) -> None:
        self._recent = Recent(2 + len(SOURCES), clock)
        self.requests: dict[tuple[str, str], int] = {}
        self.times: dict[tuple[str, str], Histogram] = {}
        self.tokens: dict[tuple[str, str], int] = {}
        self.tenants = Tenants()
        self.caches = dict.fromkeys(TIERS, (0, 0))

    def know(self, model: str) -> None:
        """A tokenizer is there: its series begin at 0."""
        for source in SOURCES:
            if (model, source) not in self.requests:
                self.requests[(model, source)] = 0
                self.times[(model, source)] = Histogram(TOKENIZE_BOUNDS_S)

    def counted(self, model: str, tenant: str, source: str, tokens: int, seconds: float) -> None:
        """A request was answered: where its tokens came from, how many, and how long it took (seconds)."""
        key = (model, source)
        if key not in self.requests:
            self.know(model)
        self.requests[key] += 1
        self.times[key].observe(seconds * SECOND)
        counted = (model, self.tenants.label(tenant))
        self.tokens[counted] = self.tokens.get(counted, 0) + tokens
        recent = self._recent
        recent.roll()
        recent.counts[0] += 1
        recent.counts[1] += tokens
        if source == "cache":
            recent.counts[2] += 1

    def cache(self, size: int, entries: int, tier: str = "text") -> None:
        """How much a cache holds: bytes and entries."""
        self.caches[tier] = (size, entries)

    def forget(self, model: str) -> None:
        """A tokenizer was removed: its series end."""
        for table in (self.requests, self.times, self.tokens):
            for key in [key for key in table if key[0] == model]:
                del table[key]

    def live(self) -> dict[str, Any]:
        """The part of a live frame about tokens, over the last 60 s; `hit_rate` is null without a request."""
        requests, tokens, hits = self._recent.window()[:3]
        return {
            "requests_s": round(requests / WINDOW_S, 3),
            "tokens_s": round(tokens / WINDOW_S, 1),
            "hit_rate": round(hits / requests, 4) if requests else None,
            "window_s": WINDOW_S,
        }


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
