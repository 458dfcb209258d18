"""Signing in and out, choosing a password, and the theme."""

from __future__ import annotations

import re

from django.conf import settings
from django.contrib import auth
from django.contrib.auth.decorators import login_required
from django.contrib.auth.models import User
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.utils.translation import gettext as _
from django.views.decorators.cache import never_cache
from django.views.decorators.debug import sensitive_post_parameters
from django.views.decorators.http import require_http_methods, require_POST

from dashboard.attempts import Attempts
from dashboard.frame import THEMES, own_path, render_page
from dashboard.roles import CHOOSE_FIRST
from relay.http import Problem
from relay.tenants.changes import Actor
from relay.tenants.people import choose_password, must_choose_password

_YEAR_S = 365 * 24 * 3600
_POOL_PAGE = re.compile(r"/pools/([a-z0-9][a-z0-9._-]{0,62})/")

attempts = Attempts()


@sensitive_post_parameters("password")
@require_http_methods(["GET", "POST"])
@never_cache
def sign_in(request: HttpRequest) -> HttpResponse:
    """The login page. Five wrong passwords for a name from one address: five minutes' pause for it there."""
    after = request.POST.get("next") or request.GET.get("next", "")
    if request.method == "GET":
        if request.user.is_authenticated:
            return redirect(own_path(after))
        return _login_page(request, after)
    name = request.POST.get("username", "")
    address = str(request.META.get("REMOTE_ADDR", ""))
    wait_s = attempts.begin(address, name)
    if wait_s:
        response = _login_page(request, after, _("Too many tries. Try again in %(wait)s s.") % {"wait": wait_s}, 429)
        response.headers["Retry-After"] = str(wait_s)
        return response
    user = auth.authenticate(request, username=name, password=request.POST.get("password", ""))
    if user is None:
        return _login_page(request, after, _("Name and password do not match"), 401)
    attempts.succeeded(address, name)
    auth.login(request, user)
    if isinstance(user, User) and must_choose_password(user):
        request.session[CHOOSE_FIRST] = own_path(after)
        return redirect("password")
    return redirect(own_path(after))


def _login_page(request: HttpRequest, after: str, wrong: str = "", status: int = 200) -> HttpResponse:
    pool = _POOL_PAGE.match(after)
    context = {
        "next": after,
        "pool": pool.group(1) if pool else "",
        "username": request.POST.get("username", ""),
        "wrong": wrong,
    }
    return render_page(request, "dashboard/login.html", context, status=status)


@sensitive_post_parameters("old", "new", "again")
@require_http_methods(["GET", "POST"])
@never_cache
@login_required
def password(request: HttpRequest) -> HttpResponse:
    """A new password; no page but this opens until the generated one is replaced."""
    user = request.user
    assert isinstance(user, User)
    after = request.session.get(CHOOSE_FIRST, "")
    errors: list[str] = []
    if request.method == "POST":
        errors = _new_password(request, user, first=bool(after))
        if not errors:
            request.session.pop(CHOOSE_FIRST, None)
            auth.update_session_auth_hash(request, user)
            return redirect(after or "overview")
    context = {"first": bool(after), "username": user.get_username(), "errors": errors}
    return render_page(request, "dashboard/password.html", context, status=400 if errors else 200)


def _new_password(request: HttpRequest, user: User, *, first: bool) -> list[str]:
    """Sets it, or says what is wrong. The first time, the old one was typed a moment ago."""
    old, new, again = (request.POST.get(field, "") for field in ("old", "new", "again"))
    address, name = str(request.META.get("REMOTE_ADDR", "")), user.get_username()
    if not first:
        wait_s = attempts.begin(address, name)
        if wait_s:
            return [_("Too many tries. Try again in %(wait)s s.") % {"wait": wait_s}]
        if not user.check_password(old):
            return [_("The present password is not that.")]
        attempts.succeeded(address, name)
    if new != again:
        return [_("The two are not the same. Type the new password twice.")]
    if user.check_password(new):
        return [_("It must differ from the old one.")]
    try:
        choose_password(user, new, Actor("person", name))
    except Problem as problem:
        return (problem.errors or {}).get("password", [problem.detail])
    return []


@require_POST
def sign_out(request: HttpRequest) -> HttpResponse:
    """Ends the session."""
    auth.logout(request)
    return redirect("login")


@never_cache
def admin_sign_in(request: HttpRequest, extra_context: object = None) -> HttpResponse:
    """The admin site's sign-in: the same page and the same limits as everybody's. Who may not go there gets 403."""
    if CHOOSE_FIRST in request.session:
        return redirect("password")
    if request.user.is_authenticated:
        raise PermissionDenied
    return redirect(f"{settings.LOGIN_URL}?{request.GET.urlencode()}")


def may_use_admin(request: HttpRequest) -> bool:
    """Whether the admin site opens: staff, with a password of their own."""
    return request.user.is_active and getattr(request.user, "is_staff", False) and CHOOSE_FIRST not in request.session


@require_POST
def theme(request: HttpRequest) -> HttpResponse:
    """Keeps the chosen theme in a cookie, and goes back."""
    response = redirect(own_path(request.POST.get("next", "")))
    chosen = request.POST.get("theme")
    if chosen in THEMES:
        secure = settings.SESSION_COOKIE_SECURE
        response.set_cookie("theme", str(chosen), max_age=_YEAR_S, samesite="Lax", secure=secure)
    return response
