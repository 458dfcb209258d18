"""What the control plane shows of the running engine: live numbers, leases, waiters. One hop to the loop a request."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any, Protocol, TypeVar, cast, overload

from relay.http import Problem
from relay.permits.autosize import Autosizer
from relay.permits.engine.base import SECOND, Engine, Refused, WaiterView
from relay.permits.engine.views import timestamp
from relay.permits.models import Pool
from relay.permits.problems import problem_of
from relay.permits.serializers import pool_answer
from relay.telemetry.meters import Meters
from relay.telemetry.present import describe
from relay.tenants import running

T = TypeVar("T")


class Serving(Protocol):
    """A running server with its pools."""

    engine: Engine
    meters: Meters
    autosizer: Autosizer

    def call(self, fn: Callable[..., Any], *args: Any, timeout_s: float = 10.0) -> Any:
        """Runs `fn(*args)` on the event loop, awaits what it returns if it can be awaited."""


def server() -> Serving:
    """The server that runs in this process. Raises 503 `engine-unavailable` where none does."""
    found = running.server()
    if found is None:
        raise Problem(503, "engine-unavailable", "No pools are served by this process.", retry_after_s=1.0)
    return cast("Serving", found)


@overload
def on_loop(ask: Callable[[Serving], Coroutine[Any, Any, T]]) -> T: ...


@overload
def on_loop(ask: Callable[[Serving], T]) -> T: ...


def on_loop(ask: Callable[[Serving], Any]) -> Any:
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
    if running.server() is None:
        return [pool_answer(pool) for pool in pools]
    found = server()
    numbers = found.call(_live_numbers, found, [pool.name for pool in pools])
    return [pool_answer(pool) | numbers[pool.name] for pool in pools if pool.name in numbers]


def _live_numbers(runtime: Serving, names: list[str]) -> dict[str, dict[str, Any]]:
    numbers = {}
    for name in names:
        gauges = runtime.engine.pool_gauges(name)
        if gauges is not None:
            # the size in force: the row of an automatic decision may be a moment behind
            live = describe(gauges, runtime.meters.pool(name).window())
            numbers[name] = {"capacity": gauges.capacity} | live
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
        "tokens": view.tokens,
        "blocked_by": view.blocked_by,
        "ready_at": None if view.ready_us is None else timestamp(view.ready_us),
    }
