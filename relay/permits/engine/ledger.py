"""The event loop's side of the journal: one write a turn, answers after it, syncs, snapshots, and what happens when
the disk refuses. It knows records and futures, not pools.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Any, Literal, NamedTuple

from relay.permits.engine.base import Lease, Refused
from relay.permits.engine.journal import ClockRecord, Journal, Record

log = logging.getLogger("relay.journal")

SEGMENT_BYTES = 64 * 1024 * 1024  # a larger one is followed by a snapshot


class _Answer(NamedTuple):
    """Somebody who waits for this turn's write. `lease`: the grant that must not be answered if it fails."""

    future: asyncio.Future[Any]
    result: Any
    lease: Lease | None


def unavailable() -> Refused:
    """503: permits cannot be given out durably now."""
    return Refused(
        "engine-unavailable", "The journal cannot be written, so no permit can be given out. See the log.", 1_000_000
    )


class Ledger:
    """Writes the journal of an engine. `up` is False while it can't be written: then no grant may be answered.

    `state` gives all records of the present state; `went_down` gets the grants that were not written, `undeliverable` each
    grant whose call was cancelled meanwhile.
    """

    def __init__(
        self,
        journal: Journal,
        sync: Literal["second", "always"],
        *,
        now: Callable[[], int],
        state: Callable[[], list[Record]],
        went_down: Callable[[list[Lease]], None],
        undeliverable: Callable[[Lease], None],
    ) -> None:
        self.up = False
        self._journal = journal
        self._sync = sync
        self._now = now
        self._state = state
        self._went_down = went_down
        self._undeliverable = undeliverable
        self._recording = False
        self._records: list[Record] = []
        self._answers: list[_Answer] = []
        self._unsynced: list[_Answer] = []
        self._dirty = False
        self._scheduled = False
        self._disk = asyncio.Lock()  # syncs, new segments and snapshots one after the other
        self._syncing: asyncio.Task[None] | None = None
        self._loop = asyncio.get_running_loop()

    async def start(self) -> None:
        """Begins a segment with a snapshot of the present state. Raises OSError."""
        await self._begin()
        self.up = True

    def write(self, record: Record) -> None:
        """Adds a record to this turn's frame."""
        if self._recording:
            self._records.append(record)
            self._schedule()

    def answer(self, future: asyncio.Future[Any], result: Any, lease: Lease | None = None) -> None:
        """Resolves a future once this turn's records are written."""
        self._answers.append(_Answer(future, result, lease))
        self._schedule()

    def _schedule(self) -> None:
        if not self._scheduled:
            self._scheduled = True
            self._loop.call_soon(self.flush)

    def flush(self) -> None:
        """Writes this turn's frame and lets its answers go."""
        self._scheduled = False
        answers, self._answers = self._answers, []
        if self._records:
            records, self._records = self._records, []
            try:
                self._journal.write(records)
            except OSError as error:
                self._go_down(error, answers)
                return
            self._dirty = True
            if self._sync == "always":
                self._unsynced += answers
                if self._syncing is None:
                    self._syncing = self._loop.create_task(self._sync_until_done())
                return
        self._resolve(answers)

    async def _sync_until_done(self) -> None:
        while self._unsynced:
            answers, self._unsynced = self._unsynced, []
            async with self._disk:
                try:
                    await asyncio.to_thread(self._journal.sync)
                except OSError as error:
                    self._go_down(error, answers)
                    break
            self._resolve(answers)
        self._syncing = None

    async def tick(self) -> None:
        """Once a second: makes the last second safe, keeps the segments short, tries again after a fault."""
        if not self.up:
            await self._try_again()
            return
        if not self._dirty:
            return
        self._dirty = False
        self.write(ClockRecord(self._now()))
        self.flush()
        self._dirty = False
        try:
            if self._journal.size > SEGMENT_BYTES:
                await self._begin()
            elif self._sync == "second":
                async with self._disk:
                    await asyncio.to_thread(self._journal.sync)
        except OSError as error:
            self._go_down(error, [])

    async def _begin(self) -> None:
        """Begins the next segment and writes the snapshot that it stands on."""
        async with self._disk:
            self.flush()
            self._journal.start_segment()
            self._recording = True
            await asyncio.to_thread(self._journal.write_snapshot, self._state())

    async def _try_again(self) -> None:
        try:
            await self._begin()
        except OSError as error:
            self._recording = False
            log.warning("The journal still cannot be written: %s", error)
            return
        if self._recording:
            self.up = True
            log.warning("The journal is written again.")

    def _go_down(self, error: OSError, answers: list[_Answer]) -> None:
        log.error("The journal cannot be written (%s): no permit is given out until it can.", error)
        answers = answers + self._unsynced + self._answers
        self._unsynced, self._answers, self._records = [], [], []
        self.up = self._recording = False
        self._went_down([answer.lease for answer in answers if answer.lease is not None])
        for answer in answers:
            if answer.lease is not None and not answer.future.done():
                answer.future.set_exception(unavailable())
        self._resolve([answer for answer in answers if answer.lease is None])

    def _resolve(self, answers: list[_Answer]) -> None:
        for future, result, lease in answers:
            if not future.done():
                future.set_result(result)
            elif lease is not None:
                self._undeliverable(lease)

    async def stop(self) -> None:
        """Writes the mark of a clean stop."""
        if self.up:
            self.write(ClockRecord(self._now(), clean=True))
            self.flush()
            async with self._disk:
                try:
                    await asyncio.to_thread(self._journal.sync)
                except OSError as error:
                    log.error("The journal's last write failed: %s", error)
        self._journal.close()
