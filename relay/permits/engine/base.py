"""What an engine of pools promises: its types, its errors, its protocol. No behaviour.

Inside the engine, time is whole microseconds (`*_us`) on the engine's own monotonic clock.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Literal, Protocol

from msgspec import UNSET, Struct, UnsetType, structs

from relay.permits.engine.rates import Rate
from relay.telemetry.gauges import PoolGauges, PoolState

SECOND = 1_000_000

EndReason = Literal["released", "expired", "revoked", "dropped"]


class Share(Struct, frozen=True):
    """What one tenant may have of one pool. `None` means: no override, no bound."""

    weight: float | None = None
    limit: int | None = None
    guarantee: int = 0
    max_waiters: int | None = None
    max_priority: str | None = None


class PoolConfig(Struct, frozen=True):
    """A pool's configuration, as the engine needs it. `ceiling` is the most that a sizing policy may grow it to."""

    name: str
    capacity: int
    ceiling: int | None = None
    state: PoolState = "active"
    default_priority: str = "interactive"
    default_timeout_us: int = 30 * SECOND
    max_timeout_us: int = 3600 * SECOND
    default_ttl_us: int = 60 * SECOND
    max_ttl_us: int = 3600 * SECOND
    max_lease_us: int | None = None
    max_waiters: int = 10_000
    aging_us: int | None = 30 * SECOND
    reconnect_grace_us: int = 10 * SECOND
    shares: Mapping[str, Share] = {}
    requests: Rate | None = None
    tokens: Rate | None = None


class Ask(Struct, frozen=True, array_like=True, gc=False):
    """One acquire, checked and with the defaults filled in. `key` is its Idempotency-Key, `tokens` what it states to use.

    Goes to the journal as it is: new fields come last, with a default.
    """

    tenant: str
    permits: int
    priority: str
    timeout_us: int
    ttl_us: int
    holder: str = ""
    metadata: Mapping[str, Any] = {}
    key: str | None = None
    tokens: int = 0
    parent: str | None = None  # the lease that is held meanwhile, of the same tenant

    def same_body(self, other: Ask) -> bool:
        """Rule 14: equal if all fields but the timeout are."""
        return (
            self.permits == other.permits
            and self.priority == other.priority
            and self.ttl_us == other.ttl_us
            and self.holder == other.holder
            and self.metadata == other.metadata
            and self.tokens == other.tokens
            and self.parent == other.parent
        )


class Lease(Struct, array_like=True, tag=1, eq=False, gc=False):
    """Permits held by one caller. Written by the engine only; `acquired_us` and `expires_us` are engine time.

    It goes to the journal as it is, hence the tag and the fixed order.
    """

    lease_id: str
    pool: str
    ask: Ask
    fencing_token: int
    waited_us: int
    acquired_us: int
    expires_us: int
    ttl_us: int
    delivered: bool = False
    drop_us: int | None = None  # when an undelivered grant goes back (rule 14)
    acquired_at_us: int = 0  # wall time of the grant (Unix µs), for people
    asked: int = 0  # the permits it was granted with, if it has been resized
    yielded: bool = False  # its permits are given back for a while: they do not count as in use

    def same_body(self, ask: Ask) -> bool:
        """Rule 14: whether a repeat asks for what this one was granted for."""
        return (structs.replace(self.ask, permits=self.asked) if self.asked else self.ask).same_body(ask)


class End(Struct, frozen=True, array_like=True, tag=3, gc=False):
    """How a lease ended, and when (engine time). Goes to the journal as it is."""

    lease_id: str
    pool: str
    tenant: str
    reason: EndReason
    at_us: int


class Refused(Exception):
    """A request that the engine turns down, with the contract's code. The state is as it was.

    `retry_after_us` is a hint from the queue ahead and the recent hold times (rule 13), None where a retry is no use.
    With the code `invalid` the detail is "field: message".
    """

    def __init__(self, code: str, detail: str, retry_after_us: int | None = None) -> None:
        super().__init__(detail)
        self.code = code
        self.detail = detail
        self.retry_after_us = retry_after_us


class LeaseEnded(Refused):
    """A renewal of a lease that has ended: `lease-released`, `lease-expired`, `lease-revoked`, `lease-dropped`."""

    def __init__(self, reason: EndReason) -> None:
        super().__init__(f"lease-{reason}", f"The lease has ended: {reason}. Acquire a new one.")
        self.reason = reason


class CallerGone(Exception):
    """The caller left while its acquire was under way: there is nobody to answer."""


class Released(Struct, frozen=True, gc=False):
    """What a release found. `reason` is None if this call released the lease."""

    held_us: int = 0
    reason: EndReason | None = None
    pool: str = ""


class LeaseAnswer(Struct, frozen=True, gc=False):
    """A lease as every answer and list shows it: times are RFC 3339 UTC, durations seconds."""

    lease_id: str
    pool: str
    tenant: str
    permits: int
    priority: str
    holder: str
    metadata: Mapping[str, Any]
    fencing_token: int
    waited_s: float
    acquired_at: str
    expires_at: str
    expires_in_s: float
    ttl_s: float
    tokens: int | UnsetType = UNSET  # as stated or counted; left out where there are none
    parent_lease_id: str | UnsetType = UNSET
    state: Literal["yielded"] | UnsetType = UNSET  # left out while its permits are held


