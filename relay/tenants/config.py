"""The one writer of tenants. Each function is one transaction with its Change row."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from msgspec import UNSET, Struct, UnsetType

from relay.http import Problem
from relay.tenants import changes, running
from relay.tenants.changes import Actor
from relay.tenants.fields import NAME, Description, Name, Weight, checked, checked_name, not_found, rfc3339
from relay.tenants.models import Tenant


class NewTenant(Struct, forbid_unknown_fields=True):
    """What makes a tenant."""

    name: Name
    weight: Weight = 1.0
    description: Description = ""


class TenantPatch(Struct, forbid_unknown_fields=True):
    """What of a tenant can be changed."""

    weight: Weight | UnsetType = UNSET
    description: Description | UnsetType = UNSET


def find_tenant(name: str) -> Tenant:
    """Raises 404 `not-found`."""
    row = Tenant.objects.filter(name=name).first() if NAME.fullmatch(name) else None
    if row is None:
        raise not_found("tenant", name)
    return row


def create_tenant(fields: Mapping[str, Any], *, actor: Actor, reason: str = "") -> Tenant:
    """Raises 400 `invalid`, 409 `in-use` if the name is taken."""
    new = checked(fields, NewTenant)
    checked_name(new.name)
    with changes.writing():
        if Tenant.objects.filter(name=new.name).exists():
            raise Problem(409, "in-use", f"The name {new.name!r} is taken: there is such a tenant already.")
        return _create(new, actor, reason)


def weights_of(names: Iterable[str]) -> dict[str, float]:
    """The own weights of those tenants that exist."""
    return dict(Tenant.objects.filter(name__in=list(names)).values_list("name", "weight"))


def ensure_tenant(name: str, actor: Actor) -> Tenant:
    """The tenant, made if it is missing. Inside the caller's transaction. Raises 400 `invalid`."""
    row = Tenant.objects.filter(name=checked_name(name, "tenant")).first()
    return row or _create(NewTenant(name), actor, "")


def _create(new: NewTenant, actor: Actor, reason: str) -> Tenant:
    row = Tenant.objects.create(name=new.name, weight=new.weight, description=new.description)
    changes.record(actor, "tenant", row.name, "create", None, _configured(row), tenant=row.name, reason=reason)
    return row


def update_tenant(name: str, fields: Mapping[str, Any], *, actor: Actor, reason: str = "") -> Tenant:
    """Changes what the fields name. Raises 400 `invalid`, 404 `not-found`."""
    patch = checked(fields, TenantPatch)
    with changes.writing():
        row = find_tenant(name)
        before = _configured(row)
        if patch.weight is not UNSET:
            row.weight = patch.weight
        if patch.description is not UNSET:
            row.description = patch.description
        after = _configured(row)
        if after != before:
            row.save()
            changes.record(actor, "tenant", name, "update", before, after, tenant=name, reason=reason)
    return row


def delete_tenant(name: str, *, actor: Actor, reason: str = "") -> None:
    """Deletes a tenant that nothing names. Raises 404 `not-found`, 409 `in-use`."""
    with changes.writing():
        row = find_tenant(name)
        keys = row.keys.filter(revoked_at=None).count()
        shares = row.shares.count()
        if keys or shares:
            raise Problem(
                409, "in-use", f"Tenant {name!r} has {keys} API keys and {shares} shares in pools. Delete these first."
            )
        held = running.references(tenant=name)
        if held:
            raise Problem(409, "in-use", f"Tenant {name!r} has {held} leases and waiters. Wait for them, or end them.")
        row.keys.all().delete()
        before = _configured(row)
        row.delete()
        changes.record(actor, "tenant", name, "delete", before, None, tenant=name, reason=reason)


def tenant_answer(row: Tenant) -> dict[str, Any]:
    """A tenant as answers show it."""
    return _configured(row) | {"created_at": rfc3339(row.created_at), "updated_at": rfc3339(row.updated_at)}


def _configured(row: Tenant) -> dict[str, Any]:
    return {"name": row.name, "weight": row.weight, "description": row.description}
