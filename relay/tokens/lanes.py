"""Threads for tokenizing, so that no kind of work waits for a larger kind.

Measured with GPT-2 on two cores: a hop to a thread and back costs 60 to 70 µs of CPU, encoding 0.14 µs a character. So
up to INLINE_BYTES of text are encoded on the event loop itself, where the hop would cost as much as the work.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

from relay.http import Problem
from relay.tokens.tokenizer import TokenizerFault

T = TypeVar("T")

INLINE_BYTES = 512
LARGE_BYTES = 256 * 1024
CHUNK_BYTES = 64 * 1024
CHUNK_TEXTS = 256


class Lanes:
    """Three thread pools: ordinary requests; the runs of large ones; and single pieces that are large and can't be cut.

    The last is one thread wide: encoding takes 130 to 250 bytes of memory a character.
    """

    def __init__(self) -> None:
        cores = os.cpu_count() or 1
        self._small = ThreadPoolExecutor(max(2, min(4, cores)), thread_name_prefix="tokens")
        self._bulk = ThreadPoolExecutor(max(1, min(4, cores - 1)), thread_name_prefix="tokens-bulk")
        self._whole = ThreadPoolExecutor(1, thread_name_prefix="tokens-whole")

    def submit(self, work: Callable[[], T], size: int, request: int) -> Future[T]:
        """Starts `work` on `size` bytes, part of a request of `request` bytes. Raises 503 `shutting-down`."""
        lane = self._whole if size >= LARGE_BYTES else self._bulk if request >= LARGE_BYTES else self._small
        try:
            return lane.submit(work)
        except RuntimeError:
            raise shutting_down() from None

    async def run(self, size: int, work: Callable[[], T], *, inline: int = INLINE_BYTES) -> T:
        """Runs work on about `size` bytes, up to `inline` of them here, else in a thread; cancelled, it is not begun.

        It must not be one long call that holds the GIL. Raises 503 `tokenizer-unavailable`, `shutting-down`.
        """
        try:
            if size <= inline:
                return work()
            # large as it is, it is Python: it belongs to the runs, not to the single pieces
            started = self.submit(work, min(size, CHUNK_BYTES), size)
            return await asyncio.wrap_future(started)
        except TokenizerFault as fault:
            raise faulty(fault) from fault

    def close(self) -> None:
        """Takes no more work; what runs ends by itself."""
        for lane in (self._small, self._bulk, self._whole):
            lane.shutdown(wait=False, cancel_futures=True)


def chunks(sizes: list[int]) -> list[range]:
    """Cuts a batch into runs that are short enough to share the lanes; a large text is a run of its own."""
    runs: list[range] = []
    start = total = 0
    for index, size in enumerate(sizes):
        full = index > start and (total + size > CHUNK_BYTES or index - start >= CHUNK_TEXTS)
        if full:
            runs.append(range(start, index))
            start, total = index, 0
        total += size
    if start < len(sizes):
        runs.append(range(start, len(sizes)))
    return runs


def faulty(fault: TokenizerFault) -> Problem:
    """503: the tokenizer itself failed on a text."""
    return Problem(503, "tokenizer-unavailable", f"The tokenizer failed on this input: {fault}")


def shutting_down() -> Problem:
    """503: the process ends."""
    return Problem(503, "shutting-down", "The relay is shutting down.", retry_after_s=5.0)
