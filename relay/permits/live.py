"""What the control plane shows of the running engine: live numbers, leases, waiters. One hop to the loop a request."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any, TypeVar, overload

from relay.http import Problem
from relay.permits.engine.base import SECOND, Refused, WaiterView
from relay.permits.engine.views import timestamp
from relay.permits.models import Pool
from relay.permits.problems import problem_of
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


@overload
def on_loop(ask: Callable[[Runtime], Coroutine[Any, Any, T]]) -> T: ...


@overload
def on_loop(ask: Callable[[Runtime], T]) -> T: ...


def on_loop(ask: Callable[[Runtime], Any]) -> Any:
    """Calls `ask` on the event loop, awaits what it returns if it can be awaited. An engine's refusal becomes a Problem."""
    found = server()
    try:
        return found.call(ask, found)
    except Refused as refused:
        raise problem_of(refused) from None


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
