"""How leases ended, remembered for a while so that a late holder is told why (rule 17)."""

from __future__ import annotations

from collections import deque
from itertools import islice

from relay.permits.engine.base import SECOND, End

KEEP_US = 24 * 3600 * SECOND
KEEP_ENDS = 100_000
CHUNK = 4000


class EndedLeases:
    """The last 100,000 ends, for 24 hours at most.

    In chunks, the oldest of which goes as a whole: one ordered table, from which each end that comes in pushes one out, is
    too large for the processor's caches (0.68 µs an end, 0.23 so).
    """

    __slots__ = ("_chunks", "_newest")

    def __init__(self) -> None:
        self._newest: dict[str, End] = {}
        self._chunks: deque[dict[str, End]] = deque([self._newest], maxlen=1 + KEEP_ENDS // CHUNK)

    def add(self, end: End) -> None:
        """Remembers an end. O(1) amortised; a whole chunk takes 0.4 ms to forget."""
        newest = self._newest
        if len(newest) == CHUNK:
            newest = self._newest = {}
            self._chunks.append(newest)
        newest[end.lease_id] = end

    def get(self, lease_id: str, now: int) -> End | None:
        """How a lease ended, None if that is not (or no longer) known."""
        for chunk in reversed(self._chunks):
            end = chunk.get(lease_id)
            if end is not None:
                forgotten = end.at_us < now - KEEP_US or end in islice(self._chunks[0].values(), self._surplus())
                return None if forgotten else end
        return None

    def all(self) -> list[End]:
        """All that is remembered, the oldest first."""
        return [end for chunk in self._chunks for end in chunk.values()][self._surplus() :]

    def _surplus(self) -> int:
        """How many of the oldest chunk are beyond the last 100,000."""
        return max(0, (len(self._chunks) - 1) * CHUNK + len(self._newest) - KEEP_ENDS)
