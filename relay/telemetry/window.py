"""What a pool did in the last 60 seconds."""

from __future__ import annotations

from msgspec import Struct


class Window(Struct, frozen=True):
    """The last 60 s, the running second included.

    `qps` counts arrivals of all outcomes a second; `average_wait_s` is the mean wait of the `grants`, None without
    any; `starved`: somebody timed out or met a full queue; `active`: somebody asked.
    """

    qps: float
    average_wait_s: float | None
    timeouts: int
    starved: bool
    active: bool
    grants: int
