"""The live numbers for a page's first paint, read from the running service in one step of its event loop."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from relay import runtime
from relay.permits.engine.base import Refused
from relay.telemetry.gauges import PoolGauges
from relay.telemetry.health import ACT, WATCH, Health
from relay.telemetry.history import STEP_S, STEPS
from relay.telemetry.meters import Meters
from relay.telemetry.present import describe

_GROUP: dict[Health, int] = {
    "starving": 0,
    "queuing": 1,
    "shrinking": 1,
    "paused": 2,
    "full": 3,
    "flowing": 4,
    "draining": 5,
    "idle": 6,
}


@dataclass(frozen=True)
class PoolLine:
    """One pool as a row of the overview. Series are five minutes in steps of 5 s, None where there was no sample."""

    name: str
    capacity: int
    in_use: int
    over_limit: int
    waiting: int
    oldest_wait_s: float
    health: Health
    qps: float
    average_wait_s: float | None
    timeouts: int
    grants: int
    top_tenant: str
    top_permits: int
    qps_steps: list[float | None]
    wait_steps: list[float | None]

    @property
    def tone(self) -> str:
        """The row's class: a person must act, should watch, or the pool is off."""
        if self.health in ACT:
            return "is-act"
        if self.health in WATCH:
            return "is-watch"
        return "is-off" if self.health in ("paused", "draining") else ""

    @property
    def trouble(self) -> tuple[int, float, float, str]:
        """Worst first: who waits longest times how many."""
        return (_GROUP[self.health], -self.oldest_wait_s * self.waiting, -self.qps, self.name)


@dataclass(frozen=True)
class Snapshot:
    """All pools, worst first, and the tokens' part of a live frame."""

    pools: list[PoolLine]
    tokens: dict[str, Any]
    engine: str


def snapshot() -> Snapshot | None:
    """The service as it is now; None if this process does not serve, or its engine is down."""
    try:
        running = runtime.current()
        found: Snapshot = running.call(_read, running)
    except (RuntimeError, Refused, TimeoutError):
        return None
    return found


def _read(running: runtime.Runtime) -> Snapshot:
    lines = [_line(gauges, running.meters) for gauges in running.engine.gauges()]
    lines.sort(key=lambda line: line.trouble)
    return Snapshot(lines, running.meters.tokens.live(), running.engine.kind)


def _line(gauges: PoolGauges, meters: Meters) -> PoolLine:
    meter = meters.pool(gauges.name)
    window = meter.window()
    shown = describe(gauges, window)
    top = max(gauges.tenants_in_use.items(), key=lambda item: item[1], default=("", 0))
    qps, wait = columns(list(meter.past.steps))
    return PoolLine(
        name=gauges.name,
        capacity=gauges.capacity,
        in_use=shown["in_use"],
        over_limit=shown["over_limit"],
        waiting=shown["waiting"],
        oldest_wait_s=shown["oldest_wait_s"],
        health=shown["health"],
        qps=shown["qps"],
        average_wait_s=shown["average_wait_s"],
        timeouts=window.timeouts,
        grants=window.grants,
        top_tenant=top[0],
        top_permits=top[1],
        qps_steps=qps,
        wait_steps=wait,
    )


def columns(steps: list[tuple[int, float, float | None]]) -> tuple[list[float | None], list[float | None]]:
    """Steps as two columns of 60 that end with the newest one."""
    qps: list[float | None] = [None] * STEPS
    wait: list[float | None] = [None] * STEPS
    if steps:
        start = steps[-1][0] - (STEPS - 1) * STEP_S
        for at, rate, average in steps:
            if at >= start:
                qps[(at - start) // STEP_S], wait[(at - start) // STEP_S] = rate, average
    return qps, wait
