"""What `/metrics` says: meters and gauges as metric families, one pool at a time, each pool as of one moment."""

from __future__ import annotations

import math
from collections.abc import Iterator

from relay import __version__
from relay.telemetry.exposition import Family, HistogramText, escape, labels, number
from relay.telemetry.gauges import Gauged, PoolGauges
from relay.telemetry.histogram import Histogram
from relay.telemetry.meters import TIMED_OUTCOMES, Meters, PoolMeter
from relay.telemetry.present import describe
from relay.telemetry.token_meter import CORE_HOUR_USD, LEVELS, ModelMeter, TokenMeter

STATES = ("active", "paused", "draining")

FAMILIES = (
    ("relay_acquire_requests_total", "counter", "Acquires answered, by outcome; repeats count nothing."),
    ("relay_acquire_wait_seconds", "histogram", "How long acquires waited, by how they ended."),
    ("relay_lease_held_seconds", "histogram", "How long leases were held."),
    ("relay_leases_ended_total", "counter", "Leases ended, by reason."),
    ("relay_pool_capacity", "gauge", "Permits of the pool."),
    ("relay_pool_permits_in_use", "gauge", "Permits held by live leases."),
    ("relay_pool_waiters", "gauge", "Connected waiters."),
    ("relay_pool_oldest_waiter_seconds", "gauge", "How long the oldest waiter has waited."),
    ("relay_pool_state", "gauge", "1 for the state that the pool is in."),
    ("relay_pool_qps", "gauge", "Acquire arrivals a second over the last 60 s."),
    ("relay_pool_average_wait_seconds", "gauge", "Mean wait of the grants of the last 60 s; NaN without grants."),
    ("relay_pool_drift", "gauge", "Permits in use less the sum over the leases; anything but 0 is a fault."),
    ("relay_pool_sizing_decisions_total", "counter", "Sizes set by a sizing policy, by direction."),
    ("relay_pool_rate_available", "gauge", "Requests or tokens that the pool's rate would let through at once."),
    ("relay_pool_rate_limited_total", "counter", "Acquires refused, or waited for in vain, because of a rate."),
    ("relay_tenant_permits_in_use", "gauge", "Permits held, by tenant."),
    ("relay_tokenize_requests_total", "counter", "Token requests, by where the answer came from."),
    ("relay_tokens_counted_total", "counter", "Tokens counted."),
    ("relay_tokenize_seconds", "histogram", "How long token requests took."),
    ("relay_token_cache_bytes", "gauge", "Bytes held by a token cache."),
    ("relay_token_cache_entries", "gauge", "Entries of a token cache."),
    (
        "relay_token_reused_characters_total",
        "counter",
        "Characters counted, by the level that knew them; computed: no level did.",
    ),
    (
        "relay_token_fast_differed_total",
        "counter",
        "Times that the optional fast tokenizer differed from the exact one; it is not used after that.",
    ),
    (
        "relay_token_time_saved_seconds_total",
        "counter",
        f"Estimate: reused tokens times a computed one's mean time; for money at {CORE_HOUR_USD} USD a core-hour.",
    ),
    ("relay_engine_up", "gauge", "1 while the engine serves permits."),
    ("relay_build_info", "gauge", "The version that runs, and its engine."),
)

Parts = dict[str, list[str]]
SLICE = 200  # lines: what a pool of many tenants has


class PoolText:
    """One pool's series: their labels are formatted once, as long as its meter is the same."""

    __slots__ = ("_held", "_meter", "_pool", "_requests", "_tenants", "_waits")

    def __init__(self, pool: str, meter: PoolMeter) -> None:
        self._meter = meter
        self._pool = f'pool="{escape(pool)}"'
        self._held = HistogramText("relay_lease_held_seconds", self._pool, meter.held)
        self._requests: dict[tuple[str, str, str], str] = {}
        self._tenants: dict[str, str] = {}
        self._waits: dict[tuple[str, str], HistogramText] = {}

    def of(self, meter: PoolMeter) -> bool:
        """Whether this is still that meter's text."""
        return self._meter is meter

    def write(self, parts: Parts, gauges: PoolGauges, priorities: tuple[str, ...]) -> None:
        """Adds the pool's lines as of now, in one step of the event loop."""
        self._write_requests(parts["relay_acquire_requests_total"])
        self._write_waits(parts["relay_acquire_wait_seconds"], priorities)
        parts["relay_lease_held_seconds"].append(self._held.text())
        for reason, count in self._meter.ended_by.items():
            parts["relay_leases_ended_total"].append(
                f'relay_leases_ended_total{{{self._pool},reason="{reason}"}} {count}\n'
            )
        for direction, count in self._meter.resizes.items():
            parts["relay_pool_sizing_decisions_total"].append(
                f'relay_pool_sizing_decisions_total{{{self._pool},direction="{direction}"}} {count}\n'
            )
        self._write_gauges(parts, gauges)
        self._write_tenants(parts["relay_tenant_permits_in_use"], gauges)

    def _write_requests(self, lines: list[str]) -> None:
        prefixes = self._requests
        for key, count in self._meter.requests.items():
            prefix = prefixes.get(key)
            if prefix is None:
                series = labels(tenant=key[0], priority=key[1], outcome=key[2])
                prefix = prefixes[key] = f"relay_acquire_requests_total{{{self._pool},{series}}} "
            lines.append(f"{prefix}{count}\n")

    def _write_waits(self, lines: list[str], priorities: tuple[str, ...]) -> None:
        for priority in priorities:
            for outcome in TIMED_OUTCOMES:
                self._meter.wait(priority, outcome)
        for key, histogram in self._meter.waits.items():
            text = self._waits.get(key)
            if text is None:
                series = f"{self._pool},{labels(priority=key[0], outcome=key[1])}"
                text = self._waits[key] = HistogramText("relay_acquire_wait_seconds", series, histogram)
            lines.append(text.text())

    def _write_gauges(self, parts: Parts, gauges: PoolGauges) -> None:
        shown = describe(gauges, self._meter.window())
        average = shown["average_wait_s"]
        values: tuple[tuple[str, float | int], ...] = (
            ("relay_pool_capacity", gauges.capacity),
            ("relay_pool_permits_in_use", shown["in_use"]),
            ("relay_pool_waiters", shown["waiting"]),
            ("relay_pool_oldest_waiter_seconds", shown["oldest_wait_s"]),
            ("relay_pool_qps", shown["qps"]),
            ("relay_pool_average_wait_seconds", math.nan if average is None else average),
            ("relay_pool_drift", gauges.drift),
        )
        for name, value in values:
            parts[name].append(f"{name}{{{self._pool}}} {number(value)}\n")
        for rate in gauges.rates:
            parts["relay_pool_rate_available"].append(
                f'relay_pool_rate_available{{{self._pool},kind="{rate.kind}"}} {number(rate.available)}\n'
            )
        parts["relay_pool_rate_limited_total"].append(
            f"relay_pool_rate_limited_total{{{self._pool}}} {self._meter.rate_limited}\n"
        )
        for state in STATES:
            parts["relay_pool_state"].append(
                f'relay_pool_state{{{self._pool},state="{state}"}} {int(state == gauges.state)}\n'
            )

    def _write_tenants(self, lines: list[str], gauges: PoolGauges) -> None:
        label = self._meter.tenants.label
        held: dict[str, int] = {}
        for tenant, permits in gauges.tenants_in_use.items():
            name = label(tenant)
            held[name] = held.get(name, 0) + permits
        for tenant in (*sorted(self._meter.tenants.labels), *(held.keys() - self._meter.tenants.labels)):
            prefix = self._tenants.get(tenant)
            if prefix is None:
                prefix = f"relay_tenant_permits_in_use{{{self._pool},{labels(tenant=tenant)}}} "
                self._tenants[tenant] = prefix
            lines.append(f"{prefix}{held.get(tenant, 0)}\n")


