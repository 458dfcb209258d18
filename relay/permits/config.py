"""The one writer of pools and their shares (priority classes: classes.py).

Each function is one transaction: version check, validation, row, the pool's version + 1, Change row. What changes nothing
writes nothing. All raise `relay.http.Problem`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django.db.models import Sum
from msgspec import UNSET, UnsetType

from relay.http import Problem, invalid
from relay.permits import live, sync
from relay.permits.engine.base import PoolState
from relay.permits.models import Pool, PoolShare, PriorityClass
from relay.permits.serializers import (
    POOL_FIELDS,
    SHARE_FIELDS,
    NewPool,
    PoolPatch,
    ShareBody,
    pool_fields,
    share_fields,
)
from relay.tenants import changes, running
from relay.tenants.changes import Actor
from relay.tenants.config import find_tenant
from relay.tenants.fields import NAME, checked, checked_name, not_found

Version = int | frozenset[int] | None


def find_pool(name: str) -> Pool:
    """Raises 404 `pool-not-found`."""
    row = Pool.objects.filter(name=name).first() if NAME.fullmatch(name) else None
    if row is None:
        raise pool_not_found(name)
    return row


def versions() -> dict[str, int]:
    """The version of every pool."""
    return dict(Pool.objects.values_list("name", "version"))


def pool_not_found(name: str) -> Problem:
    """404 `pool-not-found`."""
    return Problem(404, "pool-not-found", f"There is no pool {name[:100]!r}. GET /api/v1/pools lists them.")


def create_pool(fields: Mapping[str, Any], *, actor: Actor, reason: str = "") -> Pool:
    """Makes a pool; it gives out permits when this returns. Raises 400 `invalid`, 409 `pool-exists`."""
    new = checked(fields, NewPool)
    checked_name(new.name)
    with changes.writing():
        if Pool.objects.filter(name=new.name).exists():
            raise Problem(
                409, "pool-exists", f"There is a pool {new.name!r} already. PATCH it, or choose another name."
            )
        pool = Pool(**{field: getattr(new, field) for field in NewPool.__struct_fields__})
        _check_pool(pool)
        pool.save(force_insert=True)
        record_pool(pool, actor, "create", None, pool_fields(pool), reason)
    return pool


def update_pool(
    name: str,
    fields: Mapping[str, Any],
    if_version: Version = None,
    *,
    actor: Actor,
    reason: str = "",
    pin: int | UnsetType | None = UNSET,
) -> Pool:
    """Changes what the fields name; works at once. `if_version`: refused unless the pool has (one of) it.

    Where a policy sizes the pool, a capacity is a pin as well. `pin`: the one to leave instead, when a resize is undone.

    Raises 400 `invalid`, 404 `pool-not-found`, 412 `version-conflict`.
    """
    patch = checked(fields, PoolPatch)
    if isinstance(pin, int) and not 1 <= pin <= 1_000_000:
        raise invalid("pin", "must be from 1 to 1000000, or null for none")
    with changes.writing():
        pool = find_for_change(name, if_version)
        before = pool_fields(pool) | _pin_of(pool)
        for field in POOL_FIELDS:
            value = getattr(patch, field)
            if value is not UNSET:
                setattr(pool, field, value)
        if patch.capacity is not UNSET and pool.sizing is not None:
            # a size set by hand wins until the pin is taken away
            pool.sizing["pin"] = patch.capacity if pin is UNSET else pin
        _check_pool(pool)
        after = pool_fields(pool) | _pin_of(pool)
        if after != before:
            save_version(pool)
            record_pool(pool, actor, "update", before, after, reason)
    return pool


def _pin_of(pool: Pool) -> dict[str, Any]:
    return {} if pool.sizing is None else {"pin": pool.sizing["pin"]}


def set_pool_state(name: str, state: PoolState, if_version: Version = None, *, actor: Actor, reason: str = "") -> Pool:
    """Pauses, drains or resumes a pool, from any state. Raises 404 `pool-not-found`, 412 `version-conflict`."""
    with changes.writing():
        pool = find_for_change(name, if_version)
        before = pool_fields(pool)
        if pool.state != state:
            pool.state = state
            save_version(pool)
            action = {"active": "resume", "paused": "pause", "draining": "drain"}[state]
            record_pool(pool, actor, action, before, pool_fields(pool), reason)
    return pool


def delete_pool(name: str, force: bool = False, if_version: Version = None, *, actor: Actor, reason: str = "") -> None:
    """Deletes a pool. With `force` its leases end revoked and its waiters are refused; else it must be idle.

    Raises 404 `pool-not-found`, 409 `in-use`, 412 `version-conflict`.
    """
    removed = False
    try:
        with changes.writing():
            pool = find_for_change(name, if_version)
            before = pool_fields(pool) | {"shares": [share_fields(share) for share in shares_of(pool)]}
            record_pool(pool, actor, "delete", before, None, reason)
            pool.delete()
            # Last: from here nothing but the commit can fail, and the engine answers for leases and waiters.
            if running.server() is not None:
                removed = True
                _remove_from_engine(name, force)
    except Exception:
        if removed:  # the row is still there, so the pool must be too
            _give_back(name)
        raise


def _give_back(name: str) -> None:
    pools = sync.pools_of([name])
    live.on_loop(lambda server: server.engine.configure(pools, None, None))


def _remove_from_engine(name: str, force: bool) -> None:
    try:
        live.on_loop(lambda server: server.engine.remove(name, force=force))
    except Problem as problem:
        if problem.code == "in-use":
            detail = f"Pool {name!r} has leases or waiters. Drain it first, or delete it with ?force=true."
            raise Problem(409, "in-use", detail) from None
        if problem.code != "pool-not-found":
            raise


def shares_of(pool: Pool) -> list[PoolShare]:
    """A pool's shares, by tenant."""
    return list(pool.shares.select_related("tenant"))


