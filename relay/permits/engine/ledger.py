"""The event loop's side of the journal: one write a turn of the loop, answers after it, syncs, snapshots, and what
happens when the disk refuses. It knows records, leases and futures, not pools.

Writing at once, in each operation, was measured too: it saves two turns for a lone hand-over, but under load the
answers then leave one by one instead of in bursts, and each wakes its caller anew (docs/architecture.md, "The journal").
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Literal

from msgspec import Struct

from relay.permits.engine.base import Lease, Refused
from relay.permits.engine.journal import Clock, Journal, Record

log = logging.getLogger("relay.journal")

SEGMENT_BYTES = 64 * 1024 * 1024  # a larger one is followed by a snapshot


class Grant(Struct, frozen=True):
    """A lease that was granted, and the call that waits for it."""

    lease: Lease
    future: asyncio.Future[Lease]


def unavailable() -> Refused:
    """503: permits cannot be given out durably now."""
    return Refused(
        "engine-unavailable", "The journal cannot be written, so no permit can be given out. See the log.", 1_000_000
    )


class Ledger:
    """Writes the journal of an engine. `up` is False while it can't be written: then no grant may be answered.

    `state` gives all records of the present state. `went_down` gets the leases that were not written, before their calls
    fail; `undeliverable` each lease whose call was cancelled meanwhile.
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
        self.always = sync == "always"
        self._journal = journal
        self._now = now
        self._state = state
        self._went_down = went_down
        self._undeliverable = undeliverable
        self._recording = False
        self._records: list[Record] = []
        self._grants: list[Grant] = []
        self._others: list[asyncio.Future[None]] = []  # releases and renewals, which count even if the disk refuses
        self._scheduled = False
        self._dirty = False
        self._disk = asyncio.Lock()  # syncs, new segments and snapshots one after the other
        self._unsynced: tuple[list[Grant], list[asyncio.Future[None]]] = ([], [])
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
        if not self._scheduled:
            self._schedule()

    def grant(self, lease: Lease, future: asyncio.Future[Lease]) -> None:
        """Resolves a call's future with its lease once this turn's frame is written. Write its record first."""
        self._grants.append(Grant(lease, future))

    def written(self) -> asyncio.Future[None]:
        """Done when this turn's frame is written, or cannot be."""
        future: asyncio.Future[None] = self._loop.create_future()
        self._others.append(future)
        if not self._scheduled:
            self._schedule()
        return future

    def _schedule(self) -> None:
        self._scheduled = True
        self._loop.call_soon(self.flush)

    def flush(self) -> bool:
        """Writes this turn's frame and lets its answers go, the grants first. False if it could not be written."""
        self._scheduled = False
        grants, self._grants = self._grants, []
        others, self._others = self._others, []
        if grants and not self.up:
            self._refuse(grants)
            grants = []
        if self._records:
            records, self._records = self._records, []
            try:
                self._journal.write(records)
            except Exception as error:  # whatever it is: what is not written is not given out
                self._go_down(error, grants, others)
                return False
            self._dirty = True
            if self.always:
                self._unsynced[0].extend(grants)
                self._unsynced[1].extend(others)
                if self._syncing is None:
                    self._syncing = self._loop.create_task(self._sync_until_done())
                return True
        self._resolve(grants, others)
        return True

    async def _sync_until_done(self) -> None:
        """With sync `always`: one sync after the other, each for all that was written before it."""
        while any(self._unsynced):
            (grants, others), self._unsynced = self._unsynced, ([], [])
            async with self._disk:
                try:
                    await asyncio.to_thread(self._journal.sync)
                except OSError as error:
                    self._go_down(error, grants, others)
                    continue
            self._resolve(grants, others)
        self._syncing = None

    async def tick(self) -> None:
        """Once a second: makes the last second safe, keeps the segments short, tries again after a fault."""
        if not self.up:
            await self._try_again()
            return
        if not self._dirty:
            return
        self.write(Clock(self._now()))
        if not self.flush():
            return
        self._dirty = False
        try:
            if self._journal.size > SEGMENT_BYTES:
                await self._begin()
            else:
                async with self._disk:
                    await asyncio.to_thread(self._journal.sync)
        except OSError as error:
            self._go_down(error, [], [])

    async def _begin(self) -> None:
        """Begins the next segment and writes the snapshot that it stands on."""
        async with self._disk:
            self.flush()
            if self.up:
                await asyncio.to_thread(self._journal.sync)
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

    def _go_down(self, error: Exception, grants: list[Grant], others: list[asyncio.Future[None]]) -> None:
        log.error("The journal cannot be written (%s): no permit is given out until it can.", error)
        grants = grants + self._unsynced[0] + self._grants
        others = others + self._unsynced[1] + self._others
        self._unsynced, self._grants, self._others, self._records = ([], []), [], [], []
        self.up = self._recording = False
        self._refuse(grants)
        self._resolve([], others)

    def _refuse(self, grants: list[Grant]) -> None:
        self._went_down([grant.lease for grant in grants])
        for grant in grants:
            if not grant.future.done():
                grant.future.set_exception(unavailable())

    def _resolve(self, grants: list[Grant], others: list[asyncio.Future[None]]) -> None:
        for grant in grants:
            if grant.future.done():  # its call was cancelled
                self._undeliverable(grant.lease)
            else:
                grant.future.set_result(grant.lease)
        for other in others:
            if not other.done():
                other.set_result(None)

    async def stop(self) -> None:
        """Writes what is left, safe against a power cut."""
        if self.up:
            self.write(Clock(self._now()))
            self.flush()
            if self._syncing is not None:
                await self._syncing
            async with self._disk:
                try:
                    await asyncio.to_thread(self._journal.sync)
                except OSError as error:
                    log.error("The journal's last write failed: %s", error)
        self._journal.close()