class Collector:
    """All series of this process. Used on the event loop."""

    def __init__(self, meters: Meters, engine: Gauged) -> None:
        self._meters = meters
        self._engine = engine
        self._pools: dict[str, PoolText] = {}
        self._times: dict[tuple[str, str], HistogramText] = {}

    def collect(self) -> Iterator[list[Family] | None]:
        """Yields None after each slice of work, about a pool's worth, and last the families."""
        families = [Family(name, kind, text) for name, kind, text in FAMILIES]
        parts = {family.name: family.parts for family in families}
        names, up = self._engine.names(), int(self._engine.up)
        for gone in self._pools.keys() - set(names):
            del self._pools[gone]
        yield None
        for name in names:
            self._write_pool(name, parts)
            yield None
        for _ in self._write_tokens(parts, self._meters.tokens):
            yield None
        kind = self._engine.kind
        parts["relay_engine_up"].append(f"relay_engine_up{{{labels(engine=kind)}}} {up}\n")
        parts["relay_build_info"].append(f"relay_build_info{{{labels(version=__version__, engine=kind)}}} 1\n")
        yield families

    def _write_pool(self, name: str, parts: Parts) -> None:
        gauges = self._engine.pool_gauges(name)
        if gauges is None:
            return  # deleted since the scrape began
        meter = self._meters.pool(name)
        text = self._pools.get(name)
        if text is None or not text.of(meter):
            text = self._pools[name] = PoolText(name, meter)
        text.write(parts, gauges, self._meters.priorities)

    def _write_tokens(self, parts: Parts, meter: TokenMeter) -> Iterator[None]:
        meter.settle()
        for model, counters in list(meter.models.items()):
            self._write_model(parts, model, counters)
            yield
        lines = parts["relay_tokens_counted_total"]
        for index, ((model, tenant), tokens) in enumerate(meter.tokens.items()):
            lines.append(f"relay_tokens_counted_total{{{labels(model=model, tenant=tenant)}}} {tokens}\n")
            if index % SLICE == SLICE - 1:
                yield
        for tier, (size, entries) in meter.caches.items():
            parts["relay_token_cache_bytes"].append(f'relay_token_cache_bytes{{tier="{tier}"}} {size}\n')
            parts["relay_token_cache_entries"].append(f'relay_token_cache_entries{{tier="{tier}"}} {entries}\n')

    def _write_model(self, parts: Parts, model: str, meter: ModelMeter) -> None:
        for source, histogram in meter.times.items():
            series = labels(model=model, source=source)
            parts["relay_tokenize_requests_total"].append(
                f"relay_tokenize_requests_total{{{series}}} {histogram.count}\n"
            )
            parts["relay_tokenize_seconds"].append(self._time(model, source, histogram))
        for level, characters in zip(LEVELS, meter.characters, strict=True):
            series = labels(model=model, level=level)
            parts["relay_token_reused_characters_total"].append(
                f"relay_token_reused_characters_total{{{series}}} {characters}\n"
            )
        parts["relay_token_fast_differed_total"].append(
            f"relay_token_fast_differed_total{{{labels(model=model)}}} {meter.differed}\n"
        )
        parts["relay_token_time_saved_seconds_total"].append(
            f"relay_token_time_saved_seconds_total{{{labels(model=model)}}} {number(meter.saved_s)}\n"
        )

    def _time(self, model: str, source: str, histogram: Histogram) -> str:
        text = self._times.get((model, source))
        if text is None or not text.of(histogram):
            series = labels(model=model, source=source)
            text = self._times[(model, source)] = HistogramText("relay_tokenize_seconds", series, histogram)
        return text.text()
