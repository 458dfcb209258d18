"""POST: what a person changes on a pool. Each is one change in the log, and says how to take it back."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from django.contrib import messages
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.shortcuts import redirect
from django.urls import reverse
from django.utils.translation import gettext as _
from django.views.decorators.http import require_POST

from dashboard.pool import fields, log, undo
from dashboard.pool.page import paint
from dashboard.pool.query import Query
from dashboard.pool.undo import Done
from dashboard.roles import by_script, require
from relay.http import Problem
from relay.permits import config
from relay.permits.serializers import SHARE_FIELDS
from relay.tenants.changes import Actor

Act = Callable[[Actor, str], Done]


@require_POST
@require("operator")
def resize(request: HttpRequest, pool: str) -> HttpResponse:
    """Sets the capacity, if the pool is still at the version that the person saw."""
    capacity = fields.whole(request.POST.get("capacity", ""))

    def act(actor: Actor, reason: str) -> Done:
        found, given, seen = config.find_pool(pool), {"capacity": capacity}, fields.version(request)
        before = found.capacity
        row = config.update_pool(pool, given, seen, actor=actor, reason=reason, pin=fields.pin(request.POST))
        said = _("capacity %(from)s → %(to)s") % {"from": before, "to": row.capacity}
        if row.version == found.version:
            return Done(_("capacity %(capacity)s, as before") % {"capacity": before})
        if row.capacity == before:
            said = _("pinned at %(size)s") % {"size": before}
        back = [("capacity", str(before)), ("version", str(row.version))]
        if found.sizing is not None:
            back.append(("pin", fields.text(found.sizing["pin"])))
        return Done(said, reverse("pool-resize", args=[pool]), tuple(back))

    return change(request, pool, act)


@require_POST
@require("operator")
def set_state(request: HttpRequest, pool: str) -> HttpResponse:
    """Pauses, drains or resumes."""
    state = request.POST.get("state", "")

    def act(actor: Actor, reason: str) -> Done:
        if state not in ("active", "paused", "draining"):
            raise Problem(400, "invalid", _("Choose pause, drain or resume."))
        before = config.find_pool(pool).state
        row = config.set_pool_state(pool, state, fields.version(request), actor=actor, reason=reason)  # type: ignore[arg-type]
        said = {"active": _("resumed"), "paused": _("paused"), "draining": _("draining")}[row.state]
        if row.state == before:
            return Done(said)
        back = (("state", before), ("version", str(row.version)))
        return Done(said, reverse("pool-state", args=[pool]), back)

    return change(request, pool, act)


@require_POST
@require("operator")
def put_share(request: HttpRequest, pool: str, tenant: str) -> HttpResponse:
    """Sets a tenant's share, or takes it away (`remove`)."""

    def act(actor: Actor, reason: str) -> Done:
        row = config.find_pool(pool)
        before = next((share for share in config.shares_of(row) if share.tenant.name == tenant), None)
        version = fields.version(request)
        if "remove" in request.POST:
            config.delete_share(pool, tenant, version, actor=actor, reason=reason)
            said = _("share of %(tenant)s taken away") % {"tenant": tenant}
        else:
            config.put_share(pool, tenant, fields.share(request.POST), version, actor=actor, reason=reason)
            said = _("share of %(tenant)s set") % {"tenant": tenant}
        now = config.find_pool(pool)
        if now.version == row.version:
            return Done(_("nothing changed"))
        back: list[tuple[str, str]] = [("version", str(now.version))]
        if before is None:
            back.append(("remove", "1"))
        else:
            back += [(name, fields.text(getattr(before, name))) for name in SHARE_FIELDS]
        return Done(said, reverse("pool-share", args=[pool, tenant]), tuple(back))

    return change(request, pool, act, tab="tenants")


@require_POST
@require("operator")
def new_share(request: HttpRequest, pool: str) -> HttpResponse:
    """Sets the share of a tenant whose name was typed."""
    return put_share(request, pool, request.POST.get("tenant", "").strip())  # type: ignore[return-value]


def change(request: HttpRequest, pool: str, act: Act, tab: str = "", refused_to: str = "") -> HttpResponse:
    """Makes a change as this person; tells the script, or goes back to the page and says it there.

    `refused_to`: the page to go back to if it is refused, which holds what was typed.
    """
    actor = Actor("person", request.user.get_username())
    try:
        done = act(actor, request.POST.get("reason", "").strip())
    except Problem as problem:
        return _refused(request, pool, problem, refused_to or _back(request, pool, tab))
    if by_script(request):
        return JsonResponse(done.answer())
    if done.url:
        undo.keep(request, pool, done)
    else:
        messages.success(request, f"{pool}: {done.said}")
    return redirect(_back(request, pool, tab))


def _refused(request: HttpRequest, pool: str, problem: Problem, back: str) -> HttpResponse:
    conflict = _conflict(request, pool) if problem.code == "version-conflict" else None
    if by_script(request):
        return JsonResponse(problem.body() | {"conflict": conflict}, status=problem.status)
    if conflict is not None:
        return paint(request, pool, conflict=conflict, status=412)
    messages.error(request, conflict["text"] if conflict else problem.detail)
    return redirect(back)


def _conflict(request: HttpRequest, pool: str) -> dict[str, Any]:
    """Who was first, what they did, and what the pool is now."""
    row = config.find_pool(pool)
    entry = log.last_change(pool)
    wanted = request.POST.get("capacity", "")
    return {
        "text": _("%(who)s was first: %(what)s. Yours was not applied.") % {"who": entry.who, "what": entry.line}
        if entry
        else _("The pool has changed. Yours was not applied."),
        "at": entry.iso if entry else "",
        "utc": entry.utc if entry else "",
        "clock": entry.clock if entry else "",
        "version": row.version,
        "capacity": row.capacity,
        "wanted": wanted,
    }


def _back(request: HttpRequest, pool: str, tab: str) -> str:
    query = Query.of(request, pool)
    return query.to(tab=tab) if tab else query.to()
