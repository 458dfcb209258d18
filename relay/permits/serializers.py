"""The shapes of pools, shares and priority classes: what bodies may hold, and what rows look like in answers and the log."""

from __future__ import annotations

from typing import Annotated, Any

from msgspec import UNSET, Meta, Struct, UnsetType

from relay.permits.models import Pool, PoolShare, PriorityClass
from relay.tenants.fields import Description, Name, Weight, rfc3339

YEAR_S = 31_536_000

Capacity = Annotated[int, Meta(ge=1, le=1_000_000)]
Count = Annotated[int, Meta(ge=0, le=1_000_000)]
Duration = Annotated[float, Meta(ge=0, le=YEAR_S)]
Positive = Annotated[float, Meta(gt=0, le=YEAR_S)]
Many = Annotated[int, Meta(ge=1, le=1_000_000_000)]
Rank = Annotated[int, Meta(ge=0, le=99)]


class PoolPatch(Struct, forbid_unknown_fields=True):
    """What of a pool can be changed. Durations in seconds; rates as in NewPool."""

    capacity: Capacity | UnsetType = UNSET
    description: Description | UnsetType = UNSET
    default_priority: Name | UnsetType = UNSET
    default_timeout_s: Duration | UnsetType = UNSET
    max_timeout_s: Duration | UnsetType = UNSET
    default_ttl_s: Positive | UnsetType = UNSET
    max_ttl_s: Positive | UnsetType = UNSET
    max_lease_s: Positive | UnsetType | None = UNSET
    max_waiters: Count | UnsetType = UNSET
    aging_s: Positive | UnsetType | None = UNSET
    reconnect_grace_s: Duration | UnsetType = UNSET
    requests_per_minute: Many | UnsetType | None = UNSET
    requests_burst: Many | UnsetType | None = UNSET
    tokens_per_minute: Many | UnsetType | None = UNSET
    tokens_burst: Many | UnsetType | None = UNSET


class NewPool(Struct, forbid_unknown_fields=True, kw_only=True):
    """What makes a pool. Durations in seconds.

    Rates: null is none. A burst is what can go at once after a pause, null a tenth of the minute's; it counts beside a rate only.
    """

    name: Name
    capacity: Capacity
    description: Description = ""
    default_priority: Name = "interactive"
    default_timeout_s: Duration = 30.0
    max_timeout_s: Duration = 3600.0
    default_ttl_s: Positive = 60.0
    max_ttl_s: Positive = 3600.0
    max_lease_s: Positive | None = None
    max_waiters: Count = 10_000
    aging_s: Positive | None = 30.0
    reconnect_grace_s: Duration = 10.0
    requests_per_minute: Many | None = None
    requests_burst: Many | None = None
    tokens_per_minute: Many | None = None
    tokens_burst: Many | None = None


class ShareBody(Struct, forbid_unknown_fields=True):
    """A tenant's share of a pool, whole: what is left out gets its default. `limit` 0 keeps the tenant out."""

    weight: Weight | None = None
    limit: Count | None = None
    guarantee: Count = 0
    max_waiters: Count | None = None
    max_priority: Name | None = None


class NewClass(Struct, forbid_unknown_fields=True):
    """What makes a priority class."""

    name: Name
    rank: Rank


class ClassPatch(Struct, forbid_unknown_fields=True):
    """What of a priority class can be changed."""

    rank: Rank | UnsetType = UNSET


POOL_FIELDS = PoolPatch.__struct_fields__
SHARE_FIELDS = ShareBody.__struct_fields__


def pool_fields(pool: Pool) -> dict[str, Any]:
    """What of a pool is configured, as the change log keeps it."""
    return {"name": pool.name} | {field: getattr(pool, field) for field in POOL_FIELDS} | {"state": pool.state}


def pool_answer(pool: Pool) -> dict[str, Any]:
    """A pool's row as answers show it, without its live numbers."""
    return pool_fields(pool) | {
        "version": pool.version,
        "created_at": rfc3339(pool.created_at),
        "updated_at": rfc3339(pool.updated_at),
    }


def share_fields(share: PoolShare) -> dict[str, Any]:
    """A share as answers and the change log show it."""
    return {"tenant": share.tenant.name} | {field: getattr(share, field) for field in SHARE_FIELDS}


def class_fields(row: PriorityClass) -> dict[str, Any]:
    """A priority class as answers and the change log show it."""
    return {"name": row.name, "rank": row.rank}
