"""The data plane of permits: acquire, look at, renew and release a lease. Raw ASGI; nothing here touches the database."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from typing import Annotated, Any

import msgspec
from msgspec import UNSET, Meta, Struct, UnsetType, structs

from relay.http import (
    LOST,
    Connection,
    Handler,
    Problem,
    Receive,
    Reply,
    Scope,
    Send,
    answer_error,
    attended,
    decode,
    encode_json,
    endpoint,
    headers_of,
    invalid,
    method_not_allowed,
    read_body,
    send_json,
)
from relay.permits.engine.base import SECOND, Ask, CallerGone, Engine, Lease, PoolConfig, Refused
from relay.permits.problems import problem_of
from relay.permits.sizing.base import Outcome
from relay.tenants.keyring import KeyRing

log = logging.getLogger("relay.http")

METADATA_BYTES = 2048
METADATA_DEPTH = 32
KEY_CHARACTERS = 200

Duration = Annotated[float, Meta(ge=0)]
Lasting = Annotated[float, Meta(gt=0)]
Tokens = Annotated[int, Meta(ge=0, le=1_000_000_000)]
Count = Callable[[str, str, str], Awaitable[tuple[int, Any, Any]]]


class AcquireBody(Struct, forbid_unknown_fields=True):
    """The body of an acquire; what is unset takes the pool's default.

    `tokens` is what the call will use of the pool's tokens a minute; or `model` and `text`, whose tokens are counted.
    `parent_lease_id` is a lease that the caller holds until it has this one: waits that could not end are refused.
    """

    permits: Annotated[int, Meta(ge=1)] = 1
    priority: str | UnsetType = UNSET
    timeout_s: Duration | UnsetType = UNSET
    ttl_s: Lasting | UnsetType = UNSET
    holder: Annotated[str, Meta(max_length=200)] = ""
    metadata: dict[str, Any] = {}
    tokens: Tokens | UnsetType = UNSET
    model: str | UnsetType = UNSET
    text: str | UnsetType = UNSET
    parent_lease_id: str | UnsetType = UNSET


class RenewBody(Struct, forbid_unknown_fields=True):
    """The body of a renewal; unset keeps the lease's time to live."""

    ttl_s: Lasting | UnsetType = UNSET


class ReleaseBody(Struct, forbid_unknown_fields=True):
    """The body of a release: how the work went, and the tokens that it used in truth: the difference is settled."""

    outcome: Outcome = "ok"
    tokens: Tokens | UnsetType = UNSET


class ReleaseAnswer(Struct, omit_defaults=True):
    """What a release did."""

    released: bool
    held_s: float | UnsetType = UNSET
    reason: str | UnsetType = UNSET


_ACQUIRE = msgspec.json.Decoder(AcquireBody)
_RENEW = msgspec.json.Decoder(RenewBody)
_RELEASE = msgspec.json.Decoder(ReleaseBody)
_WENT_WELL = ReleaseBody()
_LATE = {"released": "already-released", "expired": "expired", "revoked": "revoked", "dropped": "dropped"}

_POOLS, _ACQUIRE_END = "/api/v1/pools/", "/acquire"
_LEASES, _RENEW_END, _RELEASE_END = "/api/v1/leases/", "/renew", "/release"
_POOL_NAME = slice(len(_POOLS), -len(_ACQUIRE_END))
_RELEASED_ID = slice(len(_LEASES), -len(_RELEASE_END))
_ACTION_DEPTH = 5  # slashes in /api/v1/leases/{id}/release and its like


class AcquireConnection(Connection):
    """The connection of an acquire, on which its lease may be answered from within the release that made room for it."""

    __slots__ = ("_engine", "answered")

    def __init__(self, receive: Receive, engine: Engine) -> None:
        super().__init__(receive)
        self._engine = engine
        self.answered = False

    def hand(self, lease: Lease) -> bool:
        """Answers at once; False if that cannot be, and the call itself has to."""
        if not self.answer_json(201, encode_json(self._engine.view(lease))):
            return False
        self.answered = True
        self._engine.delivered(lease)
        return True


