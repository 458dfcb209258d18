"""API keys: made and revoked in the database, checked in memory.

A key is `relay_<public id>_<secret>`. The row keeps an HMAC of it under a pepper that the database does not have. The key
ring knows a key by the raw header bytes once they were verified, so that the data plane pays for one dict lookup.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
import string
import time
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime
from typing import Any, Literal, get_args

from django.conf import settings
from django.db import transaction
from django.utils import timezone
from msgspec import Struct

from relay.http import Problem, invalid
from relay.tenants import changes, config
from relay.tenants.changes import Actor
from relay.tenants.fields import not_found, rfc3339, rfc3339_or_none
from relay.tenants.models import ApiKey, Tenant

Scope = Literal["permits", "tokens", "read", "operate", "admin"]
SCOPES: tuple[Scope, ...] = get_args(Scope)
DEFAULT_SCOPES: tuple[Scope, ...] = ("permits", "tokens", "read")

NAME_LIMIT = 100
_HEADER_LIMIT = 300
_VERIFIED_LIMIT = 20_000
_ID_ALPHABET = string.ascii_lowercase + string.digits


class KeyRow(Struct, frozen=True):
    """A key that is not revoked, as the key ring needs it; `expires_at` is Unix seconds."""

    key_id: str
    tenant: str
    scopes: tuple[str, ...]
    digest: str
    expires_at: float | None


class Principal(Struct, frozen=True):
    """Who asks: a verified key. `scopes` hold what they include; `expires_at` is Unix seconds."""

    key_id: str
    tenant: str
    scopes: frozenset[str]
    expires_at: float | None = None

    def require(self, scope: str) -> None:
        """Raises 403 `forbidden` if the key lacks the scope."""
        if scope not in self.scopes:
            raise Problem(403, "forbidden", f"This needs the scope {scope!r}. Use a key that has it.")


def expand(scopes: Iterable[str]) -> frozenset[str]:
    """The scopes with those that they include."""
    found = set(scopes)
    if "admin" in found:
        found.add("operate")
    if "operate" in found:
        found.add("read")
    return frozenset(found)


class KeyRing:
    """The keys that count now. Loaded on the event loop, asked from any thread; touches no database."""

    def __init__(self, pepper: bytes | None = None, clock: Callable[[], float] = time.time) -> None:
        self._pepper = default_pepper() if pepper is None else pepper
        self._clock = clock
        self._rows: dict[str, KeyRow] = {}
        self._verified: dict[bytes, Principal] = {}
        self._used: set[str] = set()

    def load(self, rows: Iterable[KeyRow]) -> None:
        """Replaces all keys."""
        # In this order: a thread in `_verify` takes the table of verified headers first and the rows second.
        self._rows = {row.key_id: row for row in rows}
        self._verified = {}

    def authenticate(self, authorization: bytes | None) -> Principal:
        """Who sends this Authorization header. Raises 401 `unauthenticated`."""
        principal = self._verified.get(authorization)  # type: ignore[arg-type]  # None is in no table
        if principal is None:
            principal = self._verify(authorization)
        if principal.expires_at is not None and self._clock() >= principal.expires_at:
            raise unauthenticated("The API key has expired. Ask an operator for a new one.")
        self._used.add(principal.key_id)
        return principal

    def _verify(self, authorization: bytes | None) -> Principal:
        verified = self._verified
        if authorization is None:
            raise unauthenticated("Send an API key: Authorization: Bearer KEY.")
        scheme, _, rest = authorization[:_HEADER_LIMIT].partition(b" ")
        if scheme.lower() != b"bearer" or len(authorization) > _HEADER_LIMIT:
            raise unauthenticated("Send the API key as Authorization: Bearer KEY.")
        key = rest.strip().decode("latin-1")
        parts = key.split("_", 2)
        row = self._rows.get(parts[1]) if len(parts) == 3 and parts[0] == "relay" else None
        if not hmac.compare_digest(digest_of(key, self._pepper), row.digest if row else "0" * 64) or row is None:
            raise unauthenticated("This API key is unknown or revoked. Check it, or ask an operator for a new one.")
        principal = Principal(row.key_id, row.tenant, expand(row.scopes), row.expires_at)
        if len(verified) >= _VERIFIED_LIMIT:
            verified.clear()
        verified[authorization] = principal
        return principal

    def take_used(self) -> dict[str, float]:
        """The keys used since the last call, as used now (Unix seconds): to a minute exact; for `write_last_used`."""
        used, self._used = self._used, set()
        return dict.fromkeys(used, self._clock())


def unauthenticated(detail: str) -> Problem:
    """401 `unauthenticated`."""
    return Problem(401, "unauthenticated", detail)


def default_pepper() -> bytes:
    """The pepper of this installation: a new secret key makes all API keys void."""
    return hashlib.sha256(b"relay.tenants.keys\x00" + settings.SECRET_KEY.encode()).digest()


def digest_of(key: str, pepper: bytes) -> str:
    """What the row keeps of a key."""
    return hmac.digest(pepper, key.encode(), "sha256").hex()


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
