"""The one writer of priority classes. Each function is one transaction with its Change row; all raise `relay.http.Problem`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msgspec import UNSET

from relay.http import Problem, invalid
from relay.permits.models import Pool, PoolShare, PriorityClass
from relay.permits.serializers import ClassPatch, NewClass, class_fields
from relay.tenants import changes, running
from relay.tenants.changes import Actor
from relay.tenants.fields import NAME, checked, checked_name, not_found

CLASSES_LIMIT = 16


def find_class(name: str) -> PriorityClass:
    """Raises 404 `not-found`."""
    row = PriorityClass.objects.filter(name=name).first() if NAME.fullmatch(name) else None
    if row is None:
        raise not_found("priority class", name)
    return row


def create_class(fields: Mapping[str, Any], *, actor: Actor, reason: str = "") -> PriorityClass:
    """Raises 400 `invalid` (also past 16 classes), 409 `in-use` if the name is taken."""
    new = checked(fields, NewClass)
    checked_name(new.name)
    with changes.writing():
        names = set(PriorityClass.objects.values_list("name", flat=True))
        if new.name in names:
            raise Problem(409, "in-use", f"The name {new.name!r} is taken: there is such a priority class already.")
        if len(names) >= CLASSES_LIMIT:
            raise invalid("name", f"there are {len(names)} priority classes already, at most {CLASSES_LIMIT} can be")
        row = PriorityClass.objects.create(name=new.name, rank=new.rank)
        changes.record(actor, "priority-class", row.name, "create", None, class_fields(row), reason=reason)
    return row


def update_class(name: str, fields: Mapping[str, Any], *, actor: Actor, reason: str = "") -> PriorityClass:
    """Changes the rank; waiters are reordered at once. Raises 400 `invalid`, 404 `not-found`."""
    patch = checked(fields, ClassPatch)
    with changes.writing():
        row = find_class(name)
        before = class_fields(row)
        if patch.rank is not UNSET and patch.rank != row.rank:
            row.rank = patch.rank
            row.save()
            changes.record(actor, "priority-class", name, "update", before, class_fields(row), reason=reason)
    return row


def delete_class(name: str, *, actor: Actor, reason: str = "") -> None:
    """Deletes a class that nothing names. Raises 404 `not-found`, 409 `in-use`."""
    with changes.writing():
        row = find_class(name)
        pools = list(Pool.objects.filter(default_priority=name).values_list("name", flat=True)[:5])
        shares = PoolShare.objects.filter(max_priority=name).select_related("pool", "tenant")[:5]
        users = [f"pool {pool}" for pool in pools] + [f"share {s.pool.name}/{s.tenant.name}" for s in shares]
        if users:
            raise Problem(409, "in-use", f"Priority class {name!r} is named by {', '.join(users)}. Change these first.")
        held = running.references(priority=name)
        if held:
            raise Problem(409, "in-use", f"Priority class {name!r} has {held} leases and waiters. Wait for them.")
        before = class_fields(row)
        row.delete()
        changes.record(actor, "priority-class", name, "delete", before, None, reason=reason)
