"""The one writer of how pools are sized. Each function is one transaction with its Change row; all raise `relay.http.Problem`.

A person's change raises the pool's version; a decision of the sizing does not.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from relay.http import invalid
from relay.permits.config import Version, find_for_change, record_pool, save_version, update_pool
from relay.permits.models import Pool
from relay.permits.serializers import pool_fields
from relay.permits.sizing.base import Decision
from relay.permits.sizing.rows import sizing_fields, sizing_of
from relay.permits.sizing.sizer import Sizing
from relay.tenants import changes
from relay.tenants.changes import Actor
from relay.tenants.fields import checked

SIZER = Actor("system", "sizing")


def put_sizing(
    name: str, fields: Mapping[str, Any], if_version: Version = None, *, actor: Actor, reason: str = ""
) -> Pool:
    """Sets how a pool is sized, whole. Raises 400 `invalid`, 404 `pool-not-found`, 412 `version-conflict`."""
    return _write(name, checked(fields, Sizing), if_version, actor, reason)


def patch_sizing(
    name: str, fields: Mapping[str, Any], if_version: Version = None, *, actor: Actor, reason: str = ""
) -> Pool:
    """Changes what the fields name, such as the pin. Raises as `put_sizing`, also 400 where nothing sizes the pool."""
    with changes.writing():
        present = sizing_of(find_for_change(name, if_version))
        if present is None:
            raise invalid("policy", "nothing sizes this pool yet; PUT a whole sizing first")
        merged = (sizing_fields(present) or {}) | dict(fields)
        return _write(name, checked(merged, Sizing), if_version, actor, reason)


def delete_sizing(
    name: str, if_version: Version = None, *, actor: Actor, reason: str = "", capacity: int | None = None
) -> Pool:
    """The pool keeps the size that it has, or gets `capacity`. Raises 404 `pool-not-found`, 412 `version-conflict`."""
    with changes.writing():
        pool = _write(name, None, if_version, actor, reason)
        if capacity is None:
            return pool
        return update_pool(name, {"capacity": capacity}, actor=actor, reason=reason)


def _write(name: str, sizing: Sizing | None, if_version: Version, actor: Actor, reason: str) -> Pool:
    fault = None if sizing is None else sizing.fault()
    if fault is not None:
        raise invalid(*fault)
    with changes.writing():
        pool = find_for_change(name, if_version)
        before, after = pool.sizing, sizing_fields(sizing)
        if before != after:
            pool.sizing = after
            save_version(pool)
            record_pool(pool, actor, "sizing", {"sizing": before}, {"sizing": after}, reason)
    return pool


def write_decision(name: str, decision: Decision) -> bool:
    """Writes a size that the sizing set, with its reason; False if a person changed the pool in the meantime."""
    with changes.writing():
        pool = Pool.objects.filter(name=name).first()
        if pool is None or pool.sizing is None or pool.capacity != decision.before:
            return False
        before = pool_fields(pool)
        pool.capacity = decision.after
        pool.save(update_fields=["capacity"])
        record_pool(pool, SIZER, "resize", before, pool_fields(pool), decision.reason[: changes.REASON_LIMIT])
    return True
