"""Starts and stops everything that serves, once per process: engine, key ring, tokenizers, ticker.

Everything lives on one event loop; threads (the control plane, pages) come in through `call`.
"""

from __future__ import annotations

import asyncio
import gc
import logging
import sys
import threading
from collections.abc import Awaitable, Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from django.conf import settings
from django.db import close_old_connections, connections
from django.utils import timezone

from relay.permits import sync
from relay.permits.api import PermitsApi
from relay.permits.autosize import Autosizer
from relay.permits.engine.clock import EngineClock
from relay.permits.engine.journal import Journal
from relay.permits.engine.memory import MemoryEngine
from relay.permits.lease_api import LeaseApi
from relay.permits.several_api import SeveralApi
from relay.permits.sizing.base import Decision
from relay.permits.sizing.config import write_decision
from relay.telemetry.feed import Feed
from relay.telemetry.meters import Meters
from relay.telemetry.ticker import Ticker
from relay.tenants import running
from relay.tenants.keyring import KeyRing
from relay.tenants.keys import write_last_used
from relay.tokens.api import TokensApi
from relay.tokens.prices import price_of
from relay.tokens.registry import ModelSpec, spec_of
from relay.tokens.service import TokenService
from relay.tokens.usage import FLUSH_S, UsageLog

log = logging.getLogger("relay.runtime")

WATCH_S = 0.5  # how often other processes' changes are looked for
LAST_USED_S = 60

# A request leaves no cyclic garbage, so the collector has little to find, but with many waiters alive much to look at:
# young generations small enough for short pauses, the oldest looked at when few wait (docs/architecture.md, "Garbage").
GC_THRESHOLDS = (5_000, 10, 1_000)
GC_QUIET_S = 60
GC_QUIET_ALIVE = 2_000  # leases and waiters

# How long a thread that computes may keep the interpreter from the event loop (Python's own 5 ms are three short counts' p99).
SWITCH_S = 0.0005

_current: Runtime | None = None


def current() -> Runtime:
    """The runtime of this process. Raises RuntimeError if it does not serve."""
    if _current is None:
        raise RuntimeError("This process does not serve.")
    return _current


def begin_shutdown() -> None:
    """On the event loop: no new work, every waiter is answered 503 `shutting-down`."""
    if _current is not None:
        _current.begin_shutdown()


