"""The control plane's look at usage: tokens and cost by hour, model and tenant."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import cast

from django.utils import timezone
from drf_spectacular.utils import OpenApiParameter
from msgspec import Struct
from rest_framework.request import Request
from rest_framework.response import Response

from relay.api import ApiView, offset_page, query_range, visible_tenant
from relay.http import invalid
from relay.openapi import LIST_QUERY, documented, range_query, ref
from relay.telemetry.token_meter import CORE_HOUR_USD
from relay.tokens.usage import By, UsageTotal, hour_of, totals

GROUPS = ("hour", "model", "tenant")
USAGE_QUERY = [
    range_query("24h"),
    OpenApiParameter(
        "by",
        {"type": "string", "default": "model"},
        description="What to tell apart, by commas: hour, model, tenant; empty for one sum",
    ),
    OpenApiParameter("tenant", str),
    *LIST_QUERY,
]


class Usage(Struct):
    """Usage since the beginning of an hour. `core_hour_usd`: at which each `saved_usd` values an hour of a core."""

    since: datetime
    core_hour_usd: float
    items: list[UsageTotal]
    next: str | None


class UsageView(ApiView):
    """`/tokens/usage`."""

    @documented(
        "token_usage",
        "Tokens counted and what they cost, up to 10 s ago; without `operate` one's own tenant only",
        answer=ref("Usage"),
        problems=("invalid",),
        query=USAGE_QUERY,
    )
    def get(self, request: Request) -> Response:
        """A page of sums."""
        since = hour_of(timezone.now() - timedelta(seconds=query_range(request, "24h")))
        by = _groups(request.GET.get("by", "model"))
        visible, tenant = visible_tenant(request, request.GET.get("tenant"))

        def fetch(offset: int, limit: int) -> list[UsageTotal]:
            return totals(since, by, tenant=tenant, offset=offset, limit=limit) if visible else []

        items, following = offset_page(request, fetch)
        return Response(Usage(since, CORE_HOUR_USD, items, following))


def _groups(text: str) -> list[By]:
    words = [word.strip() for word in text.split(",")] if text.strip() else []
    if len(set(words)) < len(words) or not set(words) <= set(GROUPS):
        raise invalid("by", f"name each of {', '.join(GROUPS)} at most once, with commas between")
    return cast("list[By]", words)
