"""POST: draws, sets, pins or ends how a pool is sized. What is set can be taken back, with the size that a person had set."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from django.http import HttpRequest, HttpResponse, JsonResponse
from django.shortcuts import redirect
from django.urls import reverse
from django.utils.translation import gettext as _
from django.views.decorators.http import require_POST

from dashboard.pool import fields
from dashboard.pool.actions import change
from dashboard.pool.query import Query
from dashboard.pool.sizing_form import OF_RULE, sizing_from, typed
from dashboard.pool.sizing_words import rule_words
from dashboard.pool.undo import Done
from dashboard.roles import by_script, require
from relay.http import Problem, invalid
from relay.permits.config import find_pool
from relay.permits.models import Pool
from relay.permits.sizing import config
from relay.permits.sizing.rows import sizing_fields
from relay.tenants.changes import Actor

Write = Callable[[HttpRequest, Pool, Actor, str], tuple[Pool, str]]


@require_POST
@require("operator")
def size(request: HttpRequest, pool: str) -> HttpResponse:
    """`act`: try (draw only), set, dry, fix, unpin, or restore, which is an Undo."""
    rule = request.POST.get("rule", "")
    given = typed({name: str(request.POST[name]) for name in request.POST})
    tried = Query.of(request, pool).to(tab="sizing", rule=rule, sizing=tuple(given.items())) if rule in OF_RULE else ""
    if request.POST.get("act") == "try" and tried:
        return JsonResponse({"to": tried}) if by_script(request) else redirect(f"{tried}#details")

    def act(actor: Actor, reason: str) -> Done:
        write = _WRITES.get(request.POST.get("act", ""))
        if write is None:
            raise Problem(400, "invalid", _("Choose what to do with the sizing."))
        before = find_pool(pool)
        row, said = write(request, before, actor, reason)
        if row.version == before.version:
            return Done(_("nothing changed"))
        return Done(said, reverse("pool-sizing", args=[pool]), _back(before, row))

    return change(request, pool, act, tab="sizing", refused_to=f"{tried}#details" if tried else "")


def _back(before: Pool, row: Pool) -> tuple[tuple[str, str], ...]:
    """The form that takes it back: the sizing as it was; where a person had set the size, that too."""
    was = "" if before.sizing is None else json.dumps(before.sizing)
    capacity = str(before.capacity) if before.sizing is None else ""
    return (("act", "restore"), ("was", was), ("capacity", capacity), ("version", str(row.version)))


def _set(request: HttpRequest, pool: Pool, actor: Actor, reason: str) -> tuple[Pool, str]:
    rule, dry_run = request.POST.get("rule", ""), request.POST.get("act") == "dry"
    if rule not in OF_RULE:
        raise invalid("policy.kind", _("choose by load, by schedule or adaptive"))
    sizing = sizing_from(rule, {name: str(request.POST[name]) for name in request.POST}, dry_run=dry_run)
    said = _("sized %(rule)s, as a dry run") if dry_run else _("sized %(rule)s")
    return _put(request, pool, sizing_fields(sizing) or {}, actor, reason), said % {"rule": rule_words()[rule].lower()}


def _put(request: HttpRequest, pool: Pool, sizing: dict[str, Any], actor: Actor, reason: str) -> Pool:
    return config.put_sizing(pool.name, sizing, fields.version(request), actor=actor, reason=reason)


def _fix(request: HttpRequest, pool: Pool, actor: Actor, reason: str) -> tuple[Pool, str]:
    row = config.delete_sizing(pool.name, fields.version(request), actor=actor, reason=reason)
    return row, _("fixed at %(size)s") % {"size": row.capacity}


def _unpin(request: HttpRequest, pool: Pool, actor: Actor, reason: str) -> tuple[Pool, str]:
    row = config.patch_sizing(pool.name, {"pin": None}, fields.version(request), actor=actor, reason=reason)
    return row, _("pin taken away: the rule decides")


def _restore(request: HttpRequest, pool: Pool, actor: Actor, reason: str) -> tuple[Pool, str]:
    try:
        was = json.loads(request.POST.get("was", "") or "null")
    except ValueError:
        was = 0
    if was is not None and not isinstance(was, dict):
        raise invalid("was", _("This cannot be taken back any more."))
    said = _("sized as before")
    if was is not None:
        return _put(request, pool, was, actor, reason), said
    capacity = fields.whole(request.POST.get("capacity", ""))
    size = capacity if isinstance(capacity, int) else None
    row = config.delete_sizing(pool.name, fields.version(request), actor=actor, reason=reason, capacity=size)
    return row, said


_WRITES: dict[str, Write] = {"set": _set, "dry": _set, "fix": _fix, "unpin": _unpin, "restore": _restore}
