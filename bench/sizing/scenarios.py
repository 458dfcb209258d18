"""The backends that sizing is tried on."""

from __future__ import annotations

import math
from random import Random

from bench.sizing.world import Scenario, lognormal

CALLERS = 80


def _steps(second: float) -> float:
    return 10 if 240 <= second < 480 else 40


def _drift(second: float) -> float:
    return 25 + 15 * math.cos(second / 300 * math.pi)


def _bimodal(random: Random) -> float:
    return 0.2 if random.random() < 0.9 else 20.0


def _bursts(second: float) -> int:
    return CALLERS if int(second) % 120 < 60 else 8


def _day(second: float) -> int:
    """A day in ten minutes: few callers at night, more than the backend can serve at noon."""
    return 5 + round(70 * max(0.0, math.sin(second / 600 * math.pi)) ** 2)


STEPS = ((240, 10.0), (480, 40.0))

SCENARIOS = (
    Scenario("steps 40, 10, 40", 720, _steps, lognormal(0.5), lambda _: CALLERS, steps=STEPS),
    Scenario("steps, latency 0.2 s and 20 s", 900, _steps, _bimodal, lambda _: CALLERS, steps=STEPS),
    Scenario("slow drift", 600, _drift, lognormal(0.5), lambda _: CALLERS),
    Scenario("slows down, refuses nothing", 600, _drift, lognormal(0.5, 0.1), lambda _: CALLERS, rejects=False),
    Scenario("bursts of callers", 600, lambda _: 30, lognormal(0.5), _bursts),
    Scenario("a day's curve", 600, lambda _: 40, lognormal(0.5), _day),
)
