"""The one module of thresholds, and the one word that they give for a pool."""

from __future__ import annotations

from typing import Literal

from relay.telemetry.gauges import PoolGauges
from relay.telemetry.histogram import SECOND
from relay.telemetry.window import Window

Health = Literal["paused", "draining", "shrinking", "starving", "queuing", "full", "flowing", "idle"]

# The order is the frames' index and the filter's order on the page; it is not the order of the rules.
HEALTHS: tuple[Health, ...] = (
    "starving",
    "queuing",
    "shrinking",
    "full",
    "flowing",
    "idle",
    "paused",
    "draining",
)
INDEX = {word: index for index, word in enumerate(HEALTHS)}

STARVING_OLDEST_WAIT_S = 15

ACT: frozenset[Health] = frozenset({"starving"})
WATCH: frozenset[Health] = frozenset({"queuing", "shrinking"})


def health_of(gauges: PoolGauges, window: Window) -> Health:
    """The health word: the first rule that holds."""
    if gauges.state != "active":
        return gauges.state
    if gauges.over_limit > 0:
        return "shrinking"
    if window.starved or gauges.oldest_wait_us > STARVING_OLDEST_WAIT_S * SECOND:
        return "starving"
    if gauges.waiting > 0:
        return "queuing"
    if gauges.available == 0:
        return "full"
    return "flowing" if gauges.in_use > 0 or window.active else "idle"
