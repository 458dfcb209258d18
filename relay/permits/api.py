"""The data plane of permits: acquire, look at, renew and release a lease. Raw ASGI; nothing here touches the database."""

from __future__ import annotations

from functools import partial
from typing import Annotated, Any, Literal

import msgspec
from msgspec import UNSET, Meta, Struct, UnsetType

from relay.http import (
    Connection,
    Handler,
    Problem,
    Receive,
    Reply,
    Scope,
    decode,
    encode_json,
    endpoint,
    headers_of,
    invalid,
    read_body,
)
from relay.permits.engine.base import SECOND, Ask, CallerGone, Engine, Lease, PoolConfig, Refused
from relay.permits.problems import problem_of
from relay.tenants.keyring import KeyRing, Principal

METADATA_BYTES = 2048
METADATA_DEPTH = 32
KEY_CHARACTERS = 200

Duration = Annotated[float, Meta(ge=0)]
Lasting = Annotated[float, Meta(gt=0)]


class AcquireBody(Struct, forbid_unknown_fields=True):
    """The body of an acquire; what is unset takes the pool's default."""

    permits: Annotated[int, Meta(ge=1)] = 1
    priority: str | UnsetType = UNSET
    timeout_s: Duration | UnsetType = UNSET
    ttl_s: Lasting | UnsetType = UNSET
    holder: Annotated[str, Meta(max_length=200)] = ""
    metadata: dict[str, Any] = {}


class RenewBody(Struct, forbid_unknown_fields=True):
    """The body of a renewal; unset keeps the lease's time to live."""

    ttl_s: Lasting | UnsetType = UNSET


class ReleaseBody(Struct, forbid_unknown_fields=True):
    """The body of a release: how the work went."""

    outcome: Literal["ok", "error", "throttled", "timeout"] = "ok"


class ReleaseAnswer(Struct, omit_defaults=True):
    """What a release did."""

    released: bool
    held_s: float | UnsetType = UNSET
    reason: str | UnsetType = UNSET


_ACQUIRE = msgspec.json.Decoder(AcquireBody)
_RENEW = msgspec.json.Decoder(RenewBody)
_RELEASE = msgspec.json.Decoder(ReleaseBody)
_LATE = {"released": "already-released", "expired": "expired", "revoked": "revoked", "dropped": "dropped"}

_POOLS, _ACQUIRE_END = "/api/v1/pools/", "/acquire"
_LEASES, _RENEW_END, _RELEASE_END = "/api/v1/leases/", "/renew", "/release"


