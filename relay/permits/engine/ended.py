"""How leases ended, remembered for a while so that a late holder is told why (rule 17)."""

from __future__ import annotations

from collections import deque

from relay.permits.engine.base import SECOND, End

KEEP_US = 24 * 3600 * SECOND
KEEP_ENDS = 100_000


class EndedLeases:
    """The last 100,000 ends, for 24 hours at most."""

    __slots__ = ("_ends", "_order")

    def __init__(self) -> None:
        self._ends: dict[str, End] = {}
        self._order: deque[str] = deque()  # a dict's first item is not O(1) after deletions in front

    def add(self, end: End) -> None:
        """Remembers an end; an id ends once. O(1)."""
        ends, order = self._ends, self._order
        ends[end.lease_id] = end
        order.append(end.lease_id)
        if len(order) > KEEP_ENDS:
            ends.pop(order.popleft(), None)

    def get(self, lease_id: str, now: int) -> End | None:
        """How a lease ended, None if that is not (or no longer) known."""
        end = self._ends.get(lease_id)
        if end is None or end.at_us < now - KEEP_US:
            return None
        return end

    def all(self) -> list[End]:
        """All that is remembered, the oldest first."""
        return list(self._ends.values())
