"""What an operation on a pool did to others than its caller."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

from relay.permits.engine.base import End, EndReason, Lease
from relay.permits.engine.waiting import Waiter

LeftCode = Literal[
    "acquire-timeout",
    "cancelled",
    "waiter-cancelled",
    "exceeds-capacity",
    "exceeds-tenant-limit",
    "invalid",
    "pool-not-found",
    "engine-unavailable",
    "shutting-down",
    "lease-ended",
]


class Existing(Struct, frozen=True):
    """A repeat found its lease (rule 14)."""

    lease: Lease


class Granted(Struct, frozen=True):
    """A waiter was granted."""

    waiter: Waiter
    lease: Lease


class Left(Struct, frozen=True):
    """A waiter left without a lease. `cancelled`: its caller went away, or did not come back in time.

    `by_rate`: at that time it was a rate that held the queue up, not the permits.
    """

    waiter: Waiter
    code: LeftCode
    by_rate: bool = False


class Ended(Struct, frozen=True, gc=False):
    """A lease ended, by whomever."""

    lease: Lease
    end: End

    @property
    def reason(self) -> EndReason:
        """Why."""
        return self.end.reason


Event = Granted | Left | Ended
