"""The control plane of sizing: how a pool is sized, and what the sizing decided lately."""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import Struct
from rest_framework.request import Request
from rest_framework.response import Response

from relay.api import ApiView, actor, if_match, query_reason, read_object
from relay.openapi import IF_MATCH, REASON_QUERY, documented, ref
from relay.permits.autosize import Recent
from relay.permits.config import find_pool
from relay.permits.live import on_loop
from relay.permits.models import Pool
from relay.permits.sizing import config
from relay.permits.sizing.rows import sizing_of
from relay.permits.sizing.sizer import Sizing
from relay.tenants import running

ETAG = {"ETag": {"type": "string", "description": 'The version in quotes, for If-Match: "3"'}}


class PoolSizing(Struct, frozen=True):
    """How a pool is sized (null: by hand), and what was decided since the server started, the newest first."""

    pool: str
    version: int
    capacity: int
    sizing: Sizing | None
    decisions: list[Recent]


class SizingPatch(Struct, frozen=True):
    """What of a sizing can be changed by itself; `policy` is replaced whole."""

    policy: dict[str, Any] | None = None
    minimum: int | None = None
    maximum: int | None = None
    cooldown_s: float | None = None
    pin: int | None = None
    dry_run: bool | None = None


def sizing_response(pool: Pool) -> Response:
    """A pool's sizing with its ETag."""
    decisions = [] if running.server() is None else on_loop(lambda server: server.autosizer.recent(pool.name))
    found = PoolSizing(pool.name, pool.version, pool.capacity, sizing_of(pool), decisions)
    return Response(msgspec.to_builtins(found), headers={"ETag": f'"{pool.version}"'})


class SizingView(ApiView):
    """`/pools/{pool}/sizing`."""

    @documented(
        "get_sizing",
        "How a pool is sized, and what was decided lately",
        answer=ref("PoolSizing"),
        problems=("pool-not-found", "engine-unavailable"),
        headers=ETAG,
    )
    def get(self, request: Request, pool: str) -> Response:
        """The sizing."""
        return sizing_response(find_pool(pool))

    @documented(
        "put_sizing",
        "Sets how a pool is sized, whole: by load, by schedule, or adaptive. `dry_run` decides and changes nothing",
        answer=ref("PoolSizing"),
        body="Sizing",
        problems=("pool-not-found", "version-conflict", "engine-unavailable"),
        query=IF_MATCH,
        headers=ETAG,
    )
    def put(self, request: Request, pool: str) -> Response:
        """Sets the sizing."""
        fields, reason = read_object(request)
        return sizing_response(config.put_sizing(pool, fields, if_match(request), actor=actor(request), reason=reason))

    @documented(
        "patch_sizing",
        "Changes parts of a sizing: `pin` sets a size by hand that wins over the policy, null takes it away",
        answer=ref("PoolSizing"),
        body="SizingPatch",
        problems=("pool-not-found", "version-conflict", "engine-unavailable"),
        query=IF_MATCH,
        headers=ETAG,
    )
    def patch(self, request: Request, pool: str) -> Response:
        """Changes the sizing."""
        fields, reason = read_object(request)
        row = config.patch_sizing(pool, fields, if_match(request), actor=actor(request), reason=reason)
        return sizing_response(row)

    @documented(
        "delete_sizing",
        "Ends the sizing: the pool keeps the size that it has",
        answer=None,
        status=204,
        problems=("invalid", "pool-not-found", "version-conflict", "engine-unavailable"),
        query=[*IF_MATCH, *REASON_QUERY],
    )
    def delete(self, request: Request, pool: str) -> Response:
        """Ends the sizing."""
        config.delete_sizing(pool, if_match(request), actor=actor(request), reason=query_reason(request))
        return Response(status=204)