class PermitsApi:
    """The handlers, and which path is whose."""

    def __init__(self, engine: Engine, keyring: KeyRing) -> None:
        self._engine = engine
        self._keyring = keyring
        self._acquire_endpoint = endpoint("POST", self._acquire)
        self._lease_endpoint = endpoint("GET", self._lease)
        self._renew_endpoint = endpoint("POST", self._renew)
        self._release_endpoint = endpoint("POST", self._release)

    def handler(self, path: str) -> Handler | None:
        """The handler of a path, None if it is not the data plane's."""
        place, _, last = path.rpartition("/")
        if last == "release":
            return self._release_endpoint if _names_one(place, _LEASES) else None
        if last == "acquire":
            return self._acquire_endpoint if _names_one(place, _POOLS) else None
        if last == "renew":
            return self._renew_endpoint if _names_one(place, _LEASES) else None
        return self._lease_endpoint if last and place == _LEASES[:-1] else None

    def _permitted(self, headers: dict[bytes, bytes]) -> Principal:
        principal = self._keyring.authenticate(headers.get(b"authorization"))
        principal.require("permits")
        return principal

    async def _acquire(self, scope: Scope, receive: Receive) -> Reply | None:
        headers = headers_of(scope)
        principal = self._permitted(headers)
        name = scope["path"][len(_POOLS) : -len(_ACQUIRE_END)]
        engine = self._engine
        pool = engine.pool(name)
        if pool is None:
            raise Problem(404, "pool-not-found", f"There is no pool {name[:100]!r}. GET /api/v1/pools lists them.")
        try:
            body = decode(_ACQUIRE, await read_body(headers, receive))
            ask = self._ask(pool, principal.tenant, body, _idempotency_key(headers))
        except Problem:
            engine.malformed(name, principal.tenant)
            raise
        connection = Connection(receive)
        try:
            lease, granted = await engine.acquire(name, ask, connection)
        except Refused as refused:
            raise problem_of(refused) from None
        except CallerGone:
            return None
        finally:
            connection.close()
        return Reply(201 if granted else 200, self._encoded(lease), partial(self._sent, lease, connection))

    def _sent(self, lease: Lease, connection: Connection, handed_over: bool) -> None:
        if handed_over and not connection.dropped():
            self._engine.delivered(lease)
        else:
            self._engine.undelivered(lease)

    def _encoded(self, lease: Lease) -> bytes:
        return encode_json(self._engine.view(lease))

    def _ask(self, pool: PoolConfig, tenant: str, body: AcquireBody, key: str | None) -> Ask:
        """Fills in the pool's defaults. Raises 400 that names the field."""
        if body.metadata:
            _check_metadata(body.metadata)
        return Ask(
            tenant,
            body.permits,
            self._priority(pool, tenant, body.priority),
            pool.default_timeout_us
            if body.timeout_s is UNSET
            else _micros("timeout_s", body.timeout_s, pool.max_timeout_us),
            pool.default_ttl_us if body.ttl_s is UNSET else _micros("ttl_s", body.ttl_s, pool.max_ttl_us),
            body.holder,
            body.metadata,
            key,
        )

    def _priority(self, pool: PoolConfig, tenant: str, asked: str | UnsetType) -> str:
        share = pool.shares.get(tenant)
        most = share.max_priority if share is not None else None
        priority = pool.default_priority if asked is UNSET else asked
        rank = self._engine.rank(priority)
        if rank is None:
            classes = ", ".join(self._engine.priorities())
            raise invalid("priority", f"there is no class {priority[:100]!r}; there are {classes}")
        if most is not None and rank < (self._engine.rank(most) or 0):
            if asked is UNSET:
                return most
            raise invalid("priority", f"this tenant may ask for {most!r} at most")
        return priority

    async def _lease(self, scope: Scope, receive: Receive) -> Reply | None:
        principal = self._keyring.authenticate(headers_of(scope).get(b"authorization"))
        all_tenants = "operate" in principal.scopes
        if not all_tenants:
            principal.require("permits")
        lease_id = scope["path"][len(_LEASES) :]
        try:
            view = self._engine.lease(lease_id, None if all_tenants else principal.tenant)
        except Refused as refused:
            raise problem_of(refused) from None
        return Reply(200, encode_json(view))

    async def _renew(self, scope: Scope, receive: Receive) -> Reply | None:
        headers = headers_of(scope)
        principal = self._permitted(headers)
        lease_id = scope["path"][len(_LEASES) : -len(_RENEW_END)]
        try:
            pool = self._engine.pool_of(lease_id, principal.tenant)
            raw = await read_body(headers, receive)
            if not raw:
                raise invalid("body", 'empty; send {"ttl_s": 60}')
            body = decode(_RENEW, raw)
            ttl_us = None if body.ttl_s is UNSET else _micros("ttl_s", body.ttl_s, pool.max_ttl_us)
            lease = await self._engine.renew(lease_id, principal.tenant, ttl_us)
        except Refused as refused:
            raise problem_of(refused) from None
        return Reply(200, self._encoded(lease))

    async def _release(self, scope: Scope, receive: Receive) -> Reply | None:
        headers = headers_of(scope)
        principal = self._permitted(headers)
        lease_id = scope["path"][len(_LEASES) : -len(_RELEASE_END)]
        raw = await read_body(headers, receive)
        if raw:
            decode(_RELEASE, raw)
        try:
            released = await self._engine.release(lease_id, principal.tenant)
        except Refused as refused:
            raise problem_of(refused) from None
        if released.reason is None:
            body = ReleaseAnswer(True, held_s=released.held_us / SECOND)
        else:
            body = ReleaseAnswer(False, reason=_LATE[released.reason])
        return Reply(200, encode_json(body))


def _names_one(path: str, prefix: str) -> bool:
    return path.startswith(prefix) and "/" not in path[len(prefix) :]


def _idempotency_key(headers: dict[bytes, bytes]) -> str | None:
    raw = headers.get(b"idempotency-key")
    if raw is None:
        return None
    key = raw.decode("latin-1").strip()
    if not 1 <= len(key) <= KEY_CHARACTERS:
        raise invalid("Idempotency-Key", f"1 to {KEY_CHARACTERS} characters")
    return key


def _micros(field: str, seconds: float, most: int) -> int:
    micros = seconds * SECOND
    if micros > most:
        raise invalid(field, f"at most {most / SECOND:g} in this pool")
    return int(micros) or int(seconds > 0)


def _check_metadata(metadata: dict[str, Any]) -> None:
    """What cannot be kept, or read back by everybody, is not taken."""
    try:
        size = len(encode_json(metadata))
        msgspec.msgpack.encode(metadata)
    except (OverflowError, ValueError, RecursionError):
        raise invalid("metadata", "numbers must fit into 64 bits") from None
    if size > METADATA_BYTES:
        raise invalid("metadata", f"at most {METADATA_BYTES} bytes as JSON")
    if _depth(metadata, METADATA_DEPTH) > METADATA_DEPTH:
        raise invalid("metadata", f"at most {METADATA_DEPTH} levels deep")


def _depth(value: Any, most: int) -> int:
    """How deep a JSON value is nested; anything above `most` once that is sure."""
    if not most:
        return 1
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return 1 + max((_depth(each, most - 1) for each in inner), default=0)