def find_share(pool: Pool, tenant: str) -> PoolShare:
    """Raises 404 `not-found`."""
    share = pool.shares.select_related("tenant").filter(tenant__name=tenant).first() if NAME.fullmatch(tenant) else None
    if share is None:
        raise not_found("share of tenant", tenant)
    return share


def put_share(
    name: str, tenant: str, fields: Mapping[str, Any], if_version: Version = None, *, actor: Actor, reason: str = ""
) -> PoolShare:
    """Sets a tenant's share of a pool, whole; raises the pool's version.

    Raises 400 `invalid`, 404 `pool-not-found` and `not-found` (tenant), 412 `version-conflict`.
    """
    body = checked(fields, ShareBody)
    with changes.writing():
        pool = find_for_change(name, if_version)
        row = find_tenant(tenant)
        share = pool.shares.select_related("tenant").filter(tenant=row).first()
        before = share_fields(share) if share else None
        guarantee_before = share.guarantee if share else 0
        share = share or PoolShare(pool=pool, tenant=row)
        for field in SHARE_FIELDS:
            setattr(share, field, getattr(body, field))
        _check_share(pool, share, guarantee_before)
        if share_fields(share) != before:
            share.save()
            save_version(pool)
            action = "create" if before is None else "update"
            _record_share(pool, share, actor, action, before, share_fields(share), reason)
    return share


def delete_share(name: str, tenant: str, if_version: Version = None, *, actor: Actor, reason: str = "") -> None:
    """Takes a tenant's share away: it is like any other then. Raises 404 `pool-not-found`, `not-found`, 412."""
    with changes.writing():
        pool = find_for_change(name, if_version)
        share = find_share(pool, tenant)
        before = share_fields(share)
        share.delete()
        save_version(pool)
        _record_share(pool, share, actor, "delete", before, None, reason)


def warnings(pool: Pool) -> list[str]:
    """What is allowed but should be known: guarantees above the capacity (rule 6)."""
    total = _guarantees(pool)
    if total <= pool.capacity:
        return []
    return [f"The guarantees add up to {total}, above the capacity of {pool.capacity}: not all can be kept at once."]


def find_for_change(name: str, if_version: Version) -> Pool:
    """The pool, inside the caller's transaction. Raises 404 `pool-not-found`, 412 `version-conflict`."""
    pool = find_pool(name)
    versions = frozenset([if_version]) if isinstance(if_version, int) else if_version
    if versions is not None and pool.version not in versions:
        raise Problem(
            412, "version-conflict", f"Pool {name!r} is at version {pool.version} by now. Read it again, then repeat."
        )
    return pool


def _check_pool(pool: Pool) -> None:
    errors: dict[str, list[str]] = {}
    if pool.default_timeout_s > pool.max_timeout_s:
        errors["default_timeout_s"] = [f"must be at most max_timeout_s, {pool.max_timeout_s:g}"]
    if pool.default_ttl_s > pool.max_ttl_s:
        errors["default_ttl_s"] = [f"must be at most max_ttl_s, {pool.max_ttl_s:g}"]
    if not PriorityClass.objects.filter(name=pool.default_priority).exists():
        errors["default_priority"] = [unknown_class(pool.default_priority)]
    _raise(errors)


def _check_share(pool: Pool, share: PoolShare, guarantee_before: int) -> None:
    errors: dict[str, list[str]] = {}
    if share.limit is not None and share.guarantee > share.limit:
        errors["guarantee"] = [f"must be at most the limit, {share.limit}"]
    elif share.guarantee > guarantee_before:
        total = _guarantees(pool) - guarantee_before + share.guarantee
        if total > pool.capacity:
            errors["guarantee"] = [f"the guarantees would add up to {total}, above the capacity of {pool.capacity}"]
    if share.max_priority is not None and not PriorityClass.objects.filter(name=share.max_priority).exists():
        errors["max_priority"] = [unknown_class(share.max_priority)]
    _raise(errors)


def _raise(errors: dict[str, list[str]]) -> None:
    if len(errors) == 1:
        ((field, messages),) = errors.items()
        raise invalid(field, messages[0])
    if errors:
        raise Problem(400, "invalid", f"Mend these fields: {', '.join(errors)}.", errors=errors)


def unknown_class(name: str) -> str:
    """The message about a priority class that is none, with those that are."""
    return (
        f"there is no priority class {name!r}; there are {', '.join(row.name for row in PriorityClass.objects.all())}"
    )


def _guarantees(pool: Pool) -> int:
    return int(pool.shares.aggregate(total=Sum("guarantee"))["total"] or 0)


def save_version(pool: Pool) -> None:
    """Writes the row as its next version."""
    pool.version += 1
    pool.save()


def record_pool(
    pool: Pool, actor: Actor, action: str, before: dict[str, Any] | None, after: dict[str, Any] | None, reason: str
) -> None:
    """Writes the pool's Change row, in the caller's transaction."""
    changes.record(actor, "pool", pool.name, action, before, after, pool=pool.name, reason=reason)


def _record_share(
    pool: Pool,
    share: PoolShare,
    actor: Actor,
    action: str,
    before: dict[str, Any] | None,
    after: dict[str, Any] | None,
    reason: str,
) -> None:
    tenant = share.tenant.name
    changes.record(
        actor, "share", f"{pool.name}/{tenant}", action, before, after, pool=pool.name, tenant=tenant, reason=reason
    )
