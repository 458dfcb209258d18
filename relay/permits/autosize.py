"""Drives the sizers of the running server: looks once a second, hears of releases, sets sizes, writes the decisions down.

A decision takes effect in the engine at once; its row follows in order, in a thread. Everything else on the event loop.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import deque
from collections.abc import Awaitable, Callable, Mapping

import msgspec
from msgspec import Struct

from relay.permits.engine.base import Engine, PoolConfig, PoolGauges
from relay.permits.sizing.base import Completion, Decision, Outcome, Sample
from relay.permits.sizing.sizer import Sizer, Sizing
from relay.telemetry.meters import Meters

log = logging.getLogger("relay.sizing")

RECENT = 50  # decisions kept a pool for lists
UNWRITTEN_LIMIT = 10_000

Clock = Callable[[], int]
Write = Callable[[str, Decision], Awaitable[bool]]


class Recent(Struct, frozen=True):
    """A decision as lists show it. `at` is Unix seconds."""

    at: float
    before: int
    after: int
    reason: str
    applied: bool


class Autosizer:
    """The pools that size themselves. `write` keeps a decision; False: a person was first, so the row counts."""

    def __init__(self, engine: Engine, meters: Meters, clock: Clock, write: Write) -> None:
        self._engine = engine
        self._meters = meters
        self._clock = clock
        self._write = write
        self._sizers: dict[str, Sizer] = {}
        self._recent: dict[str, deque[Recent]] = {}
        self._unwritten: deque[tuple[str, Decision]] = deque()
        self._writer: asyncio.Task[None] | None = None

    def configure(self, sizings: Mapping[str, Sizing | None]) -> None:
        """Takes over how pools are sized; None: by hand, or gone."""
        for name, sizing in sizings.items():
            present = self._sizers.get(name)
            if sizing is None:
                self._sizers.pop(name, None)
            elif present is None or present.settings != sizing:
                self._sizers[name] = Sizer(sizing)

    def kept_sizes(self, pools: Mapping[str, PoolConfig | None]) -> dict[str, PoolConfig | None]:
        """Configuration as it should reach the engine: a size whose row is still to be written is not set back."""
        found = dict(pools)
        for name in {name for name, _ in self._unwritten}:
            config, present = pools.get(name), self._engine.pool(name)
            sizer = self._sizers.get(name)
            if config is not None and present is not None and sizer is not None and sizer.settings.pin is None:
                found[name] = msgspec.structs.replace(config, capacity=present.capacity)
        return found

    async def tick(self) -> None:
        """Once a second."""
        now_us, at = self._clock(), time.time()
        for name, sizer in list(self._sizers.items()):
            gauges = self._engine.pool_gauges(name)
            if gauges is not None and gauges.state == "active":
                self._apply(name, sizer.look(_sample(now_us, at, gauges)))

    def completed(self, pool: str, outcome: Outcome, held_us: int) -> None:
        """A caller released and said how its work went."""
        if outcome != "ok":
            self._meters.pool(pool).reports.add(int(time.time()) + 1, outcome, held_us)
        sizer = self._sizers.get(pool)
        if sizer is None:
            return
        config = self._engine.pool(pool)
        if config is not None:
            self._apply(pool, sizer.completed(Completion(self._clock(), outcome, held_us, config.capacity)))

    def recent(self, pool: str) -> list[Recent]:
        """The newest decisions of this process, the newest first."""
        return list(reversed(self._recent.get(pool, ())))

    async def stop(self) -> None:
        """Waits until the decisions are written."""
        if self._writer is not None:
            await asyncio.gather(self._writer, return_exceptions=True)

    def _apply(self, pool: str, decision: Decision | None) -> None:
        if decision is None:
            return
        kept = self._recent.setdefault(pool, deque(maxlen=RECENT))
        kept.append(Recent(time.time(), decision.before, decision.after, decision.reason, decision.applied))
        if not decision.applied:
            return
        config = self._engine.pool(pool)
        if config is None or len(self._unwritten) >= UNWRITTEN_LIMIT:
            return
        self._meters.pool(pool).resized(decision.after > decision.before)
        self._engine.configure({pool: msgspec.structs.replace(config, capacity=decision.after)}, None, None)
        self._unwritten.append((pool, decision))
        if self._writer is None or self._writer.done():
            self._writer = asyncio.get_running_loop().create_task(self._write_down())

    async def _write_down(self) -> None:
        while self._unwritten:
            pool, decision = self._unwritten[0]
            try:
                if not await self._write(pool, decision):
                    log.info("pool %s: a person was first, so this is dropped: %s", pool, decision.reason)
            except Exception:
                log.exception("pool %s: the decision could not be written: %s", pool, decision.reason)
            self._unwritten.popleft()


def _sample(now_us: int, at: float, gauges: PoolGauges) -> Sample:
    """A pool's sample. Who waits for a rate is not held back by the size: more permits would not help."""
    waiting, oldest_us = (0, 0) if gauges.rate_bound else (gauges.waiting, gauges.oldest_wait_us)
    return Sample(now_us, at, gauges.capacity, gauges.in_use, waiting, oldest_us)
