"""API keys in the database: made, listed, revoked. Checked in memory: keyring.py.

The row keeps an HMAC of the key under a pepper that the database does not have.
"""

from __future__ import annotations

import secrets
import string
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any

from django.db import transaction
from django.utils import timezone

from relay.http import Problem, invalid
from relay.tenants import changes, config
from relay.tenants.changes import Actor
from relay.tenants.fields import not_found, rfc3339, rfc3339_or_none
from relay.tenants.keyring import SCOPES, KeyRow, default_pepper, digest_of, expand
from relay.tenants.models import ApiKey, Tenant

NAME_LIMIT = 100
_ID_ALPHABET = string.ascii_lowercase + string.digits


def live_keys() -> list[KeyRow]:
    """All keys that are not revoked, from the database. Expired ones too: they are told so."""
    rows = ApiKey.objects.filter(revoked_at=None).values_list(
        "id", "tenant__name", "scopes", "digest", "expires_at", named=False
    )
    return [
        KeyRow(key_id, tenant, tuple(scopes), digest, expires_at.timestamp() if expires_at else None)
        for key_id, tenant, scopes, digest, expires_at in rows
    ]


def write_last_used(used: Mapping[str, float]) -> None:
    """Stores when keys were last used (Unix seconds). In a thread, once a minute; no change of configuration."""
    with transaction.atomic():
        for key_id, at in used.items():
            ApiKey.objects.filter(id=key_id).update(last_used_at=datetime.fromtimestamp(at, UTC))


def create_key(
    tenant_name: str,
    name: str,
    scopes: Iterable[str],
    actor: Actor,
    expires_at: datetime | None = None,
    *,
    make_tenant: bool = False,
    grantor: frozenset[str] | None = None,
    reason: str = "",
) -> tuple[str, ApiKey]:
    """Makes a key: its full text, which is nowhere else, and its row.

    `make_tenant` makes the tenant if it is missing. `grantor` are the expanded scopes of who asks (None: all).
    Raises 404 `not-found` (tenant), 400 `invalid`, 403 `forbidden` (a scope that the grantor lacks).
    """
    wanted = _checked_scopes(scopes, grantor)
    if len(name) > NAME_LIMIT or "\x00" in name:
        raise invalid("name", f"at most {NAME_LIMIT} characters, without NUL")
    if expires_at is not None and expires_at <= timezone.now():
        raise invalid("expires_at", "must lie in the future")
    key_id = "".join(secrets.choice(_ID_ALPHABET) for _ in range(16))
    key = f"relay_{key_id}_{secrets.token_urlsafe(32)}"
    with changes.writing():
        tenant = _tenant(tenant_name, actor, make_tenant)
        row = ApiKey.objects.create(
            id=key_id,
            tenant=tenant,
            name=name,
            scopes=wanted,
            digest=digest_of(key, default_pepper()),
            expires_at=expires_at,
        )
        changes.record(actor, "api-key", key_id, "create", None, key_fields(row), tenant=tenant.name, reason=reason)
    return key, row


def revoke_key(tenant_name: str, key_id: str, actor: Actor, *, reason: str = "") -> None:
    """Ends a key at once. Raises 404 `not-found` if the tenant has no such key, or it is revoked."""
    with changes.writing():
        row = find_key(tenant_name, key_id)
        before = key_fields(row)
        row.revoked_at = timezone.now()
        row.save(update_fields=["revoked_at"])
        changes.record(actor, "api-key", key_id, "revoke", before, None, tenant=tenant_name, reason=reason)


def find_key(tenant_name: str, key_id: str) -> ApiKey:
    """A tenant's key that is not revoked. Raises 404 `not-found`."""
    if "\x00" in key_id + tenant_name:
        raise not_found("API key", key_id)
    row = ApiKey.objects.select_related("tenant").filter(id=key_id, tenant__name=tenant_name, revoked_at=None).first()
    if row is None:
        raise not_found("API key", key_id)
    return row


def key_fields(row: ApiKey) -> dict[str, Any]:
    """A key as answers and the change log show it: never the secret, never the digest."""
    return {
        "id": row.id,
        "tenant": row.tenant.name,
        "name": row.name,
        "scopes": row.scopes,
        "created_at": rfc3339(row.created_at),
        "expires_at": rfc3339_or_none(row.expires_at),
        "last_used_at": rfc3339_or_none(row.last_used_at),
    }


def _checked_scopes(scopes: Iterable[str], grantor: frozenset[str] | None) -> list[str]:
    given = set(scopes)
    unknown = sorted(given.difference(SCOPES))
    if unknown or not given:
        raise invalid("scopes", f"choose from {', '.join(SCOPES)}" + (f"; not {', '.join(unknown)}" if unknown else ""))
    lacking = sorted(expand(given) - grantor) if grantor is not None else []
    if lacking:
        raise Problem(403, "forbidden", f"You cannot grant a scope that you lack: {', '.join(lacking)}.")
    return [scope for scope in SCOPES if scope in given]


def _tenant(name: str, actor: Actor, make: bool) -> Tenant:
    return config.ensure_tenant(name, actor) if make else config.find_tenant(name)
