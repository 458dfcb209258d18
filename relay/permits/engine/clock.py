"""The engine's own clock: monotonic, and continued across restarts by the journal."""

from __future__ import annotations

from time import monotonic_ns


class EngineClock:
    """Called, it gives whole microseconds that never go back; a wall clock's jumps do not touch it (rule 15)."""

    __slots__ = ("_base",)

    def __init__(self) -> None:
        self._base = -(monotonic_ns() // 1000)

    def __call__(self) -> int:
        return monotonic_ns() // 1000 + self._base

    def continue_from(self, at_us: int) -> None:
        """Goes on from where an earlier process stopped. Once, before anything was timed."""
        self._base += at_us