class WaiterView(Struct, frozen=True):
    """A waiter as lists show it; `deadline_us` and `ready_us` are Unix microseconds, `position` counts from 1.

    `blocked_by`: what the first waiter waits for; None for the others, who wait for their turn, and while the pool is
    paused. `ready_us`: when the rate lets the first waiter through.
    """

    waiter_id: str
    tenant: str
    priority: str
    permits: int
    holder: str
    waited_us: int
    deadline_us: int
    position: int | None
    connected: bool
    estimated_wait_us: int | None
    tokens: int = 0
    blocked_by: Literal["rate", "capacity"] | None = None
    ready_us: int | None = None


class Caller(Protocol):
    """The connection that an answer will go to."""

    def gone(self) -> bool:
        """Whether the caller has left, without waiting."""

    def watch(self) -> asyncio.Future[None]:
        """Done when the caller has left."""


class Engine(Protocol):
    """Pools of permits. Everything is called on the event loop; what waits is a coroutine.

    Every method may raise `Refused` with `engine-unavailable`; those that name a pool also with `pool-not-found`.
    """

    kind: str

    @property
    def up(self) -> bool:
        """Whether permits can be given out."""

    def pool(self, name: str) -> PoolConfig | None:
        """The configuration in force."""

    def pool_of(self, lease_id: str, tenant: str) -> PoolConfig:
        """The pool of a live lease. Raises `lease-not-found`, LeaseEnded."""

    def priorities(self) -> list[str]:
        """The priority classes, the most urgent first."""

    def rank(self, priority: str) -> int | None:
        """The rank of a priority class, None if there is no such class."""

    def malformed(self, pool: str, tenant: str) -> None:
        """Counts an acquire whose body was not valid."""

    async def acquire(
        self, pool: str, ask: Ask, caller: Caller, hand: Callable[[Lease], bool] | None = None
    ) -> tuple[Lease, bool]:
        """A lease, durable, and whether this call granted it (else it existed). Raises Refused, CallerGone.

        `hand` is called with the lease of an acquire that waited, as soon as it is durable: it may answer, and tell of
        it with `delivered`. It gives True if it did, and must not raise.
        """

    async def acquire_several(self, wanted: Sequence[tuple[str, Ask]], caller: Caller) -> tuple[list[Lease], bool]:
        """The same over several pools, all or nothing. They differ; tenant, timeout and key are the same in all."""

    def delivered(self, lease: Lease) -> None:
        """The answer with this lease was handed to a connection that stood."""

    def undelivered(self, lease: Lease) -> None:
        """The caller was gone when the answer was ready (rules 4 and 14)."""

    async def renew(self, lease_id: str, tenant: str, ttl_us: int | None) -> Lease:
        """Renews (rule 18). Raises `lease-not-found`, LeaseEnded."""

    async def resize(self, lease_id: str, tenant: str, permits: int) -> Lease:
        """Changes the permits of a live lease: fewer go back at once, more are had at once or not at all.

        Raises `lease-not-found`, LeaseEnded, and what an acquire of the difference that is a try would.
        """

    async def yield_lease(self, lease_id: str, tenant: str) -> Lease:
        """Gives the permits back for a while; the lease lives on. Raises `lease-not-found`, LeaseEnded."""

    async def resume_lease(self, lease_id: str, tenant: str, timeout_us: int, caller: Caller) -> Lease:
        """Gets the permits of a yielded lease back, at its original place. Raises as an acquire would, CallerGone."""

    async def release(self, lease_id: str, tenant: str, tokens: int | None = None) -> Released:
        """Ends a lease, or says how it ended before. `tokens`: what it used in truth. Raises `lease-not-found`."""

    def lease(self, lease_id: str, tenant: str | None) -> LeaseAnswer:
        """One live lease; `tenant` None sees all. Raises `lease-not-found`, LeaseEnded."""

    def view(self, lease: Lease) -> LeaseAnswer:
        """A lease as answers show it."""

    async def revoke(self, lease_id: str) -> bool:
        """Ends anybody's lease; False if it had ended. Raises `lease-not-found`."""

    def cancel(self, waiter_id: str) -> tuple[str, Ask]:
        """Ends a wait; its caller is answered `waiter-cancelled`. Gives its pool and what it asked. Raises `not-found`."""

    def configure(
        self,
        pools: Mapping[str, PoolConfig | None],
        ranks: Mapping[str, int] | None,
        weights: Mapping[str, float] | None,
    ) -> None:
        """Takes configuration over at once: changed pools (None: gone, its leases revoked), all ranks, all weights."""

    def remove(self, pool: str, *, force: bool) -> None:
        """Removes a pool. Raises `in-use` if it has leases or waiters and `force` is not set."""

    def names(self) -> list[str]:
        """The pools."""

    def gauges(self) -> Iterable[PoolGauges]:
        """All pools at this moment."""

    def pool_gauges(self, pool: str) -> PoolGauges | None:
        """One pool at this moment, None if there is no such pool."""

    def leases(
        self, pool: str, *, tenant: str | None, priority: str | None, offset: int, limit: int
    ) -> list[LeaseAnswer]:
        """Live leases by age, the oldest first."""

    def waiters(
        self, pool: str, *, tenant: str | None, priority: str | None, offset: int, limit: int
    ) -> list[WaiterView]:
        """Waiters in the order in which they would be served."""

    def references(self, *, tenant: str | None = None, priority: str | None = None) -> int:
        """How many live leases and waiters name this tenant or priority class."""


__all__ = [
    "SECOND",
    "Ask",
    "Caller",
    "CallerGone",
    "End",
    "EndReason",
    "Engine",
    "Lease",
    "LeaseAnswer",
    "LeaseEnded",
    "PoolConfig",
    "PoolGauges",
    "PoolState",
    "Refused",
    "Released",
    "Share",
    "WaiterView",
]