class Runtime:
    """What runs. Made and started on the event loop."""

    def __init__(self) -> None:
        clock = EngineClock()
        self.meters = Meters(clock)
        self.feed = Feed(self.meters)
        self.keyring = KeyRing()
        journal = Journal(settings.RELAY_DATA_DIR / "engine")
        self.engine = MemoryEngine(journal, settings.RELAY_JOURNAL_SYNC, clock, self.meters)
        self.tokens = TokenService(
            settings.RELAY_DATA_DIR,
            settings.RELAY_TOKEN_CACHE_MB * 1024 * 1024,
            self.meters.tokens,
            settings.RELAY_REDIS_URL,
        )
        self._models: dict[str, ModelSpec] = {}
        self._usage = UsageLog(self.meters.tokens, self._input_price)
        self.autosizer = Autosizer(self.engine, self.meters, clock, self._write_decision)
        self.permits_api = PermitsApi(self.engine, self.keyring, self.autosizer.completed, self.tokens.count)
        self.permits_api.acts = LeaseApi(self.engine, self.keyring).acts
        self.several_api = SeveralApi(self.engine, self.keyring, self.permits_api)
        self.tokens_api = TokensApi(self.tokens, self.keyring, self.meters.tokens)
        self._ticker = Ticker(self.engine, self.meters, self.feed)
        self._version = 0
        self._catching_up = threading.Lock()
        self._database = ThreadPoolExecutor(1, thread_name_prefix="relay-configuration")
        self._tasks: list[asyncio.Task[None]] = []

    async def start(self) -> None:
        """Loads the configuration, takes the leases back, loads the tokenizers, begins to tick.

        Raises JournalRefused or OSError if the journal cannot be used.
        """
        global _current
        self._loop = asyncio.get_running_loop()
        delta = await self._in_database(sync.changes_since, None)
        self.keyring.load(delta.keys or [])
        self._tell_priorities(delta.ranks or {})
        models = self._known([spec_of(row) for row in delta.models or []])
        pools = {name: config for name, config in delta.pools.items() if config is not None}
        await asyncio.gather(
            self.tokens.start(models), self.engine.start(pools, delta.ranks or {}, delta.weights or {})
        )
        self._version = delta.version
        self._ticker.start()
        self.autosizer.configure(delta.sizings)
        self._repeat(1.0, self.engine.tick)
        self._repeat(1.0, self.autosizer.tick)
        self._repeat(WATCH_S, self._look_for_changes)
        self._repeat(LAST_USED_S, self._store_last_used)
        self._repeat(FLUSH_S, self._store_usage)
        self._repeat(GC_QUIET_S, self._collect_garbage)
        gc.collect()
        gc.freeze()
        gc.set_threshold(*GC_THRESHOLDS)
        sys.setswitchinterval(SWITCH_S)
        _current = self
        running.serve(self)

    async def stop(self) -> None:
        """Ends everything in order."""
        global _current
        _current = None
        running.serve(None)
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self.autosizer.stop()
        await self._ticker.stop()
        await self.tokens.stop()
        await self.engine.stop()
        await self._store_last_used()
        await self._store_usage()
        await self._in_database(connections.close_all)
        self._database.shutdown()

    def begin_shutdown(self) -> None:
        """See the function."""
        self.engine.shut_down()
        self.feed.close()

    def call(self, fn: Callable[..., Any], *args: Any, timeout_s: float = 10.0) -> Any:
        """From any other thread: runs `fn(*args)` on the event loop, awaits what it returns if it can be awaited.

        Raises what it raises, or TimeoutError.
        """

        async def run() -> Any:
            result = fn(*args)
            return await result if isinstance(result, Awaitable) else result

        return asyncio.run_coroutine_threadsafe(run(), self._loop).result(timeout_s)

    def ready(self) -> tuple[bool, dict[str, Any]]:
        """Whether permits can be served, and the body of `/readyz`."""
        checks = {"engine": "ok" if self.engine.up else "down", "tokenizers": "ok"}
        if any(model.state in ("loading", "failed") for model in self.tokens.models()):
            checks["tokenizers"] = "not all ready"
        if self.tokens.shared is not None:
            checks["shared_cache"] = "ok" if self.tokens.shared.usable else "down"
        status = "ok" if all(check == "ok" for check in checks.values()) else "degraded"
        return self.engine.up, {"status": status if self.engine.up else "unavailable", "checks": checks}

    def references(self, *, tenant: str | None = None, priority: str | None = None) -> int:
        """From any other thread: how many live leases and waiters name a tenant or a priority class."""
        return int(self.call(lambda: self.engine.references(tenant=tenant, priority=priority)))

    # Configuration

    def catch_up(self) -> None:
        """In a thread: reads what changed, and gives it to the engine, the key ring and the tokenizers."""
        with self._catching_up:
            delta = sync.changes_since(self._version)
            if delta.version > self._version:
                self.call(self._apply, delta)
                self._version = delta.version

    def _apply(self, delta: sync.Delta) -> None:
        if delta.keys is not None:
            self.keyring.load(delta.keys)
        if delta.models is not None:
            self.tokens.set_models(self._known([spec_of(row) for row in delta.models]))
        if delta.ranks is not None:
            self._tell_priorities(delta.ranks)
        self.autosizer.configure(delta.sizings)
        self.engine.configure(self.autosizer.kept_sizes(delta.pools), delta.ranks, delta.weights)
        for change in delta.changes:
            self.feed.change(change)

    def _tell_priorities(self, ranks: dict[str, int]) -> None:
        self.meters.priorities = tuple(sorted(ranks, key=lambda name: (ranks[name], name)))

    async def _look_for_changes(self) -> None:
        if await self._in_database(sync.newest_version) != self._version:
            await self._in_database(self.catch_up)

    async def _store_last_used(self) -> None:
        used = self.keyring.take_used()
        if used:
            await self._in_database(write_last_used, used)

    def _known(self, models: list[ModelSpec]) -> list[ModelSpec]:
        self._models = {model.name: model for model in models}
        return models

    def _input_price(self, model: str) -> float | None:
        """In any thread: US dollars a million tokens, now."""
        spec = self._models.get(model)
        price = None if spec is None else price_of(spec)
        return None if price is None else price.input_per_million

    async def _store_usage(self) -> None:
        now = timezone.now()
        self._usage.collect(now)
        await self._in_database(self._usage.store, now)

    async def _write_decision(self, pool: str, decision: Decision) -> bool:
        return bool(await self._in_database(write_decision, pool, decision))

    async def _collect_garbage(self) -> None:
        if self.engine.alive < GC_QUIET_ALIVE:
            gc.collect()

    async def _in_database(self, fn: Callable[..., Any], *args: Any) -> Any:
        def run() -> Any:
            close_old_connections()
            try:
                return fn(*args)
            finally:
                close_old_connections()

        return await self._loop.run_in_executor(self._database, run)

    def _repeat(self, seconds: float, what: Callable[[], Coroutine[Any, Any, None]]) -> None:
        async def run() -> None:
            while True:
                await asyncio.sleep(seconds)
                try:
                    await what()
                except Exception:
                    log.exception("%s failed; it is tried again.", what.__name__)

        self._tasks.append(self._loop.create_task(run()))
