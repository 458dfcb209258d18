"""The one ticker: a sample a second, on the second, into the rings and into the feed."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable

from relay.telemetry.feed import Feed
from relay.telemetry.gauges import Gauged
from relay.telemetry.meters import Meters

log = logging.getLogger("relay.telemetry")


class Ticker:
    """Samples all pools at every whole second of the wall clock. Seconds that a stall swallowed are a gap."""

    def __init__(self, engine: Gauged, meters: Meters, feed: Feed, wall_clock: Callable[[], float] = time.time) -> None:
        self._engine = engine
        self._meters = meters
        self._feed = feed
        self._wall_clock = wall_clock
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begins to tick on the running event loop."""
        self._task = asyncio.ensure_future(self._run())

    async def stop(self) -> None:
        """Ends the ticker and lets the feed's subscribers go."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
            self._task = None
        self._feed.close()

    async def _run(self) -> None:
        at = 0
        while True:
            now = self._wall_clock()
            target = int(now) + 1
            if target == at:  # the loop's timers are exact to a millisecond: this second was sampled a little early
                target += 1
            await asyncio.sleep(target - now)
            at = max(target, int(self._wall_clock()))
            try:
                self.sample(at)
            except Exception:
                log.exception("The sample of this second failed; the history has a gap there.")

    def sample(self, at: int) -> None:
        """Takes and publishes one sample for the second that ends at `at` (Unix seconds)."""
        pools, waiting = {}, {}
        for gauges in self._engine.gauges():
            pools[gauges.name] = self._meters.pool(gauges.name).sample(at, gauges)
            if gauges.waiting:
                waiting[gauges.name] = {"by": gauges.waiting_by_priority, "most": gauges.most}
        for name in self._meters.names():
            if name not in pools:
                self._meters.drop(name)
        self._feed.sample(at, pools, self._meters.tokens.live(), waiting)
