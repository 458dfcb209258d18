"""The pages: parse, call, render."""

from __future__ import annotations

from typing import Any

from django.conf import settings
from django.contrib import auth, messages
from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils.http import url_has_allowed_host_and_scheme
from django.utils.translation import gettext as _
from django.views.decorators.cache import never_cache
from django.views.decorators.debug import sensitive_post_parameters
from django.views.decorators.http import require_GET, require_http_methods, require_POST

from dashboard import live
from dashboard.attempts import Attempts
from dashboard.overview import totals, verdict
from relay import __version__
from relay.http import Problem
from relay.permits import config
from relay.telemetry.health import HEALTHS
from relay.tenants.changes import Actor

THEMES = ("light", "dark")
_YEAR_S = 365 * 24 * 3600

attempts = Attempts()


def _page(request: HttpRequest, template: str, context: dict[str, Any], status: int = 200) -> HttpResponse:
    theme = request.COOKIES.get("theme")
    shell = {"theme": theme if theme in THEMES else "", "version": __version__}
    return render(request, template, shell | context, status=status)


def _own_path(path: str) -> str:
    """A path of this site to go on to; the overview for anything else."""
    return path if url_has_allowed_host_and_scheme(path, allowed_hosts=None) else reverse("overview")


def may_operate(request: HttpRequest) -> bool:
    """Whether this person may make and resize pools."""
    return request.user.has_perm("permits.change_pool")


@require_GET
@never_cache
@login_required
def overview(request: HttpRequest) -> HttpResponse:
    """All pools; `?fragment=1` gives what is inside the page only."""
    snapshot = live.snapshot()
    pools = snapshot.pools if snapshot else []
    context = {
        "snapshot": snapshot,
        "verdict": verdict(pools),
        "totals": totals(snapshot) if snapshot else [],
        "healths": HEALTHS,
        "may_operate": may_operate(request),
        "address": settings.RELAY_PUBLIC_URL or request.build_absolute_uri("/").rstrip("/"),
    }
    fragment = "fragment" in request.GET
    template = "dashboard/overview_body.html" if fragment else "dashboard/overview.html"
    return _page(request, template, context, status=200 if snapshot else 503)


@require_POST
@login_required
def new_pool(request: HttpRequest) -> HttpResponse:
    """Makes a pool."""
    fields = {"name": request.POST.get("name", "").strip(), "capacity": _whole(request.POST.get("capacity", ""))}
    return _change(request, lambda actor: config.create_pool(fields, actor=actor))


@require_POST
@login_required
def resize(request: HttpRequest, pool: str) -> HttpResponse:
    """Sets a pool's capacity: the number given, or one more or less than the one shown."""
    by = request.POST.get("by", "")
    if by in ("1", "-1"):
        capacity = _whole(request.POST.get("shown", ""))
        capacity = capacity + int(by) if isinstance(capacity, int) else capacity
    else:
        capacity = _whole(request.POST.get("capacity", ""))
    return _change(request, lambda actor: config.update_pool(pool, {"capacity": capacity}, actor=actor))


def _whole(text: str) -> int | str:
    """A whole number, or the text as it is: the configuration's own check says what is wrong with it."""
    text = text.strip()
    return int(text) if text.isascii() and text.isdigit() and len(text) < 10 else text


def _change(request: HttpRequest, act: Any) -> HttpResponse:
    """Makes a change as this person; says what went wrong on the page, or to its script."""
    by_script = request.headers.get("X-Requested-With") == "fetch"
    try:
        if not may_operate(request):
            raise Problem(403, "forbidden", _("Your role may look, not change. Ask an operator."))
        act(Actor("person", request.user.get_username()))
    except Problem as problem:
        if by_script:
            return JsonResponse(problem.body(), status=problem.status)
        messages.error(request, problem.detail)
    return HttpResponse(status=204) if by_script else redirect("overview")


@sensitive_post_parameters("password")
@require_http_methods(["GET", "POST"])
@never_cache
def sign_in(request: HttpRequest) -> HttpResponse:
    """The login page. Five wrong passwords for a name from one address: five minutes' pause for it there."""
    after = request.POST.get("next") or request.GET.get("next", "")
    if request.method == "GET":
        if request.user.is_authenticated:
            return redirect(_own_path(after))
        return _page(request, "dashboard/login.html", {"next": after})
    name = request.POST.get("username", "")
    address = str(request.META.get("REMOTE_ADDR", ""))
    again = {"next": after, "username": name}
    wait_s = attempts.wait_s(address, name)
    if wait_s:
        wrong = _("Too many tries. Try again in %(wait)s s.") % {"wait": wait_s}
        response = _page(request, "dashboard/login.html", again | {"wrong": wrong}, status=429)
        response.headers["Retry-After"] = str(wait_s)
        return response
    user = auth.authenticate(request, username=name, password=request.POST.get("password", ""))
    if user is None:
        attempts.failed(address, name)
        wrong = _("Name and password do not match")
        return _page(request, "dashboard/login.html", again | {"wrong": wrong}, status=401)
    attempts.succeeded(address, name)
    auth.login(request, user)
    return redirect(_own_path(after))


@require_POST
def sign_out(request: HttpRequest) -> HttpResponse:
    """Ends the session."""
    auth.logout(request)
    return redirect("login")


@require_POST
def theme(request: HttpRequest) -> HttpResponse:
    """Keeps the chosen theme in a cookie, and goes back."""
    response = redirect(_own_path(request.POST.get("next", "")))
    chosen = request.POST.get("theme")
    if chosen in THEMES:
        secure = settings.SESSION_COOKIE_SECURE
        response.set_cookie("theme", str(chosen), max_age=_YEAR_S, samesite="Lax", secure=secure)
    return response
