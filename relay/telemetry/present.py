"""A pool's live numbers as the API, the pages and the metrics all show them: each has one definition, here."""

from __future__ import annotations

from typing import Any

from relay.telemetry.gauges import PoolGauges
from relay.telemetry.health import health_of
from relay.telemetry.histogram import SECOND
from relay.telemetry.recent import WINDOW_S
from relay.telemetry.window import Window


def describe(gauges: PoolGauges, window: Window) -> dict[str, Any]:
    """The live part of a pool's answer. Durations in seconds."""
    return {
        "in_use": gauges.in_use,
        "available": gauges.available,
        "over_limit": gauges.over_limit,
        "waiting": gauges.waiting,
        "oldest_wait_s": round(gauges.oldest_wait_us / SECOND, 6),
        "state": gauges.state,
        "health": health_of(gauges, window),
        "qps": window.qps,
        "average_wait_s": window.average_wait_s,
        "window_s": WINDOW_S,
        "rates": {
            rate.kind: {"per_minute": rate.per_minute, "burst": rate.burst, "available": round(rate.available, 3)}
            for rate in gauges.rates
        },
    }