class PermitsApi:
    """The handlers, and which path is whose. `completed` hears of every release: pool, outcome, µs held.

    `count` counts a text's tokens: tenant, model, text; what it raises is answered as it is.
    """

    def __init__(
        self, engine: Engine, keyring: KeyRing, completed: Callable[[str, Outcome, int], None], count: Count
    ) -> None:
        self._engine = engine
        self._keyring = keyring
        self._completed = completed
        self._count = count
        self._permit = keyring.permit
        self.acts: dict[str, Handler] = {}  # what else can be done to a lease, by the end of its path
        self._rank = engine.rank
        self._lease_endpoint = endpoint("GET", self._lease)
        self._renew_endpoint = endpoint("POST", self._renew)

    def handler(self, path: str) -> Handler | None:
        """The handler of a path, None if it is not the data plane's."""
        depth = path.count("/")
        if depth == _ACTION_DEPTH:
            if path.startswith(_LEASES):
                if path.endswith(_RELEASE_END):
                    return self._release
                if path.endswith(_RENEW_END):
                    return self._renew_endpoint
                return self.acts.get(path[path.rindex("/") :])
            return self._acquire if path.endswith(_ACQUIRE_END) and path.startswith(_POOLS) else None
        named = depth == _ACTION_DEPTH - 1 and path.startswith(_LEASES) and len(path) > len(_LEASES)
        return self._lease_endpoint if named else None

    async def _acquire(self, scope: Scope, receive: Receive, send: Send) -> None:
        """An acquire from its head to its answer. One coroutine: each one more costs every request about 0.2 µs."""
        connection = AcquireConnection(receive, self._engine)
        try:
            if scope["method"] != "POST":
                raise method_not_allowed("POST")
            headers = dict(scope["headers"])
            tenant = self._permit(headers.get(b"authorization"), "permits").tenant
            name = scope["path"][_POOL_NAME]
            engine = self._engine
            pool = engine.pool(name)
            if pool is None:
                raise Problem(404, "pool-not-found", f"There is no pool {name[:100]!r}. GET /api/v1/pools lists them.")
            try:
                body = decode(_ACQUIRE, await read_body(headers, receive))
                ask = self.ask(pool, tenant, body, headers.get(b"idempotency-key"))
                if body.model is not UNSET or body.text is not UNSET:
                    ask = await self._counted(ask, body, receive)
            except Problem:
                engine.malformed(name, tenant)
                raise
            lease, granted = await engine.acquire(name, ask, connection, connection.hand)
            if connection.answered:
                return
            answer = encode_json(engine.view(lease))
        except CallerGone:
            return
        except Exception as error:
            await answer_error(scope, send, problem_of(error) if isinstance(error, Refused) else error)
            return
        finally:
            connection.close()
        try:
            await send_json(201 if granted else 200, answer, receive, send)
        except BaseException as error:
            engine.undelivered(lease)
            if not isinstance(error, LOST):
                raise
        else:
            if connection.dropped():
                engine.undelivered(lease)
            else:
                engine.delivered(lease)

    def ask(self, pool: PoolConfig, tenant: str, body: AcquireBody, key: bytes | None) -> Ask:
        """Fills in the pool's defaults. Raises 400 that names the field."""
        if body.metadata:
            _check_metadata(body.metadata)
        priority = pool.default_priority if body.priority is UNSET else body.priority
        if pool.shares or self._rank(priority) is None:
            priority = self._priority(pool, tenant, body.priority)
        return Ask(
            tenant,
            body.permits,
            priority,
            pool.default_timeout_us
            if body.timeout_s is UNSET
            else micros("timeout_s", body.timeout_s, pool.max_timeout_us),
            pool.default_ttl_us if body.ttl_s is UNSET else micros("ttl_s", body.ttl_s, pool.max_ttl_us),
            body.holder,
            body.metadata,
            None if key is None else _idempotency_key(key),
            0 if body.tokens is UNSET else body.tokens,
            None if body.parent_lease_id is UNSET else self._parent(tenant, body.parent_lease_id),
        )

    def _parent(self, tenant: str, lease_id: str) -> str:
        try:
            self._engine.pool_of(lease_id, tenant)
        except Refused:
            raise invalid("parent_lease_id", "this tenant has no live lease of this id") from None
        return lease_id

    async def _counted(self, ask: Ask, body: AcquireBody, receive: Receive) -> Ask:
        """The ask with the tokens of its text, counted exactly. Raises 400 that names the field, and what the count does."""
        if body.tokens is not UNSET:
            raise invalid("tokens", "state tokens, or give model and text to have them counted, not both")
        if body.model is UNSET or body.text is UNSET:
            missing = "model" if body.model is UNSET else "text"
            raise invalid(missing, "missing; model and text go together")
        counting = self._count(ask.tenant, body.model, body.text)
        tokens, _, _ = await attended(receive, len(body.text), counting)
        return structs.replace(ask, tokens=tokens)

    def _priority(self, pool: PoolConfig, tenant: str, asked: str | UnsetType) -> str:
        """The class of an acquire, within the tenant's share. Raises 400."""
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
        tenant = self._permit(headers.get(b"authorization"), "permits").tenant
        lease_id = scope["path"][len(_LEASES) : -len(_RENEW_END)]
        try:
            pool = self._engine.pool_of(lease_id, tenant)
            raw = await read_body(headers, receive)
            if not raw:
                raise invalid("body", 'empty; send {"ttl_s": 60}')
            body = decode(_RENEW, raw)
            ttl_us = None if body.ttl_s is UNSET else micros("ttl_s", body.ttl_s, pool.max_ttl_us)
            lease = await self._engine.renew(lease_id, tenant, ttl_us)
        except Refused as refused:
            raise problem_of(refused) from None
        return Reply(200, encode_json(self._engine.view(lease)))

    async def _release(self, scope: Scope, receive: Receive, send: Send) -> None:
        """A release from its head to its answer, in one coroutine as well."""
        try:
            if scope["method"] != "POST":
                raise method_not_allowed("POST")
            headers = dict(scope["headers"])
            tenant = self._permit(headers.get(b"authorization"), "permits").tenant
            raw = await read_body(headers, receive)
            body = decode(_RELEASE, raw) if raw else _WENT_WELL
            tokens = None if body.tokens is UNSET else body.tokens
            released = await self._engine.release(scope["path"][_RELEASED_ID], tenant, tokens)
        except Exception as error:
            await answer_error(scope, send, problem_of(error) if isinstance(error, Refused) else error)
            return
        if released.reason is None:
            self._completed(released.pool, body.outcome, released.held_us)
            answer = encode_json(ReleaseAnswer(True, released.held_us / SECOND))
        else:
            answer = encode_json(ReleaseAnswer(False, reason=_LATE[released.reason]))
        try:
            await send_json(200, answer, receive, send)
        except LOST:
            log.debug("A release's caller was gone")


def _idempotency_key(raw: bytes) -> str:
    key = raw.decode("latin-1").strip()
    if not 1 <= len(key) <= KEY_CHARACTERS:
        raise invalid("Idempotency-Key", f"1 to {KEY_CHARACTERS} characters")
    return key


def micros(field: str, seconds: float, most: int) -> int:
    """A duration in µs. Raises 400 that names the field if it is above `most` µs."""
    found = seconds * SECOND
    if found > most:
        raise invalid(field, f"at most {most / SECOND:g} in this pool")
    return int(found) or int(seconds > 0)


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
