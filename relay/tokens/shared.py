"""The cache that several processes share, in Redis or Valkey. Whatever happens to it, counting only gets slower.

Only segments of texts from about 1 KB on are kept there: a read costs more than counting a short text. A request reads
all that it lacks in one MGET, and waits for it READ_S at most. What was computed is written in the background. After some
failures in a row nobody asks any more until a probe, in the background as well, was answered.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Sequence
from hashlib import blake2b
from typing import Any, cast

from redis.asyncio import Redis
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import RedisError
from redis.maint_notifications import MaintNotificationsConfig

from relay.telemetry.token_meter import TokenMeter
from relay.tokens.codec import IDS_MOST, Damaged, pack_count, pack_ids, unpack_count, unpack_ids
from relay.tokens.tokenizer import Encoded, Tokenizer
from relay.tokens.values import ALLOW_SPECIAL, IDS

log = logging.getLogger("relay.tokens")

# Rises with the format of keys or values, so that versions that run side by side do not read each other's.
PREFIX = b"token-relay:tokens:1:"
PERSON = b"token-relay:v1"
KEY_BYTES = 20
KEPT_S = 7 * 24 * 3600

READ_S = 0.05
WRITE_S = 0.05
PROBE_S = 1.0
FAILURES = 3
READS_AT_ONCE = 32
RETRY_FIRST_S, RETRY_MOST_S = 0.5, 10.0
HEARTBEAT_S = 10.0
PIPELINE = 128
QUEUE_BYTES = 8 * 1024 * 1024

Fault = (RedisError, OSError, TimeoutError, ValueError)


class Shared:
    """The shared cache as one process sees it; `usable` is False while it fails. On the event loop only."""

    def __init__(self, url: str, meter: TokenMeter) -> None:
        self.usable = False
        self.damaged = 0
        self.dropped = 0
        self._meter = meter
        self._redis: Redis = Redis.from_url(
            url,
            protocol=2,
            max_connections=2 * READS_AT_ONCE,
            socket_connect_timeout=PROBE_S,
            socket_timeout=PROBE_S,
            retry=Retry(NoBackoff(), 0),
            driver_info=None,
            maint_notifications_config=MaintNotificationsConfig(enabled=False),
        )
        self._failures = 0
        self._reads = 0
        self._queue: deque[tuple[bytes, bytes]] = deque()
        self._queue_bytes = 0
        self._news = asyncio.Event()
        self._opened = asyncio.Event()
        self._idle = asyncio.Event()
        self._idle.set()
        self._tasks: list[asyncio.Task[None]] = []

    async def start(self) -> None:
        """Looks whether it answers, for PROBE_S at most, and goes on looking."""
        await self._probe()
        loop = asyncio.get_running_loop()
        self._tasks = [loop.create_task(self._watch()), loop.create_task(self._write_queue())]

    async def stop(self) -> None:
        """Ends its tasks and connections; what was not written is lost."""
        for task in self._tasks:
            while not task.done():  # a cancellation may get lost in the client
                task.cancel()
                await asyncio.wait({task}, timeout=0.1)
        await self._redis.aclose()

    def keys(self, tokenizer: Tokenizer, kind: int, parts: Sequence[str], continued: Sequence[bool]) -> list[bytes]:
        """The keys of segments: the same in every process that has the same tokenizer, and the same fast one or none."""
        allow = 2 if kind & ALLOW_SPECIAL else 0
        fast = "" if tokenizer.fast is None else f" {tokenizer.fast.name}"
        maker = f"{tokenizer.fingerprint}{fast}".encode()
        seeds = [blake2b(b"%s %d " % (maker, allow | later), digest_size=KEY_BYTES, person=PERSON) for later in (0, 1)]
        keys = []
        for part, later in zip(parts, continued, strict=True):
            hasher = seeds[later].copy()
            hasher.update(part.encode())
            keys.append(hasher.hexdigest().encode())
        return keys

    async def read(self, keys: Sequence[bytes], kind: int, tokenizer: Tokenizer) -> list[Any]:
        """What is known of each key, else None. Never fails."""
        if not self.usable or self._reads >= READS_AT_ONCE:
            return [None] * len(keys)
        self._reads += 1
        try:
            async with asyncio.timeout(READ_S):
                found = await self._redis.mget([_named(key, kind) for key in keys])
        except Fault as fault:
            self._failed(fault)
            return [None] * len(keys)
        finally:
            self._reads -= 1
        self._failures = 0
        return [
            self._value(key, data, kind, tokenizer)
            for key, data in zip(keys, cast("list[bytes | None]", found), strict=True)
        ]

    def _value(self, key: bytes, data: bytes | None, kind: int, tokenizer: Tokenizer) -> Any:
        if data is None:
            return None
        try:
            return unpack_ids(key, data, tokenizer.largest_id) if kind >= IDS else unpack_count(key, data)
        except Damaged:
            self.damaged += 1
            log.warning("the shared token cache holds a damaged value at %s; it is counted anew.", key.decode())
            return None

    def write(self, keys: Sequence[bytes], values: Sequence[Any]) -> None:
        """Keeps counts, or ids and their counts, soon; not at all while it fails or too much is waiting already."""
        for key, value in zip(keys, values, strict=True):
            if isinstance(value, Encoded):
                if len(value.ids) <= IDS_MOST:
                    self._enqueue(_named(key, IDS), pack_ids(key, value.ids))
                value = len(value.ids)
            self._enqueue(_named(key, 0), pack_count(key, value))

    def _enqueue(self, key: bytes, data: bytes) -> None:
        size = len(key) + len(data)
        if not self.usable or self._queue_bytes + size > QUEUE_BYTES:
            self.dropped += 1
            return
        self._queue.append((key, data))
        self._queue_bytes += size
        self._idle.clear()
        self._news.set()

    async def flush(self) -> None:
        """Waits until what was to be written is written, or dropped."""
        await self._idle.wait()

    async def _write_queue(self) -> None:
        while True:
            await self._news.wait()
            self._news.clear()
            while self._queue:
                batch = [self._queue.popleft() for _ in range(min(PIPELINE, len(self._queue)))]
                self._queue_bytes -= sum(len(key) + len(data) for key, data in batch)
                await self._write(batch)
            self._idle.set()

    async def _write(self, batch: list[tuple[bytes, bytes]]) -> None:
        if not self.usable:
            self.dropped += len(batch)
            return
        try:
            async with asyncio.timeout(WRITE_S), self._redis.pipeline(transaction=False) as pipeline:
                for key, data in batch:
                    pipeline.set(key, data, ex=KEPT_S)
                await pipeline.execute()
            self._failures = 0
        except Fault as fault:
            self.dropped += len(batch)
            self._failed(fault)

    def _failed(self, fault: BaseException) -> None:
        self._failures += 1
        if self.usable and self._failures >= FAILURES:
            self.usable = False
            self._opened.set()
            log.warning("the shared token cache fails (%s); texts are counted without it.", _why(fault))

    async def _watch(self) -> None:
        """Probes: now and then while it works, with growing pauses while it does not."""
        delay = RETRY_FIRST_S
        while True:
            if self.usable:
                delay = RETRY_FIRST_S
                try:
                    async with asyncio.timeout(HEARTBEAT_S):
                        await self._opened.wait()
                except TimeoutError:
                    await self._probe()
                    continue
            self._opened.clear()
            await asyncio.sleep(delay)
            delay = min(2 * delay, RETRY_MOST_S)
            await self._probe()

    async def _probe(self) -> None:
        """Asks how much it holds: the figures are the whole database's, of all who write to it."""
        try:
            async with asyncio.timeout(PROBE_S):
                memory = await self._redis.info("memory")
                entries = await self._redis.dbsize()
            size = int(memory["used_memory"])
        except (*Fault, KeyError) as fault:
            if self.usable:
                self._failed(fault)
            return
        self._meter.cache(size, entries, "shared")
        self._failures = 0
        if not self.usable:
            self.usable = True
            log.info("the shared token cache answers.")


def _named(key: bytes, kind: int) -> bytes:
    return PREFIX + (b"ids:" if kind >= IDS else b"count:") + key


def _why(fault: BaseException) -> str:
    return str(fault)[:200] or type(fault).__name__
