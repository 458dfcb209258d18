"""What cannot be undone: revoke a lease, cancel a wait, delete the pool. Asked first, with a reason."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from django.contrib import messages
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.shortcuts import redirect
from django.urls import reverse
from django.utils.translation import gettext as _
from django.utils.translation import ngettext
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods

from dashboard.frame import render_page
from dashboard.pool.look import SEARCHED
from dashboard.pool.query import Query
from dashboard.roles import by_script, problem_response, require
from relay.http import Problem
from relay.permits import acts, config
from relay.permits.engine.base import LeaseAnswer, WaiterView
from relay.permits.live import Serving, on_loop
from relay.tenants.changes import Actor


@require_http_methods(["GET", "POST"])
@never_cache
@require("operator")
def revoke(request: HttpRequest, pool: str, lease: str) -> HttpResponse:
    """Asks, then ends a lease; its permits go on at once."""

    def ask() -> dict[str, Any]:
        found = _lease(pool, lease)
        lost = ngettext("%(tenant)s loses one permit now.", "%(tenant)s loses %(count)s permits now.", found.permits)
        return {
            "title": _("Revoke %(lease)s?") % {"lease": f"{lease[:4]}…{lease[-4:]}"},
            "text": lost % {"tenant": found.tenant, "count": found.permits}
            + " "
            + _("%(holder)s is told at its next renewal. This cannot be undone.")
            % {"holder": found.holder or _("The holder")},
            "act": _("Revoke the lease"),
            "keep": _("Keep it"),
        }

    def act(actor: Actor, reason: str) -> str:
        found = _lease(pool, lease)
        if not acts.revoke(lease, actor=actor, reason=reason):
            raise Problem(410, "lease-released", _("The lease had ended already."))
        return _("lease of %(tenant)s revoked") % {"tenant": found.tenant}

    return _end(request, pool, "holders", ask, act)


@require_http_methods(["GET", "POST"])
@never_cache
@require("operator")
def cancel(request: HttpRequest, pool: str, waiter: str) -> HttpResponse:
    """Asks, then ends a wait; its caller is answered 409 `waiter-cancelled`."""

    def ask() -> dict[str, Any]:
        found = _waiter(pool, waiter)
        return {
            "title": _("Cancel this wait of %(tenant)s?") % {"tenant": found.tenant},
            "text": _("The caller is told at once that its wait was cancelled. This cannot be undone."),
            "act": _("Cancel the wait"),
            "keep": _("Let it wait"),
        }

    def act(actor: Actor, reason: str) -> str:
        found = _waiter(pool, waiter)
        acts.cancel(waiter, actor=actor, reason=reason)
        return _("waiter of %(tenant)s cancelled") % {"tenant": found.tenant}

    return _end(request, pool, "waiters", ask, act)


@require_http_methods(["GET", "POST"])
@never_cache
@require("operator")
def delete(request: HttpRequest, pool: str) -> HttpResponse:
    """Asks, then deletes the pool; `force` ends its leases and refuses its waiters."""

    def ask() -> dict[str, Any]:
        config.find_pool(pool)
        held, waiting = _busy(pool)
        text = _("Its shares go with it; its changes stay in the log. This cannot be undone.")
        if held or waiting:
            busy = _("%(held)s permits are held and %(waiting)s callers wait.")
            text = busy % {"held": held, "waiting": waiting} + f" {text}"
        return {
            "title": _("Delete %(pool)s?") % {"pool": pool},
            "text": text,
            "act": _("Delete the pool"),
            "keep": _("Keep it"),
            "force": _("End its leases and turn its waiters away") if held or waiting else "",
        }

    def act(actor: Actor, reason: str) -> str:
        config.delete_pool(pool, "force" in request.POST, actor=actor, reason=reason)
        return _("deleted")

    return _end(request, pool, "", ask, act)


def _end(
    request: HttpRequest, pool: str, tab: str, ask: Callable[[], dict[str, Any]], act: Callable[[Actor, str], str]
) -> HttpResponse:
    """GET asks (a dialog for the script, a page without it), POST acts. With no tab to go back to: to the overview."""
    back = Query(pool).to(tab=tab) if tab else reverse("overview")
    try:
        if request.method == "GET":
            asked = ask() | {"pool": pool, "back": back if tab else Query(pool).to(), "action": request.path}
            return render_page(request, f"dashboard/pool_{'dialog' if by_script(request) else 'ask'}.html", asked)
        said = act(Actor("person", request.user.get_username()), request.POST.get("reason", "").strip())
    except Problem as problem:
        return _refused(request, problem, Query(pool).to(tab=tab) if tab else Query(pool).to())
    if by_script(request):
        return JsonResponse({"said": said, "undo": None, "go": "" if tab else back})
    messages.success(request, f"{pool}: {said}")
    return redirect(back)


def _refused(request: HttpRequest, problem: Problem, back: str) -> HttpResponse:
    if by_script(request):
        return problem_response(problem)
    messages.error(request, problem.detail)
    return redirect(back)


def _lease(pool: str, lease_id: str) -> LeaseAnswer:
    def read(serving: Serving) -> LeaseAnswer:
        return serving.engine.lease(lease_id, None)

    found = on_loop(read)
    if found.pool != pool:
        raise Problem(404, "lease-not-found", _("There is no such lease in this pool."))
    return found


def _waiter(pool: str, waiter_id: str) -> WaiterView:
    def read(serving: Serving) -> list[WaiterView]:
        return serving.engine.waiters(pool, tenant=None, priority=None, offset=0, limit=SEARCHED)

    for waiter in on_loop(read):
        if waiter.waiter_id == waiter_id:
            return waiter
    raise Problem(404, "not-found", _("Nobody waits under this id any more."))


def _busy(pool: str) -> tuple[int, int]:
    """Permits that are held, and callers that wait."""

    def read(serving: Serving) -> tuple[int, int]:
        gauges = serving.engine.pool_gauges(pool)
        return (gauges.in_use, gauges.waiting) if gauges else (0, 0)

    return on_loop(read)
