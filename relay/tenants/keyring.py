"""The key ring: which API keys count now, and who sends them. In memory, no database.

A key is `relay_<public id>_<secret>`. The ring knows a key by the raw header bytes once they were verified, so that the
data plane pays for one dict lookup.
"""

from __future__ import annotations

import hashlib
import hmac
import time
from collections.abc import Callable, Iterable
from typing import Literal, get_args

from django.conf import settings
from msgspec import Struct

from relay.http import Problem

Scope = Literal["permits", "tokens", "read", "operate", "admin"]
SCOPES: tuple[Scope, ...] = get_args(Scope)
DEFAULT_SCOPES: tuple[Scope, ...] = ("permits", "tokens", "read")

_HEADER_LIMIT = 300
_VERIFIED_LIMIT = 20_000


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

    def permit(self, authorization: bytes | None, scope: str) -> Principal:
        """The same, if the key has this scope. Raises 401 `unauthenticated`, 403 `forbidden`."""
        principal = self._verified.get(authorization)  # type: ignore[arg-type]  # None is in no table
        if principal is None or principal.expires_at is not None or scope not in principal.scopes:
            principal = self.authenticate(authorization)
            principal.require(scope)
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
