"""The overview: parse, call, render."""

from __future__ import annotations

from django.conf import settings
from django.contrib import messages
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.shortcuts import redirect
from django.urls import reverse
from django.utils.translation import get_language, override
from django.utils.translation import gettext as _
from django.views.decorators.cache import cache_control, never_cache
from django.views.decorators.gzip import gzip_page
from django.views.decorators.http import require_GET, require_POST

from dashboard import live
from dashboard.edits import Outcome, apply_edits, read_edits, whole_number
from dashboard.frame import own_path, render_page
from dashboard.listing import Listing, as_csv, segments, sorts
from dashboard.overview import totals, verdict
from dashboard.roles import by_script, problem_response, require
from dashboard.templatetags.relay_ui import words as health_words
from dashboard.words import digest, phrases, say
from relay.http import Problem
from relay.permits import config
from relay.telemetry.health import HEALTHS
from relay.tenants.changes import Actor

YEAR_S = 31_536_000
DRAWN = 14  # rows with small lines in the page itself: the first screen; the script draws all of them a moment later


@require_GET
@never_cache
@require("viewer")
@gzip_page
def overview(request: HttpRequest) -> HttpResponse:
    """All pools. `?q=&state=&sort=` choose; `?fragment=1` gives what is inside the page, `?format=csv` a table."""
    return show(request, live.snapshot())


def show(request: HttpRequest, snapshot: live.Snapshot | None) -> HttpResponse:
    """The overview of these numbers. A fragment has no small lines: who asks for it draws them from the stream."""
    listing, fragment = Listing.of(request.GET), "fragment" in request.GET
    if snapshot and request.GET.get("format") == "csv":
        headers = {"Content-Disposition": 'attachment; filename="pools.csv"'}
        return HttpResponse(as_csv(listing, snapshot), content_type="text/csv; charset=utf-8", headers=headers)
    pools = snapshot.pools if snapshot else []
    context = {
        "snapshot": snapshot,
        "verdict": verdict(pools),
        "totals": totals(snapshot) if snapshot else [],
        "healths": HEALTHS,
        "listing": listing,
        "segments": segments(listing, pools, health_words()),
        "sorts": sorts(),
        "rows": listing.rows(pools, 0 if fragment else DRAWN),
        "no_match": bool(pools) and not any(map(listing.matches, pools)),
        "page_words": reverse("words", args=(get_language(), digest(str(get_language())))),
        "address": settings.RELAY_PUBLIC_URL or request.build_absolute_uri("/").rstrip("/"),
    }
    template = "dashboard/overview_body.html" if fragment else "dashboard/overview.html"
    return render_page(request, template, context, status=200 if snapshot else 503)


@require_GET
@cache_control(private=True, max_age=YEAR_S, immutable=True)
def words(request: HttpRequest, language: str, version: str) -> HttpResponse:
    """What the overview's script says, in a language. The address changes with the words, so that browsers keep them."""
    with override(language):
        return JsonResponse(phrases())


@require_POST
@require("operator")
def new_pool(request: HttpRequest) -> HttpResponse:
    """Makes a pool."""
    fields = {"name": request.POST.get("name", "").strip(), "capacity": whole_number(request.POST.get("capacity", ""))}
    try:
        config.create_pool(fields, actor=Actor("person", request.user.get_username()))
    except Problem as problem:
        if problem.code == "pool-exists":
            problem.detail = _("There is a pool %(name)s already. Choose another name.") % fields
        if by_script(request):
            return problem_response(problem)
        messages.error(request, problem.detail)
    return HttpResponse(status=204) if by_script(request) else redirect("overview")


@require_POST
@require("operator")
def change_pools(request: HttpRequest) -> HttpResponse:
    """Resizes, pauses and resumes pools of the table; what each became is told to the script, or on the page."""
    try:
        edits = read_edits(request.POST)
    except Problem as problem:
        if by_script(request):
            return problem_response(problem)
        messages.error(request, problem.detail)
        edits = []
    outcome = apply_edits(edits, request.user.get_username(), request.POST.get("reason", ""))
    if by_script(request):
        return JsonResponse(outcome.body(), status=outcome.status)
    _tell(request, outcome)
    return redirect(own_path(request.POST.get("next", "")))


def _tell(request: HttpRequest, outcome: Outcome) -> None:
    """Without a script: the next page says what went otherwise."""
    for pool, problem in outcome.problems:
        messages.error(request, f"{pool}: {problem.detail}")
    words = phrases()
    for conflict in outcome.conflicts:
        key = "conflict-size" if conflict.field == "size" else "conflict-state"
        what = say(words, key, now=conflict.now, wanted=conflict.wanted)
        messages.warning(
            request,
            f"{conflict.pool}: {conflict.actor} {what} {_('It is shown now. Set it again if you still want to.')}",
        )
