"""`POST /api/v1/acquire`: permits of several pools, all or nothing. Raw ASGI, beside `api.py`."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
from msgspec import UNSET, Meta, Raw, Struct, UnsetType, structs

from relay.http import (
    LOST,
    Connection,
    Problem,
    Receive,
    Scope,
    Send,
    answer_error,
    decode,
    encode_json,
    headers_of,
    invalid,
    method_not_allowed,
    read_body,
    send_json,
)
from relay.permits.api import AcquireBody, Duration, Lasting, PermitsApi, Tokens
from relay.permits.engine.base import Ask, CallerGone, Engine, LeaseAnswer, Refused
from relay.permits.problems import problem_of
from relay.tenants.keyring import KeyRing

POOLS_LIMIT = 16


class PoolRequest(Struct, forbid_unknown_fields=True):
    """What is wanted of one pool."""

    pool: str
    permits: Annotated[int, Meta(ge=1)] = 1
    tokens: Tokens = 0


class AcquireSeveralBody(Struct, forbid_unknown_fields=True):
    """The body of an acquire over several pools, each once. What is unset takes the pools' defaults, the shortest timeout."""

    requests: Annotated[list[PoolRequest], Meta(min_length=1, max_length=POOLS_LIMIT)]
    priority: str | UnsetType = UNSET
    timeout_s: Duration | UnsetType = UNSET
    ttl_s: Lasting | UnsetType = UNSET
    holder: Annotated[str, Meta(max_length=200)] = ""
    metadata: dict[str, Any] = {}


class SeveralLeases(Struct):
    """One lease a pool, in the order of the requests."""

    leases: list[LeaseAnswer]


class _Loose(Struct):
    """The body's requests, whatever they are: to find out which one does not fit."""

    requests: list[Raw]


_BODY = msgspec.json.Decoder(AcquireSeveralBody)
_LOOSE = msgspec.json.Decoder(_Loose)
_REQUEST = msgspec.json.Decoder(PoolRequest)


class SeveralApi:
    """The handler. `permits` fills in each pool's defaults."""

    path = "/api/v1/acquire"

    def __init__(self, engine: Engine, keyring: KeyRing, permits: PermitsApi) -> None:
        self._engine = engine
        self._keyring = keyring
        self._permits = permits

    async def acquire(self, scope: Scope, receive: Receive, send: Send) -> None:
        """From its head to its answer."""
        engine, connection = self._engine, Connection(receive)
        try:
            if scope["method"] != "POST":
                raise method_not_allowed("POST")
            headers = headers_of(scope)
            tenant = self._keyring.permit(headers.get(b"authorization"), "permits").tenant
            body = _decoded(await read_body(headers, receive))
            wanted = self._wanted(tenant, body, headers.get(b"idempotency-key"))
            leases, granted = await engine.acquire_several(wanted, connection)
            answer = encode_json(SeveralLeases([engine.view(lease) for lease in leases]))
        except CallerGone:
            return
        except Exception as error:
            await answer_error(scope, send, problem_of(error) if isinstance(error, Refused) else error)
            return
        finally:
            connection.close()
        arrived = False
        try:
            await send_json(201 if granted else 200, answer, receive, send)
            arrived = not connection.dropped()
        except LOST:
            pass
        finally:
            for lease in leases:
                (engine.delivered if arrived else engine.undelivered)(lease)

    def _wanted(self, tenant: str, body: AcquireSeveralBody, key: bytes | None) -> list[tuple[str, Ask]]:
        """What to ask of each pool. Raises 404, and 400 that names the field."""
        names = [request.pool for request in body.requests]
        for index, name in enumerate(names):
            if name in names[:index]:
                raise invalid(f"requests[{index}].pool", f"{name[:100]!r} stands here twice; add its permits up")
        asks = [self._ask(index, request, tenant, body, key) for index, request in enumerate(body.requests)]
        timeout_us = min(ask.timeout_us for ask in asks)
        # a key belongs to the tenant and these pools; a header's value has no line break
        whole = None if asks[0].key is None else "\n".join((asks[0].key, *sorted(names)))
        return [
            (name, structs.replace(ask, timeout_us=timeout_us, key=whole))
            for name, ask in zip(names, asks, strict=True)
        ]

    def _ask(self, index: int, request: PoolRequest, tenant: str, body: AcquireSeveralBody, key: bytes | None) -> Ask:
        pool = self._engine.pool(request.pool)
        if pool is None:
            detail = f"requests[{index}].pool: there is no pool {request.pool[:100]!r}. GET /api/v1/pools lists them."
            raise Problem(404, "pool-not-found", detail)
        single = AcquireBody(
            request.permits, body.priority, body.timeout_s, body.ttl_s, body.holder, body.metadata, request.tokens
        )
        try:
            return self._permits.ask(pool, tenant, single, key)
        except Problem as problem:
            raise _of_pool(problem, request.pool) from None


def _decoded(raw: bytes) -> AcquireSeveralBody:
    """Raises 400 that names `requests[i].field`: msgspec alone does not say which of a list's items it was."""
    try:
        return decode(_BODY, raw)
    except Problem:
        try:
            requests = decode(_LOOSE, raw).requests
        except Problem:
            requests = []
        for index, request in enumerate(requests[: POOLS_LIMIT + 1]):
            try:
                decode(_REQUEST, bytes(request))
            except Problem as problem:
                (field, messages), *_ = (problem.errors or {}).items()
                name = f"requests[{index}]" + ("" if field == "body" else f".{field}")
                raise invalid(name, messages[0]) from None
        raise


def _of_pool(problem: Problem, pool: str) -> Problem:
    """The same problem, and in which pool."""
    for field, messages in (problem.errors or {}).items():
        return invalid(field, f"{messages[0]} (pool {pool})")
    return problem
