"""The control plane of pools: configuration and states, shares, priority classes. Views parse, call, render."""

from __future__ import annotations

from typing import Any

from drf_spectacular.utils import OpenApiParameter
from rest_framework.request import Request
from rest_framework.response import Response

from relay.api import (
    ApiView,
    actor,
    if_match,
    listed,
    named_page,
    offset_page,
    query_flag,
    query_reason,
    read_nothing,
    read_object,
)
from relay.openapi import IF_MATCH, LIST_QUERY, REASON_QUERY, documented, list_of, ref
from relay.permits import classes, config
from relay.permits.engine.base import PoolState
from relay.permits.live import pool_answers
from relay.permits.models import Pool, PriorityClass
from relay.permits.serializers import class_fields, share_fields

ETAG = {"ETag": {"type": "string", "description": 'The version in quotes, for If-Match: "3"'}}
LOCATION = {"Location": {"type": "string"}}
FORCE_QUERY = [OpenApiParameter("force", bool, description="Also a pool that is in use")]
STATE_CHANGE: dict[str, Any] = {
    "answer": ref("Pool"),
    "body": "Reason",
    "body_required": False,
    "problems": ("pool-not-found", "version-conflict", "engine-unavailable"),
    "query": IF_MATCH,
    "headers": ETAG,
}


def pool_response(pool: Pool, status: int = 200, warnings: list[str] | None = None) -> Response:
    """One pool with its ETag, and warnings if there are any. Raises 404 if it was deleted since."""
    answers = pool_answers([pool])
    if not answers:
        raise config.pool_not_found(pool.name)
    return Response(
        answers[0] | ({"warnings": warnings} if warnings else {}), status, headers={"ETag": f'"{pool.version}"'}
    )


def change_state(request: Request, name: str, state: PoolState) -> Response:
    """Brings a pool into a state; idempotent."""
    reason = read_nothing(request)
    return pool_response(config.set_pool_state(name, state, if_match(request), actor=actor(request), reason=reason))


class PoolsView(ApiView):
    """`/pools`."""

    @documented(
        "list_pools",
        "The pools, by name",
        answer=list_of("Pool"),
        problems=("invalid", "engine-unavailable"),
        query=LIST_QUERY,
    )
    def get(self, request: Request) -> Response:
        """A page of pools."""
        pools, following = named_page(request, Pool.objects.all())
        return listed(pool_answers(pools), following)

    @documented(
        "create_pool",
        "Makes a pool",
        answer=ref("Pool"),
        status=201,
        body="NewPool",
        problems=("pool-exists", "engine-unavailable"),
        headers=ETAG | LOCATION,
    )
    def post(self, request: Request) -> Response:
        """Makes a pool."""
        fields, reason = read_object(request)
        pool = config.create_pool(fields, actor=actor(request), reason=reason)
        response = pool_response(pool, 201)
        response["Location"] = f"/api/v1/pools/{pool.name}"
        return response


class PoolView(ApiView):
    """`/pools/{pool}`."""

    @documented(
        "get_pool", "One pool", answer=ref("Pool"), problems=("pool-not-found", "engine-unavailable"), headers=ETAG
    )
    def get(self, request: Request, pool: str) -> Response:
        """One pool."""
        return pool_response(config.find_pool(pool))

    @documented(
        "update_pool",
        "Changes a pool, at once. `warnings` tell what is allowed but should be known",
        answer=ref("Pool"),
        body="PoolPatch",
        problems=("pool-not-found", "version-conflict", "engine-unavailable"),
        query=IF_MATCH,
        headers=ETAG,
    )
    def patch(self, request: Request, pool: str) -> Response:
        """Changes a pool."""
        fields, reason = read_object(request)
        row = config.update_pool(pool, fields, if_match(request), actor=actor(request), reason=reason)
        return pool_response(row, warnings=config.warnings(row))

    @documented(
        "delete_pool",
        "Deletes an idle pool; with force=true any: its leases end revoked, its waiters are refused",
        answer=None,
        status=204,
        problems=("invalid", "pool-not-found", "in-use", "version-conflict", "engine-unavailable"),
        query=[*IF_MATCH, *REASON_QUERY, *FORCE_QUERY],
    )
    def delete(self, request: Request, pool: str) -> Response:
        """Deletes a pool."""
        force = query_flag(request, "force")
        config.delete_pool(pool, force, if_match(request), actor=actor(request), reason=query_reason(request))
        return Response(status=204)


class PauseView(ApiView):
    """`/pools/{pool}/pause`."""

    @documented("pause_pool", "No new grants; waiters stay, leases renew and release", **STATE_CHANGE)
    def post(self, request: Request, pool: str) -> Response:
        """Pauses a pool, from any state."""
        return change_state(request, pool, "paused")


