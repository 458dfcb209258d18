"""`python -m bench.demo`: lively traffic from several tenants through the real HTTP API, until Ctrl-C.

RELAY_URL says where the relay is (http://127.0.0.1:8000), RELAY_API_KEY is a key with the scopes permits, tokens, operate
and admin; without it one is made by `manage.py create_api_key` in the same data folder, and removed at the end.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import os
import signal
import subprocess
import sys
import time
import uuid
from typing import Any

from bench.client import Api
from bench.procs import ROOT
from bench.rest import Rest, RestError, make_pool
from bench.traffic import PHASES, POOLS, TENANTS, Scene, callers

OWNER = "demo"
SCOPES = ("permits", "tokens", "operate", "admin")
GROWN = "openai"
DAMPED_END_S = 8.0


class DemoError(Exception):
    """Why the demo cannot start: one line that says what to do."""


class Keys:
    """The keys that this run makes; `remove` takes them away again."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.name = f"demo-{uuid.uuid4().hex[:8]}"
        self.own = os.environ.get("RELAY_API_KEY", "")
        self.given = bool(self.own)
        self.tenants: dict[str, str] = {}

    def make_own(self) -> None:
        """Takes the operator's key from the environment, or makes one with the command. Raises DemoError."""
        if self.own:
            return
        command = [sys.executable, "manage.py", "create_api_key", "--tenant", OWNER, "--name", self.name]
        done = subprocess.run(
            [*command, "--scopes", ",".join(SCOPES)], cwd=ROOT, capture_output=True, text=True, check=False
        )
        if done.returncode:
            why = (done.stderr.strip().splitlines() or ["no reason given"])[-1]
            raise DemoError(f"No key could be made ({why}). Set RELAY_API_KEY to a key with {', '.join(SCOPES)}.")
        self.own = done.stdout.strip()

    def make_tenants(self, rest: Rest) -> None:
        """The tenants with their weights, and a key for each."""
        for tenant, weight in TENANTS.items():
            with contextlib.suppress(RestError):
                rest.call("POST", "/api/v1/tenants", {"name": tenant, "weight": weight})
            body = {"name": self.name, "scopes": ["permits", "tokens"]}
            self.tenants[tenant] = str(rest.call("POST", f"/api/v1/tenants/{tenant}/keys", body)["key"])

    def remove(self) -> None:
        """Revokes what this run made, the operator's key last; does nothing if the relay is gone."""
        with contextlib.suppress(OSError, RestError), Rest(self.url, self.own, timeout_s=5) as rest:
            for tenant in (*self.tenants, *(() if self.given else (OWNER,))):
                for key in _mine(rest, tenant, self.name):
                    rest.call("DELETE", f"/api/v1/tenants/{tenant}/keys/{key}")


def _mine(rest: Rest, tenant: str, name: str) -> list[str]:
    items = rest.call("GET", f"/api/v1/tenants/{tenant}/keys?limit=500")["items"]
    return [str(item["id"]) for item in items if item["name"] == name]


def prepare(keys: Keys) -> None:
    """Makes the tenants, their keys, the pools and the shares. Raises DemoError with what to do."""
    try:
        with Rest(keys.url, keys.own) as rest:
            status, _ = rest.raw("GET", "/readyz")
            if status != 200:
                raise DemoError(f"The relay at {keys.url} is not ready (/readyz answered {status}). Look at its log.")
            keys.make_own()
        with Rest(keys.url, keys.own) as rest:
            _first_call(rest)
            keys.make_tenants(rest)
            for plan in POOLS:
                make_pool(rest, plan.name, plan.capacity, description=plan.description, reason="demo")
                for tenant, share in plan.shares.items():
                    rest.call("PUT", f"/api/v1/pools/{plan.name}/tenants/{tenant}", {**share, "reason": "demo"})
    except OSError as error:
        raise DemoError(
            f"No relay answers at {keys.url} ({error}). Start it with `make run`, or set RELAY_URL."
        ) from None
    except RestError as error:
        hint = " Set RELAY_API_KEY to a key of this relay." if error.status in {401, 403} else ""
        raise DemoError(f"The relay at {keys.url} refused: {error}.{hint}") from None


