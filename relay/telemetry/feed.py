"""The live feed: every frame is encoded once, and every subscriber gets every frame in order, or is let go."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

import msgspec

from relay.telemetry.health import HEALTHS
from relay.telemetry.history import STEP_S, STEPS, Value
from relay.telemetry.meters import FIELDS, Meters
from relay.telemetry.token_meter import LEVELS, MODEL_FIELDS

MAX_LAG = 30  # frames: half a minute; who lags more reconnects and starts from a new hello

_encode = msgspec.json.Encoder().encode


class Subscription:
    """One subscriber's queue. It gets what is published from its making on; iteration ends when it was let go."""

    __slots__ = ("_feed", "_frames", "_wake", "dropped")

    def __init__(self, feed: Feed) -> None:
        self._feed = feed
        self._frames: deque[bytes] = deque()
        self._wake = asyncio.Event()
        self.dropped = False

    def __aiter__(self) -> Subscription:
        return self

    async def __anext__(self) -> bytes:
        while not self._frames:
            if self.dropped:
                raise StopAsyncIteration
            self._wake.clear()
            await self._wake.wait()
        return self._frames.popleft()

    def push(self, frame: bytes) -> bool:
        """Hands it a frame; False when it lags too far and is let go."""
        if len(self._frames) >= MAX_LAG:
            self._frames.clear()
            self.dropped = True
        else:
            self._frames.append(frame)
        self._wake.set()
        return not self.dropped

    def close(self) -> None:
        """No more frames; iteration ends after what is queued."""
        self.dropped = True
        self._wake.set()
        self._feed.leave(self)


class Feed:
    """Publishes on the event loop of the process that serves."""

    def __init__(self, meters: Meters) -> None:
        self._meters = meters
        self._subscribers: set[Subscription] = set()
        self._hello: bytes | None = None
        self.seq = 0

    def subscribe(self) -> Subscription:
        """An async iterator of frames, from now on. Take `hello` in the same turn of the loop, so that none is missed."""
        subscription = Subscription(self)
        self._subscribers.add(subscription)
        return subscription

    def leave(self, subscription: Subscription) -> None:
        """Ends a subscription."""
        self._subscribers.discard(subscription)

    def hello(self) -> bytes:
        """The first frame for a new subscriber: the fields, and five minutes in steps of 5 s."""
        if self._hello is None:
            self._hello = _encode(
                {
                    "type": "hello",
                    "seq": self.seq,
                    "fields": FIELDS,
                    "healths": HEALTHS,
                    "model_fields": MODEL_FIELDS,
                    "levels": LEVELS,
                    "interval_s": 1,
                    "history": self._history(),
                }
            )
        return self._hello

    def _history(self) -> dict[str, Any]:
        """Columns of 60 steps that end with the newest; null where a step has no sample."""
        steps = {name: self._meters.pool(name).past.steps for name in self._meters.names()}
        newest = max((column[-1][0] for column in steps.values() if column), default=0)
        start = newest - (STEPS - 1) * STEP_S
        pools = {}
        for name, column in steps.items():
            qps: list[Value] = [None] * STEPS
            wait: list[Value] = [None] * STEPS
            for at, rate, average in column:
                if at >= start:
                    qps[(at - start) // STEP_S], wait[(at - start) // STEP_S] = rate, average
            pools[name] = (qps, wait)
        return {"step_s": STEP_S, "start": start, "fields": ("qps", "average_wait_s"), "pools": pools}

    def sample(
        self,
        at: int,
        pools: Mapping[str, Sequence[Value]],
        tokens: Mapping[str, Any],
        waiting: Mapping[str, Any] | None = None,
    ) -> None:
        """Publishes the sample of the second that ended at `at` (Unix seconds).

        `waiting` says of the pools where somebody waits how many by priority class, and who holds most.
        """
        self.seq += 1
        self._hello = None
        frame = {
            "type": "sample",
            "seq": self.seq,
            "at": datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
            "interval_s": 1,
            "pools": pools,
            "tokens": tokens,
            "waiting": waiting or {},
        }
        self._publish(_encode(frame))

    def change(self, change: Mapping[str, Any]) -> None:
        """Publishes a change of configuration at once."""
        self._publish(_encode({**change, "type": "change"}))

    def close(self) -> None:
        """Lets every subscriber go: the process shuts down."""
        for subscription in list(self._subscribers):
            subscription.close()

    def _publish(self, frame: bytes) -> None:
        for subscription in list(self._subscribers):
            if not subscription.push(frame):
                self._subscribers.discard(subscription)
