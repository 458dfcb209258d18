"""The engine's refusals as the API answers them."""

from __future__ import annotations

from relay.http import Problem, invalid
from relay.permits.engine.base import Refused

STATUS = {
    "exceeds-capacity": 400,
    "exceeds-tenant-limit": 400,
    "pool-not-found": 404,
    "lease-not-found": 404,
    "not-found": 404,
    "superseded": 409,
    "waiter-cancelled": 409,
    "in-use": 409,
    "would-deadlock": 409,
    "lease-released": 410,
    "lease-expired": 410,
    "lease-revoked": 410,
    "lease-dropped": 410,
    "idempotency-conflict": 422,
    "acquire-timeout": 429,
    "queue-full": 429,
    "rate-limited": 429,
    "pool-paused": 503,
    "pool-draining": 503,
    "engine-unavailable": 503,
    "shutting-down": 503,
}


def problem_of(refused: Refused) -> Problem:
    """The problem document of a refusal."""
    if refused.code == "invalid":
        field, _, message = refused.detail.partition(": ")
        return invalid(field, message)
    retry_s = None if refused.retry_after_us is None else refused.retry_after_us / 1e6
    return Problem(STATUS[refused.code], refused.code, refused.detail, retry_after_s=retry_s)
