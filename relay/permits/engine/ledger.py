"""The event loop's side of the journal: what an operation changed is written before anybody is answered, synced in the
background, followed by snapshots. It knows records and futures, not pools; and what to do when the disk refuses.

A frame is written at once, by the operation itself. Gathering the operations of one turn of the loop into one write was
measured: the two extra turns for every answer cost more than the writes (see docs/architecture.md, "The journal").
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Literal, NamedTuple

from relay.permits.engine.base import Lease, Refused
from relay.permits.engine.journal import ClockRecord, Journal, Record

log = logging.getLogger("relay.journal")

SEGMENT_BYTES = 64 * 1024 * 1024  # a larger one is followed by a snapshot


class Grant(NamedTuple):
    """A lease that was granted to somebody who waits for it on a future."""

    lease: Lease
    future: asyncio.Future[Lease]


def unavailable() -> Refused:
    """503: permits cannot be given out durably now."""
    return Refused(
        "engine-unavailable", "The journal cannot be written, so no permit can be given out. See the log.", 1_000_000
    )


class Ledger:
    """Writes the journal of an engine. `up` is False while it can't be written: then no grant may be answered.

    `state` gives all records of the present state. `went_down` is told before the grants that were not written fail;
    it gets their leases. `undeliverable` gets each grant whose call was cancelled meanwhile.
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
        self._dirty = False
        self._disk = asyncio.Lock()  # syncs, new segments and snapshots one after the other
        self._unsynced: asyncio.Future[None] | None = None
        self._unsynced_grants: list[Grant] = []

    async def start(self) -> None:
        """Begins a segment with a snapshot of the present state. Raises OSError."""
        await self._begin()
        self.up = True

    def write(self, record: Record) -> None:
        """Adds a record to this operation's frame."""
        if self._recording:
            self._records.append(record)

    def grant(self, lease: Lease, future: asyncio.Future[Lease]) -> None:
        """Resolves a waiter's future once this operation's frame is written."""
        self._grants.append(Grant(lease, future))

    def flush(self, own: Lease | None = None) -> bool:
        """Writes the frame of an operation and lets its grants go. `own`: the lease that its caller is granted.

        False if it could not be written: then nothing that it granted was given out.
        """
        grants, self._grants = self._grants, []
        if self._records:
            records, self._records = self._records, []
            try:
                self._journal.write(records)
            except OSError as error:
                self._go_down(error, grants, own)
                return False
            self._dirty = True
        if self.always and self.up:
            self._unsynced_grants += grants
            if grants:
                self._sync_soon()
        else:
            self._resolve(grants)
        return True

    async def synced(self) -> None:
        """With sync `always`: returns when what was written so far survives a power cut. Raises `engine-unavailable`."""
        if self.always and self.up:
            await asyncio.shield(self._sync_soon())
            if not self.up:
                raise unavailable()

    def _sync_soon(self) -> asyncio.Future[None]:
        """The sync that covers all that is written by now: one at a time, each for many."""
        if self._unsynced is None:
            self._unsynced = asyncio.ensure_future(self._sync())
        return self._unsynced

    async def _sync(self) -> None:
        async with self._disk:
            self._unsynced = None  # what is written from here on needs the next one
            grants, self._unsynced_grants = self._unsynced_grants, []
            try:
                await asyncio.to_thread(self._journal.sync)
            except OSError as error:
                self._go_down(error, grants, None)
            else:
                self._resolve(grants)

    async def tick(self) -> None:
        """Once a second: makes the last second safe, keeps the segments short, tries again after a fault."""
        if not self.up:
            await self._try_again()
            return
        if not self._dirty:
            return
        self.write(ClockRecord(self._now()))
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
            self._go_down(error, [], None)

    async def _begin(self) -> None:
        """Begins the next segment and writes the snapshot that it stands on."""
        async with self._disk:
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

    def _go_down(self, error: OSError, grants: list[Grant], own: Lease | None) -> None:
        log.error("The journal cannot be written (%s): no permit is given out until it can.", error)
        grants = grants + self._unsynced_grants
        self._unsynced_grants, self._records = [], []
        self.up = self._recording = False
        self._went_down([grant.lease for grant in grants] + ([] if own is None else [own]))
        for grant in grants:
            if not grant.future.done():
                grant.future.set_exception(unavailable())

    def _resolve(self, grants: list[Grant]) -> None:
        for lease, future in grants:
            if future.done():
                self._undeliverable(lease)
            else:
                future.set_result(lease)

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
