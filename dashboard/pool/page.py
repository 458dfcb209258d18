"""GET: the page, its inside for refreshing, and the samples that its charts draw."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

from django.conf import settings
from django.contrib.staticfiles import finders
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.utils.translation import gettext as _
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_GET

from dashboard.frame import render_page
from dashboard.pool import charts, log, rows, sizing, undo
from dashboard.pool.facts import cause, facts
from dashboard.pool.look import Look, look
from dashboard.pool.query import TABS, Query
from dashboard.pool.shares import tenant_lines
from dashboard.pool.snippets import snippets
from dashboard.roles import by_script, problem_response, require
from relay.http import Problem
from relay.permits.config import find_pool
from relay.permits.live import Serving, on_loop
from relay.permits.models import PriorityClass
from relay.telemetry.health import HEALTHS
from relay.telemetry.history import FIELDS, SAMPLES

CHART_LIBRARY = "vendor/uplot/uPlot.iife.min.js"


@require_GET
@never_cache
@require("viewer")
def show(request: HttpRequest, pool: str) -> HttpResponse:
    """The page of a pool; `?fragment=1` gives what is inside it only. `tab`, `range`, `view`, `q` and `edit` choose."""
    return paint(request, pool)


def paint(
    request: HttpRequest, pool: str, *, conflict: dict[str, Any] | None = None, status: int = 200
) -> HttpResponse:
    """Renders the page. `conflict`: somebody else was first, and what was asked for is asked again."""
    query = Query.of(request, pool)
    try:
        found = look(pool, range_s=query.range_s, find=query.q.lower())
    except Problem as problem:
        return _missing(request, pool, problem)
    fragment = "fragment" in request.GET
    template = "dashboard/pool_body.html" if fragment else "dashboard/pool.html"
    context = _context(request, found, query) | {"conflict": conflict}
    return render_page(request, template, context, status)


def _missing(request: HttpRequest, pool: str, problem: Problem) -> HttpResponse:
    """An open page that finds its pool gone shows so in place; all else is an error."""
    if by_script(request) and problem.status != 404:
        return problem_response(problem)
    fragment = by_script(request)
    template = f"dashboard/pool_missing{'_body' if fragment else ''}.html"
    return render_page(request, template, {"problem": problem, "name": pool}, 200 if fragment else problem.status)


def _context(request: HttpRequest, found: Look, query: Query) -> dict[str, Any]:
    now = datetime.now(UTC)
    tenants = tenant_lines(found)
    has_library = finders.find(CHART_LIBRARY) is not None
    why = cause(found)
    return {
        "look": found,
        "pool": found.pool,
        "query": query,
        "facts": facts(found),
        "cause": why,
        "limit_url": query.to(tab="tenants", edit=why.tenant, limit=str(why.limit)) if why and why.tenant else "",
        "ranges": [(name, _range_words()[name], query.to(range=name)) for name in charts.RANGES],
        "range_title": _range_titles()[query.range],
        "tabs": _tabs(found, tenants, query),
        "charts": charts.charts(found.samples, query.range_s, int(now.timestamp())),
        "table": query.view == "table" or not has_library,
        "has_library": has_library,
        "library": CHART_LIBRARY,
        "other_view": query.to(view="charts" if query.view == "table" else "table"),
        "marks": log.marks(found.name, query.range_s),
        "set_by": log.set_by(found.pool),
        "sizes": rows.sizes(found),
        "undo": undo.offered(request, found.pool),
        "healths": HEALTHS,
        "words": json.dumps(words(), ensure_ascii=False),
        "address": address(request),
        **_panel(request, found, tenants, query, now),
    }


def _panel(request: HttpRequest, found: Look, tenants: Any, query: Query, now: datetime) -> dict[str, Any]:
    """What the chosen tab shows."""
    if query.tab == "holders":
        return {"holders": rows.holders(found, now), "more": rows.more(found.leases, query.q)}
    if query.tab == "waiters":
        return {"waiters": rows.waiters(found, now), "more": rows.more(found.waiters, query.q)}
    if query.tab == "tenants":
        classes = list(PriorityClass.objects.values_list("name", flat=True))
        return {"tenants": tenants, "classes": classes}
    if query.tab == "sizing":
        return sizing.panel(found.pool, query)
    if query.tab == "changes":
        return {"entries": log.entries(found.name)}
    return {"snippets": snippets(address(request), found.name)}


def address(request: HttpRequest) -> str:
    """This relay's address as callers reach it."""
    return settings.RELAY_PUBLIC_URL or request.build_absolute_uri("/").rstrip("/")


def _tabs(found: Look, tenants: Any, query: Query) -> list[dict[str, Any]]:
    words = {
        "holders": _("Holders"),
        "waiters": _("Waiters"),
        "tenants": _("Tenants"),
        "sizing": _("Sizing"),
        "changes": _("Changes"),
        "connect": _("Connect"),
    }
    counts = {"holders": rows.count(found.leases), "waiters": str(found.gauges.waiting), "tenants": str(len(tenants))}
    if query.q:
        del counts["holders"]
    return [
        {
            "name": name,
            "word": words[name],
            "count": counts.get(name, ""),
            "url": query.to(tab=name, q="", edit="", limit="", rule=""),
            "chosen": name == query.tab,
        }
        for name in TABS
    ]


def _range_words() -> dict[str, str]:
    return {"live": _("Live"), "5m": _("5 m"), "15m": _("15 m")}


def _range_titles() -> dict[str, str]:
    return {"live": _("Last minute"), "5m": _("Last 5 minutes"), "15m": _("Last 15 minutes")}


def words() -> dict[str, str | list[str]]:
    """What the page's scripts say; for one and for more where it counts."""
    return {
        "no-data": _("no data"),
        "zone": _("Times in %(zone)s"),
        "oldest": _("the oldest for %(time)s"),
        "nobody-waits": _("nobody waits"),
        "served": [_("One waiter is served at once"), _("%(count)s waiters are served at once")],
        "over-size": [
            _("One over the new size; nobody is evicted"),
            _("%(count)s over the new size; nobody is evicted"),
        ],
        "free": [_("One permit more is free at once"), _("%(count)s permits more are free at once")],
        "fewer": [_("One free permit less"), _("%(count)s free permits less")],
        "nothing": _("Nothing changes"),
        "all-the-same": _("Set %(count)s all the same"),
        "keep": _("Keep %(count)s"),
    }


def _history_of(pool: str) -> Callable[[Serving], dict[str, Any]]:
    def read(serving: Serving) -> dict[str, Any]:
        return serving.meters.pool(pool).history(SAMPLES)

    return read


@require_GET
@never_cache
@require("viewer")
def history(request: HttpRequest, pool: str) -> HttpResponse:
    """The samples of the last 15 minutes and the marks of its changes, for the charts."""
    try:
        find_pool(pool)
        document = on_loop(_history_of(pool))
    except Problem as problem:
        return problem_response(problem)
    return JsonResponse({"fields": ["t", *FIELDS], "rows": document["rows"], "marks": log.marks(pool, SAMPLES)})
