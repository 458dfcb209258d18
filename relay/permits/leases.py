"""A lease as every answer shows it: the data plane, lists and pages."""

from __future__ import annotations

import time
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from msgspec import Struct

from relay.permits.engine.base import SECOND, LeaseView


class LeaseAnswer(Struct, frozen=True):
    """The contract's lease: times are RFC 3339 UTC, durations seconds."""

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


def lease_answer(view: LeaseView) -> LeaseAnswer:
    """Turns microseconds into what people and programs read."""
    return LeaseAnswer(
        view.lease_id,
        view.pool,
        view.tenant,
        view.permits,
        view.priority,
        view.holder,
        view.metadata,
        view.fencing_token,
        view.waited_us / SECOND,
        timestamp(view.acquired_at_us),
        timestamp(view.expires_at_us),
        max(0, view.expires_in_us) / SECOND,
        view.ttl_us / SECOND,
    )


def timestamp(unix_us: int) -> str:
    """RFC 3339 in UTC with microseconds."""
    seconds, micros = divmod(unix_us, SECOND)
    return f"{_second(seconds)}.{micros:06d}Z"


@lru_cache(maxsize=4096)
def _second(seconds: int) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(seconds))
