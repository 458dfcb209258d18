"""The shapes of the control plane's answers, for the OpenAPI document. Tests hold real answers against them."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Literal, TypedDict

from msgspec import UNSET, Meta, Struct, UnsetType

from relay.permits.serializers import NewPool, ShareBody
from relay.telemetry.gauges import PoolState

Seconds = Annotated[float, Meta(ge=0)]
Health = Literal["paused", "draining", "shrinking", "starving", "queuing", "full", "flowing", "idle"]


class RateLevel(Struct):
    """A rate, its burst in force, and how many could go at once now: negative after more was used than stated."""

    per_minute: int
    burst: int
    available: float


class RateLevels(Struct):
    """The rates that are set."""

    requests: RateLevel | UnsetType = UNSET
    tokens: RateLevel | UnsetType = UNSET


class Pool(NewPool, kw_only=True):
    """A pool: its configuration, and its numbers at this moment. `qps` and `average_wait_s` are over `window_s`."""

    in_use: int
    available: int
    over_limit: int
    waiting: int
    oldest_wait_s: Seconds
    state: PoolState
    health: Health
    qps: float
    average_wait_s: Seconds | None
    window_s: float
    rates: RateLevels
    version: int
    created_at: datetime
    updated_at: datetime
    warnings: list[str] | UnsetType = UNSET


class Share(ShareBody, kw_only=True):
    """A tenant's share of a pool. Null: the tenant's own weight, no limit, no bound."""

    tenant: str


class PriorityClass(Struct):
    """A priority class; rank 0 is the most urgent."""

    name: str
    rank: int


class Tenant(Struct):
    """Who asks."""

    name: str
    weight: float
    description: str
    created_at: datetime
    updated_at: datetime


class Key(Struct):
    """An API key, without its secret."""

    id: str
    tenant: str
    name: str
    scopes: list[str]
    created_at: datetime
    expires_at: datetime | None
    last_used_at: datetime | None


class KeyOnce(Key):
    """An API key with its text, once."""

    key: str


class Change(Struct):
    """One change of configuration. What was made has no `before`, what was deleted no `after`."""

    id: int
    at: datetime
    actor_kind: Literal["person", "key", "command", "system"]
    actor: str
    request_id: str
    kind: str
    name: str
    pool: str
    tenant: str
    action: str
    before: dict[str, Any] | None
    after: dict[str, Any] | None
    reason: str


class Waiter(Struct):
    """An acquire that is queued. `position` counts from 1; null past the first 500, and for who is passed over or absent.

    `blocked_by` says what the first one waits for; where it is a rate, `ready_at` says until when.
    """

    waiter_id: str
    tenant: str
    priority: str
    permits: int
    holder: str
    waited_s: Seconds
    deadline: datetime
    position: int | None
    connected: bool
    estimated_wait_s: Seconds | None
    tokens: int
    blocked_by: Literal["rate", "capacity"] | None
    ready_at: datetime | None


class History(TypedDict):
    """A pool's samples: each row has the values of `fields`, over `interval_s`; a gap is a missing row."""

    step_s: float
    interval_s: float
    fields: list[str]
    rows: list[list[float | None]]
    changes: list[Change]


class Revoked(Struct):
    """False: it had ended before."""

    revoked: bool


class Cancelled(Struct):
    """The wait has ended."""

    cancelled: bool


class Reason(Struct, forbid_unknown_fields=True):
    """Why; may be left out, as the whole body may."""
