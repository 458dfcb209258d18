"""The page of tokens: parse, call, render."""

from __future__ import annotations

from typing import Any

from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.utils.translation import gettext as _
from django.views.decorators.cache import never_cache
from django.views.decorators.debug import sensitive_post_parameters
from django.views.decorators.gzip import gzip_page
from django.views.decorators.http import require_GET, require_http_methods

from dashboard.frame import quoted_json, render_page
from dashboard.pool.page import address
from dashboard.roles import by_script, require
from dashboard.tokens.cells import SHOWN
from dashboard.tokens.cost import as_csv, bill
from dashboard.tokens.facts import facts, verdict
from dashboard.tokens.numbers import Numbers, numbers
from dashboard.tokens.play import MAX_CHARACTERS, SAMPLE, Asked, Played, play
from dashboard.tokens.query import RANGES, Query
from dashboard.tokens.words import phrases
from relay.http import Problem
from relay.telemetry.token_meter import CORE_HOUR_USD


@require_GET
@never_cache
@require("viewer")
@gzip_page
def show(request: HttpRequest) -> HttpResponse:
    """The page. `?range=` chooses for use and cost, `?model=` the playground's; `?format=csv` gives use as a table.

    `?fragment=1` gives what is inside the page, without the playground.
    """
    query = Query.of(request.GET)
    if request.GET.get("format") == "csv":
        headers = {"Content-Disposition": f'attachment; filename="tokens-{query.range}.csv"'}
        return HttpResponse(as_csv(query.range), content_type="text/csv; charset=utf-8", headers=headers)
    return _paint(request, query, Asked(model=query.model))


@require_http_methods(["GET", "POST"])
@sensitive_post_parameters("text")
@never_cache
@require("viewer")
@gzip_page
def try_out(request: HttpRequest) -> HttpResponse:
    """Counts the playground's text. The page's script gets the result alone, and else the whole page is painted with it."""
    if request.method == "GET":  # the address that stays in the bar after a form was sent
        return redirect("tokens")
    asked = Asked.of(request.POST)
    played: Played | None = None
    problem: Problem | None = None
    try:
        played = play(asked)
    except Problem as found:
        problem = found
    status = problem.status if problem else 200
    if by_script(request):
        return render_page(request, "dashboard/tokens_played.html", _played(request, asked, played, problem), status)
    return _paint(request, Query(model=asked.model), asked, played, problem)


def _paint(
    request: HttpRequest, query: Query, asked: Asked, played: Played | None = None, problem: Problem | None = None
) -> HttpResponse:
    found = numbers()
    fragment = "fragment" in request.GET
    template = "dashboard/tokens_body.html" if fragment else "dashboard/tokens.html"
    status = 503 if found is None else problem.status if problem else 200
    context = {"nav": "tokens", "numbers": found, "query": query, "fragment": fragment}
    if found is not None:
        context |= _context(found, query) | _played(request, asked, played, problem)
    return render_page(request, template, context, status)


def _context(found: Numbers, query: Query) -> dict[str, Any]:
    counted = bill(query.range)
    words = {"24h": _("24 h"), "7d": _("7 d"), "30d": _("30 d")}
    titles = {"24h": _("last 24 hours"), "7d": _("last 7 days"), "30d": _("last 30 days")}
    return {
        "verdict": verdict(found),
        "facts": facts(found, counted),
        "bill": counted,
        "ranges": [(name, words[name], query.to(range=name)) for name in RANGES],
        "range_title": titles[query.range],
        "core_hour": CORE_HOUR_USD,
        "page_words": quoted_json(phrases()),
        "max_characters": MAX_CHARACTERS,
    }


def _played(request: HttpRequest, asked: Asked, played: Played | None, problem: Problem | None) -> dict[str, Any]:
    shared = {"address": address(request), "shown": SHOWN, "sample": SAMPLE}
    return shared | {"asked": asked, "played": played, "problem": problem}