class DrainView(ApiView):
    """`/pools/{pool}/drain`."""

    @documented("drain_pool", "New acquires are refused, waiters are still served", **STATE_CHANGE)
    def post(self, request: Request, pool: str) -> Response:
        """Drains a pool, from any state."""
        return change_state(request, pool, "draining")


class ResumeView(ApiView):
    """`/pools/{pool}/resume`."""

    @documented("resume_pool", "Ends a pause or a drain", **STATE_CHANGE)
    def post(self, request: Request, pool: str) -> Response:
        """Makes a pool active, from any state."""
        return change_state(request, pool, "active")


class SharesView(ApiView):
    """`/pools/{pool}/tenants`."""

    @documented(
        "list_shares",
        "The tenants' shares of a pool, by tenant; who is not listed has the defaults",
        answer=list_of("Share"),
        problems=("invalid", "pool-not-found"),
        query=LIST_QUERY,
    )
    def get(self, request: Request, pool: str) -> Response:
        """A page of shares."""
        rows, following = named_page(
            request, config.find_pool(pool).shares.select_related("tenant"), field="tenant__name"
        )
        return listed([share_fields(row) for row in rows], following)


class ShareView(ApiView):
    """`/pools/{pool}/tenants/{tenant}`."""

    @documented("get_share", "A tenant's share of a pool", answer=ref("Share"), problems=("share-not-found",))
    def get(self, request: Request, pool: str, tenant: str) -> Response:
        """One share."""
        return Response(share_fields(config.find_share(config.find_pool(pool), tenant)))

    @documented(
        "put_share",
        "Sets a tenant's share of a pool, whole",
        answer=ref("Share"),
        body="ShareBody",
        problems=("share-not-found", "version-conflict", "engine-unavailable"),
        query=IF_MATCH,
    )
    def put(self, request: Request, pool: str, tenant: str) -> Response:
        """Sets a share."""
        fields, reason = read_object(request)
        share = config.put_share(pool, tenant, fields, if_match(request), actor=actor(request), reason=reason)
        return Response(share_fields(share))

    @documented(
        "delete_share",
        "Takes a tenant's share away: the defaults hold again",
        answer=None,
        status=204,
        problems=("invalid", "share-not-found", "version-conflict", "engine-unavailable"),
        query=[*IF_MATCH, *REASON_QUERY],
    )
    def delete(self, request: Request, pool: str, tenant: str) -> Response:
        """Deletes a share."""
        config.delete_share(pool, tenant, if_match(request), actor=actor(request), reason=query_reason(request))
        return Response(status=204)


class ClassesView(ApiView):
    """`/priority-classes`."""

    write_scope = "admin"

    @documented(
        "list_priority_classes",
        "The priority classes, the most urgent first",
        answer=list_of("PriorityClass"),
        problems=("invalid",),
        query=LIST_QUERY,
    )
    def get(self, request: Request) -> Response:
        """The classes."""
        rows = PriorityClass.objects.all()
        found, following = offset_page(request, lambda offset, limit: list(rows[offset : offset + limit]))
        return listed([class_fields(row) for row in found], following)

    @documented(
        "create_priority_class",
        "Makes a priority class; at most 16 can be",
        answer=ref("PriorityClass"),
        status=201,
        body="NewClass",
        problems=("in-use", "engine-unavailable"),
        headers=LOCATION,
    )
    def post(self, request: Request) -> Response:
        """Makes a class."""
        fields, reason = read_object(request)
        row = classes.create_class(fields, actor=actor(request), reason=reason)
        return Response(class_fields(row), 201, headers={"Location": f"/api/v1/priority-classes/{row.name}"})


class ClassView(ApiView):
    """`/priority-classes/{name}`."""

    write_scope = "admin"

    @documented("get_priority_class", "One priority class", answer=ref("PriorityClass"), problems=("not-found",))
    def get(self, request: Request, name: str) -> Response:
        """One class."""
        return Response(class_fields(classes.find_class(name)))

    @documented(
        "update_priority_class",
        "Changes a class's rank; waiters are reordered",
        answer=ref("PriorityClass"),
        body="ClassPatch",
        problems=("not-found", "engine-unavailable"),
    )
    def patch(self, request: Request, name: str) -> Response:
        """Changes a class."""
        fields, reason = read_object(request)
        return Response(class_fields(classes.update_class(name, fields, actor=actor(request), reason=reason)))

    @documented(
        "delete_priority_class",
        "Deletes a class that nothing names",
        answer=None,
        status=204,
        problems=("invalid", "not-found", "in-use", "engine-unavailable"),
        query=REASON_QUERY,
    )
    def delete(self, request: Request, name: str) -> Response:
        """Deletes a class."""
        classes.delete_class(name, actor=actor(request), reason=query_reason(request))
        return Response(status=204)
