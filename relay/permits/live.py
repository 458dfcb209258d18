"""What the control plane shows of the running engine: live numbers, leases, waiters. Reads only; one hop to the loop a request."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

from relay.http import Problem
from relay.permits.engine.base import SECOND, WaiterView
from relay.permits.engine.views import timestamp
from relay.permits.models import Pool
from relay.permits.serializers import pool_answer
from relay.telemetry.present import describe
from relay.tenants import running

if TYPE_CHECKING:
    from relay.runtime import Runtime

T = TypeVar("T")


def server() -> Runtime:
    """The server that runs in this process. Raises 503 `engine-unavailable` where none does."""
    found = running.server()
    if found is None:
        raise Problem(503, "engine-unavailable", "No pools are served by this process.", retry_after_s=1.0)
    return found


def on_loop(read: Callable[[Runtime], T]) -> T:
    """Calls `read` on the event loop."""
    found = server()
    result: T = found.call(read, found)
    return result


def pool_answers(pools: list[Pool]) -> list[dict[str, Any]]:
    """Pools as answers show them, with their live numbers. Where no server runs (a command, a test) without these.

    A pool that was deleted since its row was read is left out.
    """
    found = running.server()
    if found is None:
        return [pool_answer(pool) for pool in pools]
    numbers = found.call(_live_numbers, found, [pool.name for pool in pools])
    return [pool_answer(pool) | numbers[pool.name] for pool in pools if pool.name in numbers]


def _live_numbers(runtime: Runtime, names: list[str]) -> dict[str, dict[str, Any]]:
    numbers = {}
    for name in names:
        gauges = runtime.engine.pool_gauges(name)
        if gauges is not None:
            numbers[name] = describe(gauges, runtime.meters.pool(name).window())
    return numbers


def waiter_answer(view: WaiterView) -> dict[str, Any]:
    """A waiter as lists show it; durations in seconds."""
    return {
        "waiter_id": view.waiter_id,
        "tenant": view.tenant,
        "priority": view.priority,
        "permits": view.permits,
        "holder": view.holder,
        "waited_s": view.waited_us / SECOND,
        "deadline": timestamp(view.deadline_us),
        "position": view.position,
        "connected": view.connected,
        "estimated_wait_s": None if view.estimated_wait_us is None else view.estimated_wait_us / SECOND,
    }
