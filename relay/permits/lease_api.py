"""What else can be done to a live lease: `POST /api/v1/leases/{id}/resize`. Raw ASGI, beside `api.py`."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta, Struct

from relay.http import Handler, Receive, Reply, Scope, decode, encode_json, endpoint, headers_of, read_body
from relay.permits.engine.base import Engine, Refused
from relay.permits.problems import problem_of
from relay.tenants.keyring import KeyRing


class ResizeBody(Struct, forbid_unknown_fields=True):
    """The body of a resize: the permits that the lease is to have."""

    permits: Annotated[int, Meta(ge=1)]


_RESIZE = msgspec.json.Decoder(ResizeBody)


class LeaseApi:
    """The handlers, by the end of their path."""

    def __init__(self, engine: Engine, keyring: KeyRing) -> None:
        self._engine = engine
        self._keyring = keyring
        self.acts: dict[str, Handler] = {"/resize": endpoint("POST", self._resize)}

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
