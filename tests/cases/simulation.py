"""A pool under traffic on a fake clock: arrivals, and callers that hold for a while and release. Times in seconds."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from heapq import heappop, heappush
from itertools import count
from typing import Any

from relay.permits.engine.base import Lease
from relay.permits.engine.core import PoolCore
from tests.permits.driver import Desk

US = 1_000_000


class Traffic:
    """Runs events in the order of their times on one desk; `granted_at` says when each holder was granted."""

    def __init__(self, capacity: int, **config: Any) -> None:
        self.desk = Desk(PoolCore, capacity, **config)
        self.granted_at: dict[str, float] = {}
        self.asked_at: dict[str, float] = {}
        self.on_release: Callable[[str], None] | None = None
        self.on_step: Callable[[], None] | None = None
        self._holds: dict[str, float] = {}
        self._agenda: list[tuple[float, int, Callable[[], None]]] = []
        self._numbers = count()
        self._names = count()

    @property
    def now(self) -> float:
        """The present second."""
        return self.desk.now / US

    def at(self, second: float, do: Callable[[], None]) -> None:
        """Plans something."""
        heappush(self._agenda, (second, next(self._numbers), do))

    def ask(self, tenant: str, priority: str = "interactive", permits: int = 1, *, hold: float, name: str = "") -> str:
        """Asks now, and will hold for so long; the caller's name."""
        name = name or f"{tenant}-{next(self._names)}"
        self._holds[name] = hold
        self.asked_at[name] = self.now
        if self.desk.ask(name, tenant, permits, priority) == "granted":
            self._granted(name)
        self._carry(self.desk.events())
        return name

    def stream(self, rate: float, begin: float, end: float, ask: Callable[[], Any]) -> None:
        """Plans `ask` so many times a second."""
        for number in range(int((end - begin) * rate)):
            self.at(begin + number / rate, ask)

    def run(self, end: float) -> None:
        """Runs until this second."""
        while self._agenda and self._agenda[0][0] <= end:
            second, _, do = heappop(self._agenda)
            self._carry(self.desk.at(second))
            do()
            if self.on_step is not None:
                self.on_step()
        self._carry(self.desk.at(end))

    def held_by(self, tenant: str) -> int:
        """The permits that a tenant holds now, counted over the leases."""
        return sum(lease.ask.permits for lease in self.leases() if lease.ask.tenant == tenant)

    def leases(self) -> Iterator[Lease]:
        """The live leases."""
        yield from self.desk.pool.leases.values()

    def _granted(self, name: str) -> None:
        self.granted_at[name] = self.now
        self.at(self.now + self._holds[name], lambda: self._release(name))

    def _release(self, name: str) -> None:
        self._carry(self.desk.release(name))
        if self.on_release is not None:
            self.on_release(name)

    def _carry(self, events: list[str]) -> None:
        for event in events:
            kind, _, name = event.partition(" ")
            if kind == "granted":
                self._granted(name)
            else:
                assert kind == "ended", event
