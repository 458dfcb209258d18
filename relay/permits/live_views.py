"""The control plane's look at what runs: who holds, who waits, a pool's history; and the operator's hand on both."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from django.utils import timezone
from drf_spectacular.utils import OpenApiParameter
from rest_framework.request import Request
from rest_framework.response import Response

from relay.api import ApiView, actor, listed, offset_page, query_range, read_nothing, visible_tenant
from relay.openapi import LIST_QUERY, documented, list_of, range_query, ref
from relay.permits import acts
from relay.permits.config import find_pool
from relay.permits.live import on_loop, waiter_answer
from relay.tenants.changes import changes_of

LIVE_QUERY = [*LIST_QUERY, OpenApiParameter("tenant", str), OpenApiParameter("priority", str)]


class LeasesView(ApiView):
    """`/pools/{pool}/leases`."""

    @documented(
        "list_leases",
        "Who holds permits, the oldest first; without `operate` one's own tenant only",
        answer=list_of("LeaseAnswer"),
        problems=("invalid", "pool-not-found", "engine-unavailable"),
        query=LIVE_QUERY,
    )
    def get(self, request: Request, pool: str) -> Response:
        """A page of leases."""
        found, following = _live_page(request, pool, "leases")
        return listed(found, following)


class WaitersView(ApiView):
    """`/pools/{pool}/waiters`."""

    @documented(
        "list_waiters",
        "Who waits, in the order of service; without `operate` one's own tenant only",
        answer=list_of("Waiter"),
        problems=("invalid", "pool-not-found", "engine-unavailable"),
        query=LIVE_QUERY,
    )
    def get(self, request: Request, pool: str) -> Response:
        """A page of waiters."""
        found, following = _live_page(request, pool, "waiters")
        return listed([waiter_answer(view) for view in found], following)


def _live_page(request: Request, pool: str, what: str) -> tuple[list[Any], str | None]:
    find_pool(pool)
    visible, tenant = visible_tenant(request, request.GET.get("tenant"))
    priority = request.GET.get("priority")

    def fetch(offset: int, limit: int) -> list[Any]:
        if not visible:
            return []
        return on_loop(
            lambda runtime: getattr(runtime.engine, what)(
                pool, tenant=tenant, priority=priority, offset=offset, limit=limit
            )
        )

    return offset_page(request, fetch)


class HistoryView(ApiView):
    """`/pools/{pool}/history`."""

    @documented(
        "pool_history",
        "A pool's samples; a gap is a missing row. `changes` are those of the range that one may see",
        answer=ref("History"),
        problems=("invalid", "pool-not-found", "engine-unavailable"),
        query=[range_query("1h")],
    )
    def get(self, request: Request, pool: str) -> Response:
        """The samples of a range."""
        range_s = query_range(request, "1h")
        find_pool(pool)
        history = on_loop(lambda runtime: runtime.meters.pool(pool).history(range_s))
        _, tenant = visible_tenant(request)
        since = timezone.now() - timedelta(seconds=range_s)
        return Response(history | {"changes": changes_of(pool, since, tenant)})


class RevokeView(ApiView):
    """`/leases/{id}/revoke`."""

    @documented(
        "revoke_lease",
        "Ends anybody's lease; its permits go on at once. `revoked` is false if it had ended",
        answer=ref("Revoked"),
        body="Reason",
        body_required=False,
        problems=("lease-not-found", "engine-unavailable"),
    )
    def post(self, request: Request, id: str) -> Response:  # noqa: A002 - the name in the path
        """Revokes a lease."""
        reason = read_nothing(request)
        return Response({"revoked": acts.revoke(id, actor=actor(request), reason=reason)})


class CancelView(ApiView):
    """`/waiters/{id}/cancel`."""

    @documented(
        "cancel_waiter",
        "Ends a wait; its caller is answered 409 `waiter-cancelled`",
        answer=ref("Cancelled"),
        body="Reason",
        body_required=False,
        problems=("not-found", "engine-unavailable"),
    )
    def post(self, request: Request, id: str) -> Response:  # noqa: A002 - the name in the path
        """Cancels a waiter."""
        reason = read_nothing(request)
        acts.cancel(id, actor=actor(request), reason=reason)
        return Response({"cancelled": True})
