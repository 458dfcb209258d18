"""The event loop's side of the journal: one write a turn of the loop, answers after it, syncs, snapshots, and what
happens when the disk refuses. It knows records, leases and futures, not pools.

Writing at once, in each operation, was measured too: it saves two turns for a lone hand-over, but under load the
answers then leave one by one instead of in bursts, and each wakes its caller anew (docs/architecture.md, "The journal").
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Generator
from typing import Any, Literal

from relay.permits.engine.base import Lease, Refused
from relay.permits.engine.journal import Clock, Journal, Record

log = logging.getLogger("relay.journal")

SEGMENT_BYTES = 64 * 1024 * 1024  # a larger one is followed by a snapshot


class WaitingCall(asyncio.Future[Lease]):
    """The call that a waiter's lease will go to. `hand` may answer it at once, before the call itself goes on.

    That is a turn of the loop sooner, and ahead of the answer to the release that made room.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, hand: Callable[[Lease], bool] | None) -> None:
        super().__init__(loop=loop)
        self._hand = hand
        self.answered = False

    def give(self, lease: Lease) -> None:
        """Here is the lease."""
        if self._hand is not None:
            self.answered = self._hand(lease)
        self.set_result(lease)


class Turn:
    """What one turn of the event loop writes, as one frame. Awaited, it is over: written (and synced where that is asked
    for), or `refused` by the disk.

    A bare `yield` instead of a future: the flush was scheduled before the task's next step, so it comes first. That saves
    each request a future, and a turn of the loop (0.5 of 19.7 µs without the network). Where it does not come first, as
    with syncs, futures do it.
    """

    __slots__ = ("futures", "handed_over", "over", "records", "refused")

    def __init__(self) -> None:
        self.records: list[Record] = []
        self.handed_over: list[tuple[Lease, WaitingCall]] = []  # grants to waiters
        self.futures: list[asyncio.Future[None]] = []  # who waits for a sync
        self.over = False
        self.refused = False

    def __await__(self) -> Generator[Any, None, None]:
        if not self.over or self.handed_over:  # after a hand-over, who waited is answered first
            yield
        while not self.over:
            future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self.futures.append(future)
            yield from future


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
        self._turn: Turn | None = None  # the one that records are added to
        self._last = Turn()
        self._last.over = True
        self._dirty = False
        self._disk = asyncio.Lock()  # syncs, new segments and snapshots one after the other
        self._unsynced: list[Turn] = []
        self._syncing: asyncio.Task[None] | None = None
        self._loop = asyncio.get_running_loop()

    async def start(self) -> None:
        """Begins a segment with a snapshot of the present state. Raises OSError."""
        await self._begin()
        self.up = True

    def write(self, record: Record) -> Turn:
        """Adds a record to this turn's frame. Await the turn before an answer that tells of it goes out."""
        if not self._recording:
            return self._last
        turn = self._turn
        if turn is None:
            turn = self._turn = Turn()
            self._loop.call_soon(self.flush)
        turn.records.append(record)
        return turn

    def hand_over(self, lease: Lease, call: WaitingCall, record: Record | None = None) -> None:
        """Writes a grant (as this record, if it is not new) and then gives it to the call that waited for it."""
        if self._recording:
            self.write(record or lease).handed_over.append((lease, call))
        else:
            lost = Turn()
            lost.records.append(record or lease)
            lost.handed_over.append((lease, call))
            self._loop.call_soon(self._refuse, [lost])

    def turn(self) -> Turn:
        """The newest turn: when it is over, all that was recorded so far is written, or cannot be."""
        return self._turn or self._last

    def flush(self) -> bool:
        """Writes this turn's frame and lets its answers go, the hand-overs first. False if it could not be written."""
        turn, self._turn = self._turn, None
        if turn is None:
            return True
        self._last = turn
        try:
            self._journal.write(turn.records)
        except Exception as error:  # whatever it is: what is not written is not given out
            self._go_down(error, [turn])
            return False
        self._dirty = True
        if not self.always:
            self._let_go(turn)
            return True
        self._unsynced.append(turn)
        if self._syncing is None:
            self._syncing = self._loop.create_task(self._sync_until_done())
        return True

    async def _sync_until_done(self) -> None:
        """With sync `always`: one sync after the other, each for all that was written before it."""
        while self._unsynced:
            turns, self._unsynced = self._unsynced, []
            async with self._disk:
                try:
                    await asyncio.to_thread(self._journal.sync)
                except OSError as error:
                    self._go_down(error, turns)
                    continue
            for turn in turns:
                self._let_go(turn)
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
            self._go_down(error, [])

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

    def _go_down(self, error: Exception, turns: list[Turn]) -> None:
        log.error("The journal cannot be written (%s): no permit is given out until it can.", error)
        turns = turns + self._unsynced
        if self._turn is not None:
            turns.append(self._turn)
        self._unsynced, self._turn = [], None
        self.up = self._recording = False
        self._refuse(turns)

    def _refuse(self, turns: list[Turn]) -> None:
        """Takes the grants of these turns back, then lets their calls know."""
        for turn in turns:
            turn.refused = True
        granted = [record for turn in turns for record in turn.records if isinstance(record, Lease)]
        self._went_down(granted)
        for turn in turns:
            for _, call in turn.handed_over:
                if not call.done():
                    call.set_exception(unavailable())
            turn.handed_over = []
            self._let_go(turn)

    def _let_go(self, turn: Turn) -> None:
        """A turn is over: its answers may go out."""
        turn.over = True
        if turn.handed_over:
            for lease, call in turn.handed_over:
                if call.done():  # it was cancelled
                    self._undeliverable(lease)
                else:
                    call.give(lease)
        for waiting in turn.futures:
            if not waiting.done():
                waiting.set_result(None)

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
