"""What else can be done to a live lease: `POST /api/v1/leases/{id}/resize`, `yield`, `resume`. Raw ASGI, beside `api.py`."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import UNSET, Meta, Struct, UnsetType

from relay.http import Connection, Handler, Receive, Reply, Scope, decode, encode_json, endpoint, headers_of, read_body
from relay.permits.api import Duration, micros
from relay.permits.engine.base import CallerGone, Engine, Refused
from relay.permits.problems import problem_of
from relay.tenants.keyring import KeyRing


class ResizeBody(Struct, forbid_unknown_fields=True):
    """The body of a resize: the permits that the lease is to have."""

    permits: Annotated[int, Meta(ge=1)]


class ResumeBody(Struct, forbid_unknown_fields=True):
    """The body of a resume; unset takes the pool's default."""

    timeout_s: Duration | UnsetType = UNSET


class YieldBody(Struct, forbid_unknown_fields=True):
    """The body of a yield: nothing."""


_RESUME = msgspec.json.Decoder(ResumeBody)
_YIELD = msgspec.json.Decoder(YieldBody)
_RESIZE = msgspec.json.Decoder(ResizeBody)


class LeaseApi:
    """The handlers, by the end of their path."""

    def __init__(self, engine: Engine, keyring: KeyRing) -> None:
        self._engine = engine
        self._keyring = keyring
        self.acts: dict[str, Handler] = {
            "/resize": endpoint("POST", self._resize),
            "/yield": endpoint("POST", self._yield),
            "/resume": endpoint("POST", self._resume),
        }

    async def _resize(self, scope: Scope, receive: Receive) -> Reply | None:
        headers = headers_of(scope)
        tenant = self._keyring.permit(headers.get(b"authorization"), "permits").tenant
        lease_id = scope["path"].split("/")[-2]
        try:
            self._engine.pool_of(lease_id, tenant)
            body = decode(_RESIZE, await read_body(headers, receive))
            lease = await self._engine.resize(lease_id, tenant, body.permits)
        except Refused as refused:
            raise problem_of(refused) from None
        return Reply(200, encode_json(self._engine.view(lease)))

    async def _yield(self, scope: Scope, receive: Receive) -> Reply | None:
        headers = headers_of(scope)
        tenant = self._keyring.permit(headers.get(b"authorization"), "permits").tenant
        lease_id = scope["path"].split("/")[-2]
        try:
            self._engine.pool_of(lease_id, tenant)
            decode(_YIELD, await read_body(headers, receive))
            lease = await self._engine.yield_lease(lease_id, tenant)
        except Refused as refused:
            raise problem_of(refused) from None
        return Reply(200, encode_json(self._engine.view(lease)))

    async def _resume(self, scope: Scope, receive: Receive) -> Reply | None:
        headers, connection = headers_of(scope), Connection(receive)
        tenant = self._keyring.permit(headers.get(b"authorization"), "permits").tenant
        lease_id = scope["path"].split("/")[-2]
        try:
            pool = self._engine.pool_of(lease_id, tenant)
            body = decode(_RESUME, await read_body(headers, receive))
            timeout_us = pool.default_timeout_us
            if body.timeout_s is not UNSET:
                timeout_us = micros("timeout_s", body.timeout_s, pool.max_timeout_us)
            lease = await self._engine.resume_lease(lease_id, tenant, timeout_us, connection)
        except CallerGone:
            return None
        except Refused as refused:
            raise problem_of(refused) from None
        finally:
            connection.close()
        return Reply(200, encode_json(self._engine.view(lease)))
