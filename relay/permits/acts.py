"""What operators do to the callers of a pool: revoke a lease, cancel a wait. Each leaves a Change row in the pool's log."""

from __future__ import annotations

from typing import Any

from relay.permits.engine.base import Ask, LeaseAnswer, LeaseEnded
from relay.permits.live import Serving, on_loop
from relay.tenants import changes
from relay.tenants.changes import Actor


def revoke(lease_id: str, *, actor: Actor, reason: str = "") -> bool:
    """Ends anybody's lease; False if it had ended. Raises 400 (the reason), 404 `lease-not-found`."""
    changes.checked_reason(reason)

    async def end(serving: Serving) -> LeaseAnswer | None:
        try:
            lease = serving.engine.lease(lease_id, None)
        except LeaseEnded:
            return None
        return lease if await serving.engine.revoke(lease_id) else None

    lease: LeaseAnswer | None = on_loop(end)
    if lease is None:
        return False
    before = {"lease_id": lease_id, "tenant": lease.tenant, "permits": lease.permits}
    before |= {"holder": lease.holder, "priority": lease.priority}
    _record(actor, "revoke", lease.pool, before, reason)
    return True


def cancel(waiter_id: str, *, actor: Actor, reason: str = "") -> None:
    """Ends a wait; its caller is answered `waiter-cancelled`. Raises 400 (the reason), 404 `not-found`."""
    changes.checked_reason(reason)

    def end(serving: Serving) -> tuple[str, Ask]:
        return serving.engine.cancel(waiter_id)

    pool, ask = on_loop(end)
    before = {"waiter_id": waiter_id, "tenant": ask.tenant, "permits": ask.permits}
    before |= {"holder": ask.holder, "priority": ask.priority}
    _record(actor, "cancel", pool, before, reason)


def _record(actor: Actor, action: str, pool: str, before: dict[str, Any], reason: str) -> None:
    """Into the pool's log. No field of the pool changes, so neither does its version."""
    with changes.writing():
        changes.record(
            actor, "pool", pool, action, before, None, pool=pool, tenant=str(before["tenant"]), reason=reason
        )
