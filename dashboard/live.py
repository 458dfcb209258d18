"""The live numbers for a page's first paint, read from the running service in one step of its event loop."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from relay import runtime
from relay.permits import config
from relay.permits.engine.base import Refused
from relay.telemetry.gauges import Holder, PoolGauges
from relay.telemetry.health import ACT, WATCH, Health
from relay.telemetry.history import STEP_S, STEPS
from relay.telemetry.present import describe
from relay.tenants.changes import newest_changes

MAX_CLASSES = 5  # priority classes that get a column

# The order of need; `static/dashboard/list.js` has the same.
GROUP: dict[Health, int] = {
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
    """One pool as a row of the overview. Series are five minutes in steps of 5 s, None where there was no sample.

    `version` is that of the configuration on which a change is based. `waiting_by` goes with the snapshot's classes.
    `off` is who took it out of service: the change, None where unknown.
    """

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
    guaranteed: int
    waiting_by: list[int]
    most: Holder | None
    qps_steps: list[float | None]
    wait_steps: list[float | None]
    version: int = 0
    state: str = "active"
    off: Mapping[str, Any] | None = None

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
        return (GROUP[self.health], -self.oldest_wait_s * self.waiting, -self.qps, self.name)


@dataclass(frozen=True)
class Snapshot:
    """All pools, worst first, the most urgent priority classes, and the tokens' part of a live frame."""

    pools: list[PoolLine]
    tokens: dict[str, Any]
    engine: str
    classes: tuple[str, ...] = ()


def snapshot() -> Snapshot | None:
    """The service as it is now; None if this process does not serve, or its engine is down."""
    try:
        running = runtime.current()
        versions = config.versions()  # before the numbers: an old version is refused, a new one would overwrite
        found: Snapshot = running.call(_read, running)
    except (RuntimeError, Refused, TimeoutError):
        return None
    off = newest_changes("pool", [line.name for line in found.pools if line.tone == "is-off"], ("pause", "drain"))
    lines = [
        replace(line, version=versions.get(line.name, 0), off=off.get(line.name) if line.tone == "is-off" else None)
        for line in found.pools
    ]
    return replace(found, pools=lines)


def _read(running: runtime.Runtime) -> Snapshot:
    classes = running.meters.priorities[:MAX_CLASSES]
    lines = [_line(gauges, running, classes) for gauges in running.engine.gauges()]
    lines.sort(key=lambda line: line.trouble)
    return Snapshot(lines, running.meters.tokens.live(), running.engine.kind, classes)


def _line(gauges: PoolGauges, running: runtime.Runtime, classes: tuple[str, ...]) -> PoolLine:
    meter = running.meters.pool(gauges.name)
    window = meter.window()
    shown = describe(gauges, window)
    configured = running.engine.pool(gauges.name)
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
        guaranteed=sum(share.guarantee for share in configured.shares.values()) if configured else 0,
        waiting_by=[gauges.waiting_by_priority.get(name, 0) for name in classes],
        most=gauges.most,
        qps_steps=qps,
        wait_steps=wait,
        state=gauges.state,
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
