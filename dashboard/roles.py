"""Who may do what on the pages: a viewer looks; an operator resizes, pauses, revokes; an admin also adds tenants, keys, people.

A role is a Django group of that name; a superuser is an admin; whoever is in no group is a viewer.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, Literal

from django.contrib.auth.models import AbstractBaseUser, AnonymousUser, User
from django.contrib.auth.views import redirect_to_login
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.http.response import HttpResponseBase
from django.shortcuts import redirect
from django.utils.translation import gettext as _

from relay.http import Problem

Role = Literal["viewer", "operator", "admin"]
View = Callable[..., HttpResponseBase]

# In the session of who signed in with the generated password, until they have chosen their own: where to go on to.
CHOOSE_FIRST = "choose-a-password-first"

ROLES: tuple[Role, ...] = ("viewer", "operator", "admin")


def role_of(user: AbstractBaseUser | AnonymousUser) -> Role:
    """The highest role that this person has. Reads the groups once per request."""
    if not isinstance(user, User):
        return "viewer"
    known: Role | None = getattr(user, "_relay_role", None)
    if known is not None:
        return known
    groups = {"admin"} if user.is_superuser else set(user.groups.values_list("name", flat=True))
    role: Role = next((role for role in reversed(ROLES) if role in groups), "viewer")
    user._relay_role = role  # type: ignore[attr-defined]
    return role


def may(user: AbstractBaseUser | AnonymousUser, role: Role) -> bool:
    """Whether this person has this role or a higher one."""
    return ROLES.index(role_of(user)) >= ROLES.index(role)


def by_script(request: HttpRequest) -> bool:
    """Whether a page's own script asks, which wants JSON or a fragment and no redirect."""
    return request.headers.get("X-Requested-With") == "fetch"


def problem_response(problem: Problem) -> JsonResponse:
    """A problem for a page's script, as the API would word it."""
    return JsonResponse(problem.body(), status=problem.status)


def require(role: Role) -> Callable[[View], View]:
    """Guards a view: strangers sign in first, who has the generated password chooses another, who lacks the role gets 403.

    A script gets each as a problem, not as a page.
    """

    def guard(view: View) -> View:
        @wraps(view)
        def run(request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponseBase:
            if not request.user.is_authenticated:
                return _sign_in_first(request)
            if CHOOSE_FIRST in request.session:
                return _choose_first(request)
            if not may(request.user, role):
                if by_script(request):
                    return problem_response(forbidden())
                raise PermissionDenied
            return view(request, *args, **kwargs)

        return run

    return guard


def forbidden() -> Problem:
    """403 in the reader's language."""
    return Problem(403, "forbidden", _("Your role may look, not change. Ask an operator."))


def _sign_in_first(request: HttpRequest) -> HttpResponse:
    if by_script(request):
        return problem_response(Problem(401, "unauthenticated", _("Your session has ended. Sign in again.")))
    return redirect_to_login(request.get_full_path() if request.method == "GET" else "/")


def _choose_first(request: HttpRequest) -> HttpResponse:
    if by_script(request):
        return problem_response(Problem(403, "forbidden", _("Choose your own password first.")))
    return redirect("password")