def _first_call(rest: Rest) -> None:
    """A key made by a command works within a second."""
    for attempt in range(30):
        try:
            rest.call("GET", "/api/v1/pools")
        except RestError as error:
            if error.status != 401 or attempt == 29:
                raise
            time.sleep(0.1)
        else:
            return


async def play(keys: Keys, seconds: float | None) -> None:
    """Runs all callers through the phases until the time is over or a signal comes; then everything held goes back."""
    loop, stop = asyncio.get_running_loop(), asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop.set)
    scene = Scene()
    apis = {tenant: Api(keys.url, key) for tenant, key in keys.tenants.items()}
    operator = Api(keys.url, keys.own)
    tasks = [asyncio.create_task(caller.run()) for caller in callers(scene, apis.__getitem__)]
    director = asyncio.create_task(direct(scene, operator))
    with contextlib.suppress(asyncio.TimeoutError):
        await asyncio.wait_for(_report(scene, stop, keys.url), seconds)
    print(f"Ending: {sum(scene.held.values())} permits go back.", flush=True)
    director.cancel()
    for task in tasks:
        task.cancel()
    await asyncio.wait([*tasks, director], timeout=DAMPED_END_S)
    for api in (*apis.values(), operator):
        api.close()
    _raise_bugs([*tasks, director])


def _raise_bugs(tasks: list[asyncio.Task[None]]) -> None:
    for task in tasks:
        if task.done() and not task.cancelled() and (error := task.exception()) is not None:
            raise error


async def direct(scene: Scene, operator: Api) -> None:
    """Goes through the phases; an operator lends one pool some permits for the surge."""
    capacity = next(plan.capacity for plan in POOLS if plan.name == GROWN)
    while True:
        for phase in PHASES:
            scene.phase = phase
            if phase.name == "surge":
                await asyncio.sleep(phase.seconds / 2)
                await _resize(operator, capacity + 12, "demo: more connections for the surge")
                await asyncio.sleep(phase.seconds / 2)
                await _resize(operator, capacity, "demo: the surge is over")
            else:
                await asyncio.sleep(phase.seconds)


async def _resize(operator: Api, capacity: int, reason: str) -> None:
    body: dict[str, Any] = {"capacity": capacity, "reason": reason}
    with contextlib.suppress(OSError):
        await operator.call("PATCH", f"/api/v1/pools/{GROWN}", body)


async def _report(scene: Scene, stop: asyncio.Event, url: str) -> None:
    """One line a second."""
    began = time.monotonic()
    while not stop.is_set():
        scene.begin_second()
        with contextlib.suppress(asyncio.TimeoutError):
            await asyncio.wait_for(stop.wait(), 1.0)
        print(f"{time.monotonic() - began:5.0f} s  {_line(scene, url)}", flush=True)


def _line(scene: Scene, url: str) -> str:
    if scene.lost and not scene.granted:
        return f"no answer from {url}; trying again"
    refused = ", ".join(f"{code} {count}" for code, count in scene.refused.most_common(3))
    return (
        f"{scene.phase.name:<10}  {scene.granted:4} granted/s  {sum(scene.held.values()):3} permits held  "
        f"{sum(scene.waiting.values()):3} acquiring  {scene.tokens:5} tokens counted/s"
        + (f"  refused: {refused}" if refused else "")
    )


def main() -> None:
    """Exit code 0 at the end, 2 and one line if it cannot start."""
    parser = argparse.ArgumentParser(prog="python -m bench.demo", description="Traffic for a running relay.")
    parser.add_argument("--seconds", type=float, default=None, help="end after so long (default: at Ctrl-C)")
    options = parser.parse_args()
    keys = Keys(os.environ.get("RELAY_URL", "").rstrip("/") or "http://127.0.0.1:8000")
    try:
        prepare(keys)
        print(f"{len(POOLS)} pools and {len(TENANTS)} tenants at {keys.url}. Ctrl-C ends it.", flush=True)
        asyncio.run(play(keys, options.seconds))
    except DemoError as error:
        print(f"demo: {error}", file=sys.stderr)
        sys.exit(2)
    except KeyboardInterrupt:
        sys.exit(130)
    finally:
        if keys.own:
            keys.remove()


if __name__ == "__main__":
    main()
